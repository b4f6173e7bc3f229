package resources

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors is the number of errors that are reported of one object. Kubernetes reports all of
// them, and needs a time that grows with the square of their number to join them.
const maxErrors = 200

// BoundErrors returns the first errors of a list that is too long, and says that there are more.
func BoundErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= maxErrors {
		return errs
	}
	more := &field.Error{Type: field.ErrorTypeTooMany, Field: errs[maxErrors].Field, BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("only the first %d errors are reported: fix them to see the others", maxErrors)}
	return append(errs[:maxErrors:maxErrors], more)
}

// checkMetadata returns an error if the metadata of an updated object has more errors than are
// reported. The generic store validates metadata on its own, and reports all of them.
func checkMetadata(kind runtimeschema.GroupKind, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil //nolint:nilerr // it has no metadata
	}
	if fewItems(m) {
		return nil
	}
	anyName := func(string, bool) []string { return nil }
	errs := validation.ValidateObjectMetaAccessor(m, m.GetNamespace() != "", anyName, field.NewPath("metadata"))
	if len(errs) <= maxErrors {
		return nil
	}
	return apierrors.NewInvalid(kind, m.GetName(), BoundErrors(errs))
}

// fewItems reports whether metadata has too few items for more errors than are reported.
func fewItems(m metav1.Object) bool {
	u, ok := m.(*unstructured.Unstructured)
	if !ok {
		return len(m.GetLabels()) <= maxErrors && len(m.GetAnnotations()) <= maxErrors && len(m.GetFinalizers()) <= maxErrors &&
			len(m.GetOwnerReferences()) <= maxErrors/4 && len(m.GetManagedFields()) <= maxErrors/4
	}
	// The accessors of a tree copy what they return.
	metadata, _ := u.Object["metadata"].(map[string]any)
	for _, v := range metadata {
		switch v := v.(type) {
		case map[string]any:
			if len(v) > maxErrors {
				return false
			}
		case []any:
			if len(v) > maxErrors/4 {
				return false
			}
		}
	}
	return true
}
