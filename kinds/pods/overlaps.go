package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// file is a file in a volume, with the source that it comes from.
type file struct{ path, source string }

// String returns the form in warnings.
func (f file) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

func keyFiles(items []corev1.KeyToPath, source string) (files []file) {
	for _, item := range items {
		files = append(files, file{item.Path, source})
	}
	return files
}

func downwardFiles(items []corev1.DownwardAPIVolumeFile, source string) (files []file) {
	for _, item := range items {
		files = append(files, file{item.Path, source})
	}
	return files
}

// warnOverlaps warns about files of a volume that hide each other.
func (w *warner) warnOverlaps() {
	for _, v := range w.spec.Volumes {
		if v.ConfigMap != nil {
			w.warnFiles(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, ""))
		}
		if v.Secret != nil {
			w.warnFiles(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), keyFiles(v.Secret.Items, ""))
		}
		if v.DownwardAPI != nil {
			w.warnFiles(v.Name, "DownwardAPI", downwardFiles(v.DownwardAPI.Items, ""))
		}
		if v.Projected == nil {
			continue
		}
		var files []file
		for _, source := range v.Projected.Sources {
			switch {
			case source == corev1.VolumeProjection{}:
				w.warn("volume %q (Projected) has no sources provided", v.Name)
			case source.ConfigMap != nil && source.ConfigMap.Items != nil:
				files = append(files, keyFiles(source.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", source.ConfigMap.Name))...)
			case source.Secret != nil && source.Secret.Items != nil:
				files = append(files, keyFiles(source.Secret.Items, fmt.Sprintf("Secret %q", source.Secret.Name))...)
			case source.DownwardAPI != nil && source.DownwardAPI.Items != nil:
				files = append(files, downwardFiles(source.DownwardAPI.Items, "DownwardAPI")...)
			case source.ServiceAccountToken != nil:
				files = append(files, file{source.ServiceAccountToken.Path, "ServiceAccountToken"})
			}
		}
		w.warnFiles(v.Name, "Projected", files)
	}
}

// maxComparisons bounds the comparisons of files, each with all before it: 2,000 files of a pod.
const maxComparisons = 2_000_000

// warnFiles warns about each file that is equal to, in or around one before it.
func (w *warner) warnFiles(volume, source string, files []file) {
	directories := make([]string, len(files))
	for i := range files {
		files[i].path = strings.TrimRight(files[i].path, "/")
		directories[i] = files[i].path + "/"
		if w.compared += i; w.compared > maxComparisons || w.full() {
			return
		}
		for j, before := range files[:i] {
			a, b := directories[i], directories[j]
			if a != "/" && b != "/" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
				w.warn("volume %q (%s): overlapping paths: %s with %s", volume, source, files[i], before)
			}
		}
	}
}
