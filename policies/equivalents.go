package policies

import (
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/crd"
	"espalier.dev/kinds"
	"espalier.dev/server/keys"
	"espalier.dev/server/served"
)

// CustomEquivalents lists the versions of a custom resource, which webhooks and policies may match
// interchangeably.
func CustomEquivalents(d *crd.Definition) runtime.EquivalentResourceMapper {
	r := runtime.NewEquivalentResourceRegistry()
	for _, v := range d.Versions() {
		gvk := v.GroupVersionKind()
		gvr := gvk.GroupVersion().WithResource(d.Names().Plural)
		r.RegisterKindFor(gvr, "", gvk)
		for _, sub := range served.Describe(v).Subresources {
			r.RegisterKindFor(gvr, sub.Name, sub.Kind)
		}
	}
	return r
}

// BuiltinEquivalents returns which of Kubernetes' own resources have the same objects: those that
// are stored in the same place, in several versions or groups. A webhook for one of them gets the
// requests for all.
func BuiltinEquivalents(all []*kinds.Resource) runtime.EquivalentResourceMapper {
	directories := map[runtimeschema.GroupResource]string{}
	for _, r := range all {
		directories[r.GroupResource()] = keys.BuiltinDirectory(r.GroupResource())
	}
	known := runtime.NewEquivalentResourceRegistryWithIdentity(func(gr runtimeschema.GroupResource) string { return directories[gr] })
	for _, r := range all {
		known.RegisterKindFor(r.GroupVersionResource(), "", r.GroupVersionKind())
		for _, sub := range r.Subresources {
			kind := sub.Kind
			if kind.Kind == "" {
				kind = r.GroupVersionKind()
			}
			known.RegisterKindFor(r.GroupVersionResource(), sub.Name, kind)
		}
	}
	return known
}
