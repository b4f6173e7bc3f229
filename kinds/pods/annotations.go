package pods

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// appArmorPrefix precedes the name of a container in deprecated annotations.
const appArmorPrefix = corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix

// Annotations validates the annotations of pods and templates that Kubernetes itself uses.
func Annotations(annotations map[string]string, spec *corev1.PodSpec, path *field.Path, opts Options) (errs field.ErrorList) {
	if value, ok := annotations[corev1.MirrorPodAnnotationKey]; ok && spec.NodeName == "" {
		errs = append(errs, field.Invalid(path.Key(corev1.MirrorPodAnnotationKey), value,
			"must set spec.nodeName if mirror pod annotation is set"))
	}
	if value := annotations[corev1.TolerationsAnnotationKey]; value != "" {
		var tolerations []corev1.Toleration
		if err := json.Unmarshal([]byte(value), &tolerations); err != nil {
			errs = append(errs, field.Invalid(path, corev1.TolerationsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, validateTolerations(tolerations, path.Child(corev1.TolerationsAnnotationKey), opts)...)
		}
	}
	if _, err := deletionCost(annotations); err != nil && !opts.deletionCost {
		errs = append(errs, field.Invalid(path.Key(corev1.PodDeletionCost), annotations[corev1.PodDeletionCost], "must be a 32bit integer"))
	}
	if profile, ok := annotations[corev1.SeccompPodAnnotationKey]; ok {
		errs = append(errs, seccompAnnotation(profile, path.Child(corev1.SeccompPodAnnotationKey))...)
	}
	keys := rules.Keys(annotations)
	for _, key := range keys {
		if strings.HasPrefix(key, corev1.SeccompContainerAnnotationKeyPrefix) {
			errs = append(errs, seccompAnnotation(annotations[key], path.Child(key))...)
		}
	}
	for _, key := range keys {
		if name, ok := strings.CutPrefix(key, appArmorPrefix); ok {
			errs = append(errs, appArmorAnnotation(name, annotations[key], spec, path.Key(key))...)
		}
	}
	return errs
}

func seccompAnnotation(profile string, path *field.Path) field.ErrorList {
	switch profile {
	case corev1.SeccompProfileRuntimeDefault, corev1.DeprecatedSeccompProfileDockerDefault, corev1.SeccompProfileNameUnconfined:
		return nil
	}
	if file, ok := strings.CutPrefix(profile, corev1.SeccompLocalhostProfileNamePrefix); ok {
		return rules.RelativePath(file, path)
	}
	return field.ErrorList{field.Invalid(path, profile, "must be a valid seccomp profile")}
}

func appArmorAnnotation(container, profile string, spec *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if !anyContainer(spec, func(c *corev1.Container) bool { return c.Name == container }) {
		errs = append(errs, field.Invalid(path, container, "container not found"))
	}
	switch {
	case profile == "", profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault,
		profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
	case !strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix):
		errs = append(errs, field.Invalid(path, profile, fmt.Sprintf("invalid AppArmor profile name: %q", profile)))
	}
	return errs
}

// validateAnnotationUpdate rejects changes of annotations that describe the running pod.
func validateAnnotationUpdate(pod, old *corev1.Pod, path *field.Path, opts Options) (errs field.ErrorList) {
	for _, key := range rules.Keys(old.Annotations) {
		if value, ok := pod.Annotations[key]; ok && value == old.Annotations[key] {
			continue
		}
		if strings.HasPrefix(key, appArmorPrefix) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not remove or update AppArmor annotations"))
		}
		if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(path.Key(key), "may not remove or update mirror pod annotation"))
		}
	}
	for _, key := range rules.Keys(pod.Annotations) {
		if _, ok := old.Annotations[key]; ok {
			continue
		}
		if strings.HasPrefix(key, appArmorPrefix) {
			errs = append(errs, field.Forbidden(path.Key(key), "may not add AppArmor annotations"))
		}
		if key == corev1.MirrorPodAnnotationKey {
			errs = append(errs, field.Forbidden(path.Key(key), "may not add mirror pod annotation"))
		}
	}
	return append(errs, Annotations(pod.Annotations, &pod.Spec, path, opts)...)
}

