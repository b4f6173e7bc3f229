package server

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// startRetryAfter is the Retry-After header, in seconds, of responses before the server is
// ready.
const startRetryAfter = 1

// whenReady returns a handler that responds with 503 and Retry-After until the server is
// ready. Resources that are not loaded yet would seem not to exist, and controllers would
// take this for a deletion.
func whenReady(ready <-chan struct{}, codecs serializer.CodecFactory, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-ready:
			next.ServeHTTP(w, r)
		default:
			err := apierrors.NewServiceUnavailable("the server is starting: try again")
			err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: startRetryAfter}
			responsewriters.ErrorNegotiated(err, codecs, runtimeschema.GroupVersion{Version: "v1"}, w, r)
		}
	})
}
