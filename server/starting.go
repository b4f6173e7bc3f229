package server

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// startRetryAfter is the Retry-After header, in seconds, of responses before the server is
// ready.
const startRetryAfter = 1

// whenReady returns a handler that responds with 503 and Retry-After to requests for resources,
// discovery and OpenAPI until the server is ready. Resources that are not loaded yet would seem
// not to exist, and controllers would take this for a deletion. It must come before
// authentication and authorization, which need stored service accounts and roles: their users
// would seem to have no access.
func whenReady(ready <-chan struct{}, codecs runtime.NegotiatedSerializer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-ready:
			next.ServeHTTP(w, r)
			return
		default:
		}
		if !mounted(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		err := apierrors.NewServiceUnavailable("the server is starting: try again")
		err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: startRetryAfter}
		responsewriters.ErrorNegotiated(err, codecs, runtimeschema.GroupVersion{Version: "v1"}, w, r)
	})
}
