package plugins

import (
	"context"
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

// failing is an admission plugin that fails.
type failing struct{ err error }

func (failing) Handles(admission.Operation) bool { return true }

func (f failing) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return f.err
}

// TestAdmissionErrors tests that the error of a plugin has a status: one without it would be that
// of a client's patch.
func TestAdmissionErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int32
	}{
		{errors.New("broken"), http.StatusInternalServerError},
		{context.DeadlineExceeded, http.StatusInternalServerError},
		{apierrors.NewBadRequest("bad"), http.StatusBadRequest},
		{nil, 0},
	} {
		a := admission.NewAttributesRecord(nil, nil, runtimeschema.GroupVersionKind{}, "", "", runtimeschema.GroupVersionResource{}, "", admission.Update, nil, false, nil)
		err := reinvoking{admission.NewChainHandler(failing{c.err})}.Admit(t.Context(), a, nil)
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) && c.err != nil || status != nil && status.Status().Code != c.code {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
}
