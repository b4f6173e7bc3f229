package faults

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/generic/registry"
)

// answer answers a request with the error of a rule.
func (s *Set) answer(w http.ResponseWriter, req *http.Request, q *request, r *rule) {
	// ErrorNegotiated sets the header Retry-After if the details have it.
	responsewriters.ErrorNegotiated(errorOf(q, r), s.config.Serializer,
		runtimeschema.GroupVersion{Group: q.info.APIGroup, Version: q.info.APIVersion}, w, req)
}

// errorOf returns the error that an API server answers.
func errorOf(q *request, r *rule) *apierrors.StatusError {
	seconds := int(r.RetryAfter / time.Second)
	switch r.Fault {
	case Conflict:
		return apierrors.NewConflict(runtimeschema.GroupResource{Group: q.group, Resource: q.resource}, q.name,
			errors.New(registry.OptimisticLockErrorMsg))
	case TooManyRequests:
		return apierrors.NewTooManyRequests("too many requests, please try again later", max(seconds, 1))
	case Unavailable:
		err := apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
		if seconds > 0 {
			err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)}
		}
		return err
	case LostAnswer:
		return apierrors.NewTimeoutError("request did not complete within the requested timeout", 0)
	case Expired:
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return apierrors.NewInternalError(errors.New("the storage is not available"))
}
