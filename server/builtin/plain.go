package builtin

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/server/builtin/kind"
)

// plain returns the rules of a kind that has no other: metadata is checked, the status is
// written by its own endpoint only, and a change of anything else increases the generation.
func plain(r *Resource) kind.Rules {
	check := func(obj, old kind.Object) field.ErrorList {
		path := field.NewPath("metadata")
		if old != nil {
			return validation.ValidateObjectMetaAccessorUpdate(obj, old, path)
		}
		return validation.ValidateObjectMetaAccessor(obj, r.Namespaced, validation.NameIsDNSSubdomain, path)
	}
	rules := kind.Rules{Main: kind.Write{Validate: check}}
	if r.subresource("status") == nil {
		return rules
	}
	rules.Main.Reset = []string{"status"}
	rules.Main.Prepare = func(obj, old kind.Object) {
		if old == nil {
			part(obj, "Status").SetZero()
			obj.SetGeneration(1)
			return
		}
		part(obj, "Status").Set(part(old, "Status"))
		obj.SetGeneration(old.GetGeneration())
		if !equality.Semantic.DeepEqual(part(obj, "Spec").Interface(), part(old, "Spec").Interface()) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
	rules.Status = &kind.Write{
		Validate: check,
		Reset:    []string{"metadata", "spec"},
		Prepare: func(obj, old kind.Object) {
			part(obj, "Spec").Set(part(old, "Spec"))
			managed, version := obj.GetManagedFields(), obj.GetResourceVersion()
			part(obj, "ObjectMeta").Set(part(old, "ObjectMeta"))
			obj.SetManagedFields(managed)
			obj.SetResourceVersion(version)
		},
	}
	return rules
}

// part returns a field of an object, which a kind with a status has.
func part(obj kind.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}
