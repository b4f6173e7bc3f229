package pods

import (
	corev1 "k8s.io/api/core/v1"
)

// alphaFields clears the fields that version 1.37 adds for features that are alpha, or reports
// whether there are any if clear is false.
func alphaFields(spec *corev1.PodSpec, clear bool) (found bool) {
	f := fieldSet{clear: clear}
	alpha(&f, &spec.EvictionResponders, len(spec.EvictionResponders) > 0)
	for i := range spec.Volumes {
		f.volume(&spec.Volumes[i].VolumeSource)
	}
	for _, c := range containers(spec, nil) {
		f.container(c)
	}
	return f.found
}

// fieldSet finds or clears fields.
type fieldSet struct{ clear, found bool }

func alpha[T any](f *fieldSet, to *T, set bool) {
	if !set {
		return
	}
	f.found = true
	if f.clear {
		var empty T
		*to = empty
	}
}

func pointer[T any](f *fieldSet, to **T) { alpha(f, to, *to != nil) }

func (f *fieldSet) volume(v *corev1.VolumeSource) {
	if v.EmptyDir != nil {
		pointer(f, &v.EmptyDir.Mode)
	}
	if v.Secret != nil {
		pointer(f, &v.Secret.DefaultUser)
		f.files(v.Secret.Items)
	}
	if v.ConfigMap != nil {
		pointer(f, &v.ConfigMap.DefaultUser)
		f.files(v.ConfigMap.Items)
	}
	if v.DownwardAPI != nil {
		pointer(f, &v.DownwardAPI.DefaultUser)
		f.downwardFiles(v.DownwardAPI.Items)
	}
	if v.Projected == nil {
		return
	}
	pointer(f, &v.Projected.DefaultUser)
	for i := range v.Projected.Sources {
		s := &v.Projected.Sources[i]
		if s.Secret != nil {
			f.files(s.Secret.Items)
		}
		if s.ConfigMap != nil {
			f.files(s.ConfigMap.Items)
		}
		if s.DownwardAPI != nil {
			f.downwardFiles(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			pointer(f, &s.ServiceAccountToken.User)
		}
	}
}

func (f *fieldSet) files(items []corev1.KeyToPath) {
	for i := range items {
		pointer(f, &items[i].User)
	}
}

func (f *fieldSet) downwardFiles(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		pointer(f, &items[i].User)
	}
}

func (f *fieldSet) container(c *corev1.Container) {
	for i := range c.VolumeMounts {
		alpha(f, &c.VolumeMounts[i].BindMountOptions, len(c.VolumeMounts[i].BindMountOptions) > 0)
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		if probe.HTTPGet != nil {
			pointer(f, &probe.HTTPGet.Protocol)
		}
		if probe.GRPC != nil {
			pointer(f, &probe.GRPC.Mode)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if handler != nil && handler.HTTPGet != nil {
			pointer(f, &handler.HTTPGet.Protocol)
		}
	}
}
