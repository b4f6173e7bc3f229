package rest

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// CheckMetadata returns an error if an updated object has more owner references than are validated,
// or its metadata has more errors than are reported. The generic store validates metadata on its
// own, and reports all of them.
func CheckMetadata(kind runtimeschema.GroupKind, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // it has no metadata
	}
	if fewItems(m) {
		return nil
	}
	if n := len(m.GetOwnerReferences()); n > schema.MaxOwnerReferences {
		return apierrors.NewInvalid(kind, m.GetName(),
			field.ErrorList{field.TooMany(field.NewPath("metadata", "ownerReferences"), n, schema.MaxOwnerReferences)})
	}
	anyName := func(string, bool) []string { return nil }
	errs := validation.ValidateObjectMetaAccessor(m, m.GetNamespace() != "", anyName, field.NewPath("metadata"))
	if len(errs) <= crd.MaxErrors {
		return nil
	}
	return apierrors.NewInvalid(kind, m.GetName(), crd.BoundErrors(errs))
}

// fewItems reports whether metadata has too few items for more errors than are reported.
func fewItems(m metav1.Object) bool {
	n := 0
	if u, ok := m.(*unstructured.Unstructured); ok {
		// The accessors of a tree copy what they return.
		metadata, _ := u.Object["metadata"].(map[string]any)
		for _, v := range metadata {
			switch v := v.(type) {
			case map[string]any:
				n += len(v)
			case []any:
				n += len(v)
			}
		}
	} else {
		n = len(m.GetLabels()) + len(m.GetAnnotations()) + len(m.GetFinalizers()) + len(m.GetOwnerReferences()) + len(m.GetManagedFields())
	}
	return n <= crd.MaxErrors/4
}
