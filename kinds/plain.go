package kinds

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
)

// Plain returns the rules of a kind that has no other: metadata is checked, the status is
// written by its own endpoint only, and a change of anything else increases the generation.
func Plain(r *Resource) kind.Rules {
	check := func(obj, old kind.Object) field.ErrorList {
		path := field.NewPath("metadata")
		if old != nil {
			return validation.ValidateObjectMetaAccessorUpdate(obj, old, path)
		}
		return validation.ValidateObjectMetaAccessor(obj, r.Namespaced, validation.NameIsDNSSubdomain, path)
	}
	rules := kind.Rules{Main: kind.Write{Validate: check}}
	if r.Subresource("status") == nil {
		return rules
	}
	rules.Main.Reset = []string{"status"}
	rules.Main.Prepare = func(obj, old kind.Object) {
		if old == nil {
			kind.Part(obj, "Status").SetZero()
			obj.SetGeneration(1)
			return
		}
		kind.Part(obj, "Status").Set(kind.Part(old, "Status"))
		obj.SetGeneration(old.GetGeneration())
		if !equality.Semantic.DeepEqual(kind.Part(obj, "Spec").Interface(), kind.Part(old, "Spec").Interface()) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
	rules.Status = &kind.Write{
		Validate: check,
		Reset:    []string{"metadata", "spec"},
		Prepare: func(obj, old kind.Object) {
			kind.Part(obj, "Spec").Set(kind.Part(old, "Spec"))
			managed, version := obj.GetManagedFields(), obj.GetResourceVersion()
			kind.Part(obj, "ObjectMeta").Set(kind.Part(old, "ObjectMeta"))
			obj.SetManagedFields(managed)
			obj.SetResourceVersion(version)
		},
	}
	return rules
}
