package builtin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"espalier.dev/kinds"
)

// devicePermission returns what checks whether a claim for devices may be written: the rules of
// kinds know neither users nor namespaces. It returns nil for other kinds and subresources.
func (h *Handler) devicePermission(r *kinds.Resource, subresource string) permission {
	if r.Group != resourcev1.GroupName {
		return nil
	}
	switch r.Kind + subresource {
	case "ResourceClaim":
		return func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			claim := obj.(*resourcev1.ResourceClaim)
			return h.adminRequests(ctx, claim.Namespace, &claim.Spec, old)
		}
	case "ResourceClaimTemplate":
		return func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			template := obj.(*resourcev1.ResourceClaimTemplate)
			return h.adminRequests(ctx, template.Namespace, &template.Spec.Spec, old)
		}
	case "ResourceClaim" + "status":
		return func(ctx context.Context, obj, old runtime.Object) field.ErrorList {
			claim, before := obj.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
			errs := h.adminResults(ctx, claim, before)
			errs = append(errs, h.bindingPermission(ctx, &claim.Status, &before.Status)...)
			return append(errs, h.driverPermissions(ctx, &claim.Status, &before.Status)...)
		}
	}
	return nil
}

// adminRequests checks the access of administrators to devices that a new claim requests. Later, a
// claim does not change.
func (h *Handler) adminRequests(ctx context.Context, namespace string, spec *resourcev1.ResourceClaimSpec, old runtime.Object) field.ErrorList {
	if old != nil {
		return nil
	}
	i := slices.IndexFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
	if i < 0 {
		return nil
	}
	// The path is that of kube-apiserver, also for templates.
	return h.allowsAdmins(ctx, namespace, field.NewPath("spec", "devices", "requests").Index(i).Child("adminAccess"))
}

// adminResults is like adminRequests for allocated devices.
func (h *Handler) adminResults(ctx context.Context, claim, old *resourcev1.ResourceClaim) field.ErrorList {
	i := adminResult(&claim.Status)
	if i < 0 || adminResult(&old.Status) >= 0 {
		return nil
	}
	return h.allowsAdmins(ctx, claim.Namespace, field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess"))
}

// adminResult returns the index of the first device that is allocated for administrators, or -1.
func adminResult(status *resourcev1.ResourceClaimStatus) int {
	if status.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(status.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return r.AdminAccess != nil && *r.AdminAccess
	})
}

// allowsAdmins checks that a namespace has the label of those with access for administrators.
func (h *Handler) allowsAdmins(ctx context.Context, name string, path *field.Path) field.ErrorList {
	obj, err := h.Get(ctx, corev1.Resource("namespaces"), "", name)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	const label = resourcev1.DRAAdminNamespaceLabelKey
	if ns, ok := obj.(*corev1.Namespace); !ok || ns.Labels[label] != "true" {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", label))}
	}
	return nil
}

// bindingPermission checks that a user who allocates devices, or changes for whom they are reserved,
// may do so.
func (h *Handler) bindingPermission(ctx context.Context, status, old *resourcev1.ResourceClaimStatus) field.ErrorList {
	if equality.Semantic.DeepEqual(status.Allocation, old.Allocation) && equality.Semantic.DeepEqual(status.ReservedFor, old.ReservedFor) {
		return nil
	}
	path := field.NewPath("status", "allocation")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	if err := h.mayWrite(ctx, &partOf{Attributes: request, verb: request.GetVerb(), subresource: resourcev1.SubresourceBinding}); err != nil {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, request.GetVerb(), err))}
	}
	return nil
}

// driverPermissions checks that a user who changes the status of devices may do so for their drivers:
// on all nodes, or on the node of the service account if the devices are there.
func (h *Handler) driverPermissions(ctx context.Context, status, old *resourcev1.ResourceClaimStatus) (errs field.ErrorList) {
	// Validation rejects the status of more devices than can be allocated. They are not worth as many decisions.
	if status.Allocation == nil || len(status.Devices) > resourcev1.AllocationResultsMaxSize {
		return nil
	}
	drivers := changedDrivers(status.Devices, old.Devices)
	if len(drivers) == 0 {
		return nil
	}
	path := field.NewPath("status", "devices")
	request, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return field.ErrorList{field.InternalError(path, fmt.Errorf("cannot build authorizer attributes: %w", err))}
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + request.GetVerb()}
	if node := nodeOf(status.Allocation); node != "" && node == nodeOfAccount(request.GetUser()) {
		verbs = slices.Insert(verbs, 0, resourcev1.VerbPrefixAssociatedNode+request.GetVerb())
	}
	for _, driver := range drivers {
		var first error
		for _, verb := range verbs {
			err := h.mayWrite(ctx, &partOf{Attributes: request, verb: verb, subresource: resourcev1.SubresourceDriver,
				namespace: request.GetNamespace(), name: driver})
			if err == nil {
				first = nil
				break
			}
			first = cmp.Or(first, err)
		}
		if first != nil {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf(
				`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, first)))
		}
	}
	return errs
}

// changedDrivers returns the drivers of devices whose status is new, changed or gone, sorted.
func changedDrivers(devices, old []resourcev1.AllocatedDeviceStatus) []string {
	type id struct{ driver, pool, device, share string }
	byID := func(devices []resourcev1.AllocatedDeviceStatus) map[id]resourcev1.AllocatedDeviceStatus {
		out := map[id]resourcev1.AllocatedDeviceStatus{}
		for _, d := range devices {
			key := id{d.Driver, d.Pool, d.Device, ""}
			if d.ShareID != nil {
				key.share = *d.ShareID
			}
			out[key] = d
		}
		return out
	}
	changed := sets.Set[string]{}
	now, before := byID(devices), byID(old)
	for key, d := range now {
		if o, ok := before[key]; !ok || !equality.Semantic.DeepEqual(o, d) {
			changed.Insert(d.Driver)
		}
	}
	for key, d := range before {
		if _, ok := now[key]; !ok {
			changed.Insert(d.Driver)
		}
	}
	return sets.List(changed)
}

// nodeOf returns the name of the node of allocated devices, or "" if they are not on a single one.
func nodeOf(a *resourcev1.AllocationResult) string {
	if a.NodeSelector == nil || len(a.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := a.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
		return ""
	}
	f := term.MatchFields[0]
	if f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}

// nodeOfAccount returns the name of the node that the token of a service account is bound to, or "".
func nodeOfAccount(u user.Info) string {
	if u == nil {
		return ""
	}
	if _, _, err := serviceaccount.SplitUsername(u.GetName()); err != nil {
		return ""
	}
	names := u.GetExtra()[serviceaccount.NodeNameKey]
	if len(names) != 1 || len(apivalidation.NameIsDNSSubdomain(names[0], false)) > 0 {
		return ""
	}
	return names[0]
}

// mayWrite returns an error if a request is not permitted.
func (h *Handler) mayWrite(ctx context.Context, a authorizer.Attributes) error {
	decision, reason, err := h.config.Authorizer.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return responsewriters.ForbiddenStatusError(a, reason)
}

// partOf are the attributes of a request as if it were for a part of the object.
type partOf struct {
	authorizer.Attributes
	verb, subresource, namespace, name string
}

func (p *partOf) GetVerb() string        { return p.verb }
func (p *partOf) GetSubresource() string { return p.subresource }
func (p *partOf) GetNamespace() string   { return p.namespace }
func (p *partOf) GetName() string        { return p.name }
