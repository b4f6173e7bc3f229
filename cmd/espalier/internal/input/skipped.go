package input

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// SkipReason is a reason why a part of the input is not read or not judged.
type SkipReason uint8

const (
	// OtherDocument is the reason of documents that are not of the kind that [Flags.Keep] selects.
	OtherDocument SkipReason = iota
	// HelmTemplate is the reason of documents that have to be rendered first.
	HelmTemplate
	// ToolConfiguration is the reason of documents that have apiVersion and kind, but are read by
	// a program and never sent to an API server.
	ToolConfiguration
	// EncryptedDocument is the reason of objects that SOPS has encrypted.
	EncryptedDocument
	// HiddenFile is the reason of files and directories whose names start with a dot.
	HiddenFile
	// KustomizeFile is the reason of files that kustomize uses and that are not objects, such as
	// patches.
	KustomizeFile
	// LibraryChart is the reason of Helm charts that only other charts use.
	LibraryChart
	// UnjudgedValue is the reason of findings about values with variables of Flux.
	UnjudgedValue

	reasons
)

// names are the keys of reasons in formats for programs, and nouns those in texts.
var names, nouns = [reasons]string{
	"otherDocuments", "helmTemplates", "toolConfigurations", "encryptedObjects", "hiddenFiles", "kustomizeFiles", "libraryCharts", "unjudgedFindings",
}, [reasons][2]string{
	OtherDocument:     {"other document", "other documents"},
	HelmTemplate:      {"Helm template", "Helm templates"},
	ToolConfiguration: {"configuration of a tool", "configurations of tools"},
	EncryptedDocument: {"object encrypted by SOPS", "objects encrypted by SOPS"},
	HiddenFile:        {"hidden file or directory", "hidden files and directories"},
	KustomizeFile:     {"kustomize file that is no object", "kustomize files that are no objects"},
	LibraryChart:      {"library chart", "library charts"},
	UnjudgedValue:     {"finding about a value with ${variables}", "findings about values with ${variables}"},
}

// Skipped counts what is skipped, by reason. It is safe for concurrent use, and a nil Skipped
// counts nothing.
type Skipped struct {
	counts [reasons]atomic.Int64
	// templates counts the Helm templates among them that were found in directories.
	templates atomic.Int64
	// strangers counts documents that were found in directories and read, although they are no
	// manifests.
	strangers atomic.Int64

	mu sync.Mutex
	// charts has the number of templates of charts that were not rendered because helm is not
	// installed, and kustomizations has those that were not built, with the reason.
	charts         map[string]int
	kustomizations map[string]string
}

// unrendered counts the templates of a chart that were not rendered because helm is not installed.
func (s *Skipped) unrendered(chart string, templates int) {
	if s == nil || templates == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.charts == nil {
		s.charts = map[string]int{}
	}
	s.charts[chart] = templates
}

// unbuilt remembers why a kustomization was not built.
func (s *Skipped) unbuilt(dir, why string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kustomizations == nil {
		s.kustomizations = map[string]string{}
	}
	s.kustomizations[dir] = why
}

// notes returns what was read without the program that renders it.
func (s *Skipped) notes() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	templates := 0
	for _, n := range s.charts {
		templates += n
	}
	if templates > 0 {
		all = append(all, fmt.Sprintf("%s of %s (helm is not in PATH: install it to render them)",
			plural(templates, nouns[HelmTemplate]), plural(len(s.charts), [2]string{"chart", "charts"})))
	}
	for _, dir := range slices.Sorted(maps.Keys(s.kustomizations)) {
		all = append(all, "the kustomization of "+dir+", whose files were read as they are ("+s.kustomizations[dir]+")")
	}
	return all
}

func plural(n int, noun [2]string) string {
	if n == 1 {
		return "1 " + noun[0]
	}
	return fmt.Sprintf("%d %s", n, noun[1])
}

// Count counts one more.
func (s *Skipped) Count(r SkipReason) { s.Add(r, 1) }

// Add counts n more.
func (s *Skipped) Add(r SkipReason, n int) {
	if s != nil {
		s.counts[r].Add(int64(n))
	}
}

// Templates returns the number of Helm templates that were found in directories and skipped.
func (s *Skipped) Templates() int {
	if s == nil {
		return 0
	}
	return int(s.templates.Load())
}

