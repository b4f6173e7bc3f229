package server

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// readOnly returns a handler that rejects requests that write, because the server shows what was
// stored at a revision. Reviews of access and of tokens are answered: they write nothing.
func readOnly(revision int64, next http.Handler, codecs runtime.NegotiatedSerializer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := apirequest.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !mutates(info) || info.APIGroup == "authorization.k8s.io" || info.APIGroup == "authentication.k8s.io" {
			next.ServeHTTP(w, r)
			return
		}
		err := &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: fmt.Sprintf("this server shows the past state at revision %d and is read-only: send %s requests to the original server, or to a fork of it",
				revision, info.Verb),
		}}
		responsewriters.ErrorNegotiated(err, codecs, runtimeschema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}
