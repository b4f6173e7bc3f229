// Package rules has the rules that several of Kubernetes' own kinds share: metadata, immutable
// fields, enums and names. Errors have the texts and the order of kube-apiserver.
package rules

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ObjectMeta validates the metadata of a new object, and of an updated object of kinds that
// validate it as if it were new. name validates the name.
func ObjectMeta(meta *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(meta, namespaced, name, path)
	return append(errs, finalizers(meta, path)...)
}

// ObjectMetaWithName is ObjectMeta for kinds that validate generated names, but not the prefix
// that a client asked for.
func ObjectMetaWithName(meta *metav1.ObjectMeta, namespaced bool,
	name apivalidation.ValidateNameFuncWithErrors, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaWithOpts(meta, namespaced, name, path)
	return append(errs, finalizers(meta, path)...)
}

// LongName validates a name as kinds do whose names kube-apiserver validates declaratively. Its message
// has other words than that of Subdomain.
func LongName(path *field.Path, name string) field.ErrorList {
	return validate.LongName(context.Background(), operation.Operation{}, path, &name, nil)
}

// ObjectMetaUpdate validates the change of metadata.
func ObjectMetaUpdate(meta, old *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(meta, old, path)
	return append(errs, finalizers(meta, path)...)
}

func finalizers(meta *metav1.ObjectMeta, path *field.Path) (errs field.ErrorList) {
	for i, name := range meta.Finalizers {
		errs = append(errs, unqualifiedFinalizer(name, path.Child("finalizers").Index(i))...)
	}
	return errs
}

// Finalizer validates the name of a finalizer.
func Finalizer(name string, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateFinalizerName(name, path)
	return append(errs, unqualifiedFinalizer(name, path)...)
}

// unqualifiedFinalizer rejects names without a domain, except those of Kubernetes itself.
func unqualifiedFinalizer(name string, path *field.Path) field.ErrorList {
	switch {
	case strings.Contains(name, "/"):
		return nil
	case name == string(corev1.FinalizerKubernetes), name == metav1.FinalizerOrphanDependents, name == metav1.FinalizerDeleteDependents:
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")}
}

// Immutable rejects the change of a field.
func Immutable(value, old any, path *field.Path) field.ErrorList {
	if apiequality.Semantic.DeepEqual(old, value) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, Internal(value), apivalidation.FieldImmutableErrorMsg)}
}

// Enum rejects values that are not among the supported ones.
func Enum[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// RequiredEnum is Enum for fields that must not be empty.
func RequiredEnum[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Enum(value, path, supported...)
}

// Required rejects the empty value.
func Required[T comparable](value T, path *field.Path) field.ErrorList {
	var empty T
	if value == empty {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

// Invalid returns an error for each message about a value.
func Invalid(value any, path *field.Path, messages []string) (errs field.ErrorList) {
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}

// Label validates a DNS-1123 label.
func Label(value string, path *field.Path) field.ErrorList {
	return Invalid(value, path, validation.IsDNS1123Label(value))
}

// Subdomain validates a DNS-1123 subdomain.
func Subdomain(value string, path *field.Path) field.ErrorList {
	return Invalid(value, path, validation.IsDNS1123Subdomain(value))
}

// QualifiedName validates a name that may have a DNS subdomain as its prefix.
func QualifiedName(value string, path *field.Path) field.ErrorList {
	return Invalid(value, path, validation.IsQualifiedName(value))
}

// Nonnegative rejects numbers below zero.
func Nonnegative[T ~int32 | ~int64](value T, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(int64(value), path)
}

// Keys returns the sorted keys of a map, so that errors have a fixed order.
func Keys[M ~map[K]V, K cmp.Ordered, V any](m M) []K {
	return slices.Sorted(maps.Keys(m))
}

// SetDefault sets a field that is empty.
func SetDefault[T comparable](to *T, value T) {
	var empty T
	if *to == empty {
		*to = value
	}
}

// SetDefaultPointer sets a pointer that is nil.
func SetDefaultPointer[T any](to **T, value T) {
	if *to == nil {
		*to = &value
	}
}
