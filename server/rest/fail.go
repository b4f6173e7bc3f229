package rest

import (
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Fail answers a request with an error.
func Fail(w http.ResponseWriter, req *http.Request, r *apirequest.RequestInfo, codecs runtime.NegotiatedSerializer, err error) {
	// The writer of responses does not look into wrapped errors.
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	} else if failed, ok := status.(error); ok {
		err = failed
	}
	responsewriters.ErrorNegotiated(err, codecs, runtimeschema.GroupVersion{Group: r.APIGroup, Version: r.APIVersion}, w, req)
}
