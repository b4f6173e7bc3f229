package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	requestmetrics "k8s.io/apiserver/pkg/endpoints/handlers/metrics"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	kjson "sigs.k8s.io/json"

	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
	"espalier.dev/server/backend"
	serverrest "espalier.dev/server/rest"
)

// patchMediaTypes returns the media types of patches.
func (e *endpoint) patchMediaTypes() []string {
	names := make([]string, len(e.description.PatchTypes))
	for i, t := range e.description.PatchTypes {
		names[i] = string(t)
	}
	return names
}

// patch handles a PATCH.
func (w *write) patch(ctx context.Context) (runtime.Object, error) {
	mediaType := w.req.Header.Get("Content-Type")
	if i := strings.IndexByte(mediaType, ';'); i > 0 {
		mediaType = mediaType[:i]
	}
	w.patchType = types.PatchType(mediaType)
	if !slices.Contains(w.description.PatchTypes, w.patchType) {
		return nil, negotiation.NewUnsupportedMediaTypeError(w.patchMediaTypes())
	}
	if w.name == "" {
		return nil, errNoName()
	}
	if err := w.negotiate(); err != nil {
		return nil, err
	}
	if err := w.readBody(ctx, requestmetrics.Patch); err != nil {
		return nil, err
	}
	options := &metav1.PatchOptions{}
	if err := w.readOptions(options, func() field.ErrorList { return validation.ValidatePatchOptions(options, w.patchType) }); err != nil {
		return nil, err
	}
	w.options = writeOptions{dryRun: options.DryRun, manager: options.FieldManager,
		fieldValidation: options.FieldValidation, force: options.Force != nil && *options.Force}

	var change func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error)
	isApply := w.patchType == types.ApplyYAMLPatchType
	var noop noopKey
	remembers, before := false, "" // the resourceVersion
	if isApply {
		if noop, remembers = w.noopKey(); remembers {
			if result, err := w.repeated(ctx, noop); result != nil || err != nil {
				return result, err
			}
			ctx = w.observe(ctx)
		}
		applied, err := parseApplied(w.body)
		if err != nil {
			return nil, err
		}
		applied.record(w.req.Context())
		change = func(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			before = live.GetResourceVersion()
			return w.apply(ctx, applied, live)
		}
	} else {
		if !json.Valid(w.body) {
			return nil, apierrors.NewBadRequest("invalid JSON patch")
		}
		audit.LogRequestPatch(w.req.Context(), w.body)
		change = w.applyJSONPatch
	}
	managed := true
	attempt := func() (runtime.Object, error) {
		return w.replace(ctx, func(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			obj, err := w.patched(ctx, change, live)
			if err == nil && !managed {
				obj.SetManagedFields(nil)
			}
			return obj, err
		}, "", isApply && w.scope.Subresource == "")
	}
	result, err := w.finish(ctx, func() (runtime.Object, error) {
		result, err := attempt()
		if backend.IsTooLarge(err) && !isApply {
			managed = false
			result, err = attempt()
		}
		return result, err
	})
	if remembers && err == nil {
		w.remember(noop, before, result)
	}
	return result, err
}

// patched applies a change to the stored object, and checks and admits the result.
func (w *write) patched(ctx context.Context, change func(context.Context,
	*unstructured.Unstructured) (*unstructured.Unstructured, error), live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	old := live
	if live.GetUID() == "" {
		live, old = w.kind.New().(*unstructured.Unstructured), nil
	}
	obj, err := change(ctx, live)
	if err != nil {
		return nil, err
	}
	if uid := obj.GetUID(); uid != "" && old == nil {
		return nil, apierrors.NewConflict(w.scope.Resource.GroupResource(), w.name,
			fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if err := w.ensureNamespace(obj); err != nil {
		return nil, err
	}
	if err := w.checkName(obj); err != nil {
		return nil, err
	}
	return obj, w.admit(ctx, obj, old)
}

// applyJSONPatch applies a JSON patch or a JSON merge patch.
func (w *write) applyJSONPatch(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	current, err := jsonx.Append(nil, live.Object)
	if err != nil {
		return nil, err
	}
	patched, strict, err := w.patchText(current)
	if err != nil {
		return nil, err
	}
	obj, strictInObject, err := w.decodePatched(patched)
	if err == nil {
		strict = append(strict, strictInObject...)
		if len(strict) > 0 && w.options.directive() == metav1.FieldValidationStrict {
			err = runtime.NewStrictDecodingError(strict)
		}
	}
	if contradiction := (*schema.ContradictionError)(nil); errors.As(err, &contradiction) {
		// The object is malformed, not invalid.
		return nil, apierrors.NewBadRequest(contradiction.Error())
	}
	if apierrors.IsRequestEntityTooLargeError(err) {
		return nil, err
	}
	if err != nil {
		return nil, apierrors.NewInvalid(runtimeschema.GroupKind{}, "",
			field.ErrorList{field.Invalid(field.NewPath("patch"), string(patched), err.Error())})
	}
	addWarnings(w.req.Context(), strict)
	return obj, w.manage(ctx, live, obj)
}

// decodePatched decodes an object that a patch was applied to, and returns the errors of strict
// decoding apart from others.
func (w *write) decodePatched(data []byte) (_ *unstructured.Unstructured, strict []error, _ error) {
	in, _ := runtime.SerializerInfoForMediaType(w.serializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
	format := in.StrictSerializer
	if w.options.directive() == metav1.FieldValidationIgnore {
		format = in.Serializer
	}
	obj, _, err := w.serializer.replacing(w.replaced).DecoderToVersion(format, w.scope.HubGroupVersion).Decode(data, nil, nil)
	if s, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
		strict, err = s.Errors(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return obj.(*unstructured.Unstructured), strict, nil
}

// patchText applies the patch to a JSON text, and returns the errors of decoding the patch
// strictly.
func (w *write) patchText(current []byte) (patched []byte, strict []error, err error) {
	checked := w.options.directive() != metav1.FieldValidationIgnore
	if w.patchType == types.MergePatchType {
		if checked {
			if strict, err = kjson.UnmarshalStrict(w.body, &map[string]any{}); err != nil {
				return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
			}
		}
		patched, err = mergePatch(current, w.body)
		if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
			err = apierrors.NewBadRequest(err.Error())
		}
		return patched, strict, err
	}
	if checked {
		var operations []jsonPatchOperation
		if strict, err = kjson.UnmarshalStrict(w.body, &operations); err != nil {
			// The message names the type, which has another name in kube-apiserver.
			text := strings.ReplaceAll(err.Error(), reflect.TypeFor[jsonPatchOperation]().String(), "handlers.jsonPatchOp")
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for i, err := range strict {
			strict[i] = fmt.Errorf("json patch %w", err)
		}
	}
	operations, err := jsonpatch.DecodePatch(w.body)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if err := serverrest.CheckJSONPatch(operations, w.body, current); err != nil {
		return nil, nil, err
	}
	if patched, err = operations.Apply(current); err != nil {
		return nil, nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "",
			runtimeschema.GroupResource{}, "", err.Error(), 0, false)
	}
	return patched, strict, nil
}

// jsonPatchOperation has the fields of an operation of a JSON patch.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}
