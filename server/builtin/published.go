package builtin

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/schema"
	"espalier.dev/server/served"
)

// Definitions returns built-in resources as discovery publishes them: one Definition for each
// resource, with all of its versions. Its schemas are empty: Go types describe the objects.
func Definitions(served []*kinds.Resource) ([]*crd.Definition, error) {
	byName := map[runtimeschema.GroupResource]*api.CustomResourceDefinition{}
	var order []*api.CustomResourceDefinition
	for _, r := range served {
		names := api.CustomResourceDefinitionNames{
			Plural: r.Plural, Singular: r.Singular, Kind: r.Kind, ListKind: r.Kind + "List",
			ShortNames: r.ShortNames, Categories: r.Categories,
		}
		c := byName[r.GroupResource()]
		if c == nil {
			scope := api.ClusterScoped
			if r.Namespaced {
				scope = api.NamespaceScoped
			}
			c = &api.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: r.GroupResource().String()},
				Spec:       api.CustomResourceDefinitionSpec{Group: r.Group, Scope: scope, Names: names},
				Status: api.CustomResourceDefinitionStatus{
					AcceptedNames: names,
					Conditions: []api.CustomResourceDefinitionCondition{
						{Type: api.NamesAccepted, Status: api.ConditionTrue}, {Type: api.Established, Status: api.ConditionTrue},
					},
				},
			}
			byName[r.GroupResource()] = c
			order = append(order, c)
		}
		// The first version of a resource is the one that is stored, or newest if none is.
		stored := len(c.Spec.Versions) == 0
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: r.Version, Served: true, Storage: stored})
		if stored {
			c.Status.StoredVersions = []string{r.Version}
		}
	}
	out := make([]*crd.Definition, 0, len(order))
	for _, c := range order {
		d, err := crd.New(c, crd.Options{Semantics: schema.Kubernetes})
		if err != nil {
			return nil, fmt.Errorf("resource %s: %w", c.Name, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// Describe describes a version of a built-in resource.
func (h *Handler) Describe(v *crd.Version) *served.Description {
	gvk := v.GroupVersionKind()
	r := h.resources[gvk.GroupVersion().WithResource(v.Definition().Names().Plural)]
	d := &served.Description{
		Version:   v,
		Verbs:     r.Verbs(),
		Stored:    r.Stored,
		OpenAPI:   h.openAPI(r),
		NotStored: r.CreateOnly,
		PatchTypes: []apitypes.PatchType{apitypes.JSONPatchType, apitypes.MergePatchType,
			apitypes.StrategicMergePatchType, apitypes.ApplyYAMLPatchType},
	}
	for _, sub := range r.Subresources {
		kind := sub.Kind
		if kind.Kind == "" {
			kind = gvk
		}
		d.Subresources = append(d.Subresources, served.Subresource{Name: sub.Name, Kind: kind, Verbs: sub.Verbs})
	}
	return d
}
