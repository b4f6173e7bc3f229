package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// TestFail answers with the status of an error, also if it is wrapped.
func TestFail(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, runtimeschema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{apierrors.NewServiceUnavailable("later"), http.StatusServiceUnavailable, `"message":"later"`},
		{fmt.Errorf("storage of pods: %w", apierrors.NewServiceUnavailable("later")), http.StatusServiceUnavailable, `"message":"later"`},
		{errors.New("broken"), http.StatusInternalServerError, `broken`},
	} {
		w := httptest.NewRecorder()
		Fail(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil), &apirequest.RequestInfo{APIVersion: "v1"}, codecs, c.err)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%v: %d %s", c.err, w.Code, w.Body)
		}
	}
}
