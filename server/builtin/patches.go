package builtin

import (
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apitypes "k8s.io/apimachinery/pkg/types"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/kinds"
	"espalier.dev/server/rest"
)

// checkPatch rejects a patch that k8s.io/apiserver turns into Go values without the decoder, if
// they need too much memory or time. The decoder checks what other patches result in.
func (h *Handler) checkPatch(req *http.Request, info *apirequest.RequestInfo, r *kinds.Resource) error {
	patchType := apitypes.PatchType(rest.MediaType(req))
	isApply := patchType == apitypes.ApplyYAMLPatchType
	if !isApply && patchType != apitypes.StrategicMergePatchType {
		return nil
	}
	types, err := h.types()
	if err != nil {
		return err
	}
	gvk := r.GroupVersionKind()
	if i := slices.IndexFunc(r.Subresources, func(s kinds.Subresource) bool { return s.Name == info.Subresource }); i >= 0 &&
		r.Subresources[i].Kind.Kind != "" {
		gvk = r.Subresources[i].Kind
	}
	body, ok := jsonOf(rest.PeekBody(req, h.config.MaxRequestBodyBytes), isApply)
	if !ok {
		return nil // the handler reports it
	}
	if err := walkJSON(body, types.AllKnownTypes()[gvk]); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
