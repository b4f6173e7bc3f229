package custom

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
)

// readBody reads the body of the request.
func (w *write) readBody(ctx context.Context, verb requestmetrics.RequestBodyVerb) error {
	defer func() { _ = w.req.Body.Close() }()
	limit := w.scope.MaxRequestBodyBytes
	from := io.Reader(w.req.Body)
	if limit > 0 {
		from = io.LimitReader(from, limit+1)
	}
	var buf bytes.Buffer
	buf.Grow(int(max(0, min(w.req.ContentLength, limit))) + bytes.MinRead)
	if _, err := buf.ReadFrom(from); err != nil {
		return err
	}
	if limit > 0 && int64(buf.Len()) > limit {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
	}
	w.body = buf.Bytes()
	requestmetrics.RecordRequestBodySize(ctx, w.labels.GroupResource(), verb, len(w.body))
	return nil
}

// decode decodes the body as an object of the endpoint's version. It warns about unknown and
// duplicate fields if warn is set, unless the client does not want to know or they are errors.
func (w *write) decode(in runtime.SerializerInfo, warn bool) (*unstructured.Unstructured, error) {
	directive := w.options.directive()
	format := in.Serializer
	if directive != metav1.FieldValidationIgnore {
		format = in.StrictSerializer
	}
	into := w.kind.New()
	obj, gvk, err := w.serializer.replacing(w.replaced).DecoderToVersion(format, w.scope.HubGroupVersion).Decode(w.body, &w.scope.Kind, into)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil && directive == metav1.FieldValidationWarn {
		if warn {
			addWarnings(w.req.Context(), strict.Errors())
		}
		err = nil
	}
	if err != nil {
		return nil, w.decodingError(into, gvk, err)
	}
	if gv := gvk.GroupVersion(); !w.scope.AcceptsGroupVersion(gv) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
			gv, w.scope.Kind.GroupVersion()))
	}
	return obj.(*unstructured.Unstructured), nil
}

// decodingError returns the error for a body that cannot be decoded. into is empty unless the
// decoder came to fill it. gvk is nil if the kind of the body is unknown.
func (w *write) decodingError(into runtime.Object, gvk *runtimeschema.GroupVersionKind, err error) error {
	if apierrors.IsRequestEntityTooLargeError(err) {
		return err
	}
	kinds, _, unknown := w.scope.Typer.ObjectKinds(into)
	if unknown != nil {
		return apierrors.NewBadRequest(unknown.Error())
	}
	kind := kinds[0].Kind
	if gvk != nil && gvk.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", gvk.Kind, gvk.Version, kind, err))
	}
	const shown = 30
	body := w.body
	more := ""
	if len(body) > shown {
		body, more = body[:shown], " ..."
	}
	text := hex.EncodeToString(body)
	switch {
	case len(body) == 0:
		text = "<empty>"
	case body[0] == '{':
		text = string(body)
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s%s)", kind, err, text,
		more))
}

// addWarnings sends the errors of strict decoding as warnings. The YAML library joins its
// errors in one text.
func addWarnings(ctx context.Context, errs []error) {
	for _, err := range errs {
		text := err.Error()
		lines := []string{text}
		for _, prefix := range [...]string{"yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"} {
			if rest, ok := strings.CutPrefix(text, prefix); ok {
				lines = strings.Split(rest, "\n")
				break
			}
		}
		for _, line := range lines {
			if len(lines) > 1 || line != text {
				line = strings.TrimSpace(line)
			}
			warning.AddWarning(ctx, "", line)
		}
	}
}

// ensureNamespace sets the namespace of an object to that of the request, or returns an error
// if it has another one.
func (w *write) ensureNamespace(obj *unstructured.Unstructured) error {
	return rest.EnsureObjectNamespaceMatchesRequestNamespace(rest.ExpectedNamespaceForResource(w.info.Namespace, w.scope.Resource), obj)
}

// checkName checks that an object has the name and namespace of the request.
func (w *write) checkName(obj *unstructured.Unstructured) error {
	name, namespace := obj.GetName(), obj.GetNamespace()
	switch {
	case name == "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: %v", w.name, errNoName()))
	case name != w.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, w.name))
	case w.info.Namespace != "" && namespace != "" && namespace != w.info.Namespace:
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)",
			namespace, w.info.Namespace))
	}
	return nil
}

// dedupOwners removes duplicate owner references, and warns about them.
func (w *write) dedupOwners(obj *unstructured.Unstructured, admitted bool) {
	if meta, ok := obj.Object["metadata"].(map[string]any); !ok || meta["ownerReferences"] == nil {
		return
	}
	refs := obj.GetOwnerReferences()
	kept, removed := dedup(refs)
	if len(removed) == 0 {
		return
	}
	format := handlers.DuplicateOwnerReferencesWarningFormat
	if admitted {
		format = handlers.DuplicateOwnerReferencesAfterMutatingAdmissionWarningFormat
	}
	warning.AddWarning(w.req.Context(), "", fmt.Sprintf(format, strings.Join(removed, ", ")))
	obj.SetOwnerReferences(kept)
}

// dedup returns owner references without duplicates, and the UIDs of the duplicates.
func dedup(refs []metav1.OwnerReference) (kept []metav1.OwnerReference, removed []string) {
	type owner struct {
		ref               metav1.OwnerReference
		controller, block int
	}
	flag := func(b *bool) int {
		switch {
		case b == nil:
			return 0
		case *b:
			return 1
		}
		return 2
	}
	seen := map[owner]bool{} // all may be the same
	for _, ref := range refs {
		key := owner{ref, flag(ref.Controller), flag(ref.BlockOwnerDeletion)}
		key.ref.Controller, key.ref.BlockOwnerDeletion = nil, nil
		if seen[key] {
			removed = append(removed, string(ref.UID))
			continue
		}
		seen[key] = true
		kept = append(kept, ref)
	}
	return kept, removed
}