// validateProfileAnnotations rejects deprecated annotations for profiles that differ from the
// fields. The annotations of new pods become fields of their containers.
func validateProfileAnnotations(meta *metav1.ObjectMeta, spec *corev1.PodSpec, isPod bool, path *field.Path) (errs field.ErrorList) {
	security := spec.SecurityContext
	if annotation, ok := meta.Annotations[corev1.SeccompPodAnnotationKey]; ok && security != nil {
		errs = append(errs, seccompConflict(annotation, security.SeccompProfile, path.Child("securityContext", "seccompProfile"))...)
	}
	for at, c := range containers(spec, path) {
		if annotation, ok := meta.Annotations[corev1.SeccompContainerAnnotationKeyPrefix+c.Name]; ok && c.SecurityContext != nil {
			errs = append(errs, seccompConflict(annotation, c.SecurityContext.SeccompProfile,
				at.Child("securityContext", "seccompProfile"))...)
		}
	}
	if isWindows(spec) {
		return errs
	}
	for at, c := range containers(spec, path) {
		annotation, ok := meta.Annotations[appArmorPrefix+c.Name]
		if !ok {
			continue
		}
		var profile *corev1.AppArmorProfile
		if security != nil {
			profile = security.AppArmorProfile
		}
		if moved := movedProfile(annotation); isPod && moved != nil {
			profile = moved
		}
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			profile = c.SecurityContext.AppArmorProfile
		}
		if profile != nil {
			errs = append(errs, appArmorConflict(annotation, profile, at.Child("securityContext", "appArmorProfile"))...)
		}
	}
	return errs
}

func seccompConflict(annotation string, profile *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if profile == nil {
		return nil
	}
	match := true
	switch profile.Type {
	case corev1.SeccompProfileTypeUnconfined:
		match = annotation == corev1.SeccompProfileNameUnconfined
	case corev1.SeccompProfileTypeRuntimeDefault:
		match = annotation == corev1.SeccompProfileRuntimeDefault || annotation == corev1.DeprecatedSeccompProfileDockerDefault
	case corev1.SeccompProfileTypeLocalhost:
		var file string
		file, match = strings.CutPrefix(annotation, corev1.SeccompLocalhostProfileNamePrefix)
		if match && (profile.LocalhostProfile == nil || file != *profile.LocalhostProfile) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "seccomp profile in annotation and field must match")}
		}
	}
	if !match {
		return field.ErrorList{field.Forbidden(path.Child("type"), "seccomp type in annotation and field must match")}
	}
	return nil
}

func appArmorConflict(annotation string, profile *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	match := true
	switch profile.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		match = annotation == corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	case corev1.AppArmorProfileTypeRuntimeDefault:
		match = annotation == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case corev1.AppArmorProfileTypeLocalhost:
		var name string
		name, match = strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		if match && (profile.LocalhostProfile == nil || name != *profile.LocalhostProfile) {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "apparmor profile in annotation and field must match")}
		}
	}
	if !match {
		return field.ErrorList{field.Forbidden(path.Child("type"), "apparmor type in annotation and field must match")}
	}
	return nil
}

// appArmorProfile returns the profile of a deprecated annotation, or nil.
func appArmorProfile(annotation string) *corev1.AppArmorProfile {
	switch annotation {
	case corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	if name, ok := strings.CutPrefix(annotation, corev1.DeprecatedAppArmorBetaProfileNamePrefix); ok && name != "" {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return nil
}

// movedProfile returns the profile of a deprecated annotation if it is valid.
func movedProfile(annotation string) *corev1.AppArmorProfile {
	if profile := appArmorProfile(annotation); len(validateAppArmor(profile, nil)) == 0 {
		return profile
	}
	return nil
}
