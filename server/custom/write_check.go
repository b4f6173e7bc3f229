package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	sigsyaml "sigs.k8s.io/yaml"

	"espalier.dev/server/fields"
	serverrest "espalier.dev/server/rest"
)

// PatchKind is a Kind whose objects are Go structs, which k8s.io/apiserver patches. It checks what it
// does not decode itself: the configurations of server-side apply, and strategic merge patches.
type PatchKind interface {
	Kind
	// CheckApplied returns the JSON of a configuration without the fields that decoding drops,
	// and the errors of strict decoding, if report is set. The error for fields that do not exist,
	// if they are not dropped, is a *fields.MisfitError.
	CheckApplied(src []byte, report bool) (known []byte, complaints []error, err error)
	// CheckStrategic returns a strategic merge patch without the fields that decoding drops.
	CheckStrategic(patch []byte) (known []byte, err error)
}

// checkStrategic returns a handler that checks a strategic merge patch before it is applied.
func (h *Handler) checkStrategic(k PatchKind, r *apirequest.RequestInfo, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body := serverrest.PeekBody(req, h.config.MaxRequestBodyBytes)
		known, err := k.CheckStrategic(body)
		if err != nil {
			if recorded(req.Context(), auditinternal.LevelRequest) {
				audit.LogRequestPatch(req.Context(), body)
			}
			h.fail(w, req, r, apierrors.NewBadRequest(err.Error()))
			return
		}
		if !bytes.Equal(known, body) {
			req.Body = io.NopCloser(bytes.NewReader(known))
		}
		next(w, req)
	}
}

// checkApplied returns a handler that checks a configuration before it is applied. What is not a
// configuration is left to the next handler, which reports it.
func (h *Handler) checkApplied(k PatchKind, r *apirequest.RequestInfo, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		body := serverrest.PeekBody(req, h.config.MaxRequestBodyBytes)
		src, err := yaml.ToJSON(body)
		if err == nil && !json.Valid(src) { // JSON that begins a stream of several documents, of which the first one counts
			src, err = sigsyaml.YAMLToJSON(body)
		}
		if err != nil || !bytes.HasPrefix(src, []byte("{")) {
			next(w, req)
			return
		}
		directive := req.URL.Query().Get("fieldValidation")
		report := directive != metav1.FieldValidationIgnore
		known, complaints, err := k.CheckApplied(src, report)
		if err == nil && !bytes.Equal(known, src) {
			req.Body = io.NopCloser(bytes.NewReader(known))
			if twice := yaml.UnmarshalStrict(body, &map[string]any{}); twice != nil && report {
				complaints = append(complaints, twice) // a duplicate key, which the next handler no longer sees
			}
		}
		if err == nil && directive == metav1.FieldValidationStrict && len(complaints) > 0 {
			err = runtime.NewStrictDecodingError(complaints)
		}
		if err != nil {
			if recorded(req.Context(), auditinternal.LevelRequest) {
				audit.LogRequestPatch(req.Context(), src)
			}
			h.fail(w, req, r, appliedError(k, r, err))
			return
		}
		addWarnings(req.Context(), complaints)
		next(w, req)
	}
}

// appliedError returns the error of a configuration that CheckApplied rejects.
func appliedError(k PatchKind, r *apirequest.RequestInfo, err error) error {
	misfit := (*fields.MisfitError)(nil)
	if !errors.As(err, &misfit) {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	// As in kube-apiserver, it is an internal error without a reason.
	text := fmt.Errorf("failed to create typed patch object (%s/%s; %s): %w", r.Namespace, r.Name, k.New().GetObjectKind().GroupVersionKind(), misfit.Err)
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: serverrest.Misfit(text, false).Error()}}
}