// Hint returns a line about documents that --skip-other-files would skip, or "" if there are none.
func (s *Skipped) Hint() string {
	if s == nil || s.strangers.Load() == 0 {
		return ""
	}
	n := int(s.strangers.Load())
	verb := "are"
	if n == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s %s no manifests, but Helm templates or files of other tools: --skip-other-files skips them",
		plural(n, [2]string{"document", "documents"}), verb)
}

// Documents returns the number of documents that were skipped.
func (s *Skipped) Documents() (n int) {
	if s != nil {
		for r := OtherDocument; r <= EncryptedDocument; r++ {
			n += int(s.counts[r].Load())
		}
	}
	return n
}

// Counts returns the numbers by the names of the reasons, or nil if nothing was skipped.
func (s *Skipped) Counts() map[string]int {
	var all map[string]int
	for r := range reasons {
		if s == nil {
			break
		}
		if n := s.counts[r].Load(); n > 0 {
			if all == nil {
				all = map[string]int{}
			}
			all[names[r]] = int(n)
		}
	}
	return all
}

// String returns a line with the numbers, and the flags that change them. It returns "" if nothing
// was skipped, or only other documents, which the summary counts anyway.
func (s *Skipped) String() string {
	count := func(from, to SkipReason) string {
		var all []string
		for r := from; r <= to; r++ {
			if n := s.counts[r].Load(); n > 0 {
				all = append(all, plural(int(n), nouns[r]))
			}
		}
		return strings.Join(all, ", ")
	}
	if s == nil {
		return ""
	}
	parts := s.notes()
	if len(parts) == 0 && len(s.Counts()) == 1 && s.counts[OtherDocument].Load() > 0 {
		return ""
	}
	if text := count(OtherDocument, HiddenFile); text != "" {
		parts = append(parts, text+" (--skip-other-files=false reads them)")
	}
	if text := count(KustomizeFile, KustomizeFile); text != "" {
		parts = append(parts, text+" (--kustomize builds, --kustomize=read reads them)")
	}
	if text := count(LibraryChart, LibraryChart); text != "" {
		parts = append(parts, text+" (charts that use them render them)")
	}
	if text := count(UnjudgedValue, UnjudgedValue); text != "" {
		parts = append(parts, text+" (--skip-other-files=false reports them)")
	}
	if len(parts) == 0 {
		return ""
	}
	return "skipped: " + strings.Join(parts, "; ")
}

// configurationGroups are groups of documents that programs read and that are never sent to an API
// server. A name that starts with a dot stands for all groups that end with it.
var configurationGroups = []string{
	"kustomize.config.k8s.io", "builtin", "config.kubernetes.io", // kustomize and its functions
	"kind.x-k8s.io", "ctlptl.dev", "k3d.io", "minikube.sigs.k8s.io", "eksctl.io", "skaffold", "tilt.dev", // local clusters
	"kubeadm.k8s.io", "kubelet.config.k8s.io", "kubeproxy.config.k8s.io", "kubescheduler.config.k8s.io",
	"apiserver.config.k8s.io", "apiserver.k8s.io", "audit.k8s.io", "client.authentication.k8s.io", "credentialprovider.kubelet.k8s.io",
	"controller-runtime.sigs.k8s.io", "scorecard.operatorframework.io", "meta.pkg.crossplane.io",
	"kuttl.dev", "chainsaw.kyverno.io", "cli.kyverno.io", "schema.plugin.fluxcd.io", "backstage.io",
	"clusterctl.cluster.x-k8s.io",
}

// configures reports whether an object configures a program.
func (it *Item) configures() bool {
	group, _, ok := strings.Cut(it.APIVersion(), "/")
	if !ok {
		return it.APIVersion() == "v1" && it.Kind() == "Config" // of kubectl
	}
	return slices.Contains(configurationGroups, group)
}

// encrypted reports whether SOPS has encrypted an object.
func (it *Item) encrypted() bool {
	return bytes.Contains(it.JSON, []byte("ENC[")) && it.Field("sops") == '{'
}

// skipItem returns why an object of a source repository is skipped.
func (it *Item) skipItem() (SkipReason, bool) {
	switch {
	case !it.resemblesObject():
		return OtherDocument, true
	case it.configures():
		return ToolConfiguration, true
	case it.encrypted():
		return EncryptedDocument, true
	}
	return 0, false
}

// SkipOthers sets whether the input is read as a source repository, which also has files of other
// programs than kubectl. Then keep selects the documents.
func (f *Flags) SkipOthers(on bool, keep Filter) {
	f.SkipHidden, f.Keep = on, Everything
	if on {
		f.Keep = keep
	}
}
