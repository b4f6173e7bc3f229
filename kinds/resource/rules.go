// Package resource has rules of the kinds of dynamic resource allocation: metadata, defaults of
// requests, required and immutable fields. Expressions are not compiled, and what devices,
// constraints and parameters contain is not checked.
package resource

import (
	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of resource.k8s.io, by resource.
func Rules() map[string]kind.Rules {
	return map[string]kind.Rules{
		"deviceclasses": {
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.DeviceClass) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateDeviceClass),
			},
		},
		"resourceclaims": {
			Default: kind.On(func(c *v1.ResourceClaim) { defaultRequests(c.Spec.Devices.Requests) }),
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ResourceClaim) {
					obj.Status = v1.ResourceClaimStatus{}
					if old != nil {
						obj.Status = old.Status
					}
				}),
				Validate: kind.Check(validateClaim),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ResourceClaim) {
					obj.Spec = old.Spec
					metav1.ResetObjectMetaForStatus(obj, old)
				}),
				Validate: kind.Check(func(obj, old *v1.ResourceClaim) field.ErrorList {
					errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
					return append(errs, requireStatus(&obj.Status, field.NewPath("status"))...)
				}),
				Reset: []string{"metadata", "spec"},
			},
		},
		"resourceclaimtemplates": {
			Default: kind.On(func(t *v1.ResourceClaimTemplate) { defaultRequests(t.Spec.Spec.Devices.Requests) }),
			Main:    kind.Write{Validate: kind.Check(validateTemplate)},
		},
		"resourceslices": {
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.ResourceSlice) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(validateSlice),
			},
		},
	}
}

func defaultRequests(requests []v1.DeviceRequest) {
	for i := range requests {
		if r := requests[i].Exactly; r != nil {
			defaultCount(&r.AllocationMode, &r.Count)
		}
		for j := range requests[i].FirstAvailable {
			r := &requests[i].FirstAvailable[j]
			defaultCount(&r.AllocationMode, &r.Count)
		}
	}
}

// defaultCount requests one device unless all are requested.
func defaultCount(mode *v1.DeviceAllocationMode, count *int64) {
	rules.SetDefault(mode, v1.DeviceAllocationModeExactCount)
	if *mode == v1.DeviceAllocationModeExactCount {
		rules.SetDefault(count, 1)
	}
}

func validateDeviceClass(obj, old *v1.DeviceClass) field.ErrorList {
	errs := rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	}
	path := field.NewPath("spec")
	errs = append(errs, requireSelectors(obj.Spec.Selectors, path.Child("selectors"))...)
	for i := range obj.Spec.Config {
		errs = append(errs, requireConfiguration(&obj.Spec.Config[i].DeviceConfiguration, path.Child("config").Index(i))...)
	}
	return errs
}

func validateClaim(obj, old *v1.ResourceClaim) field.ErrorList {
	errs := rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if old != nil {
		// Only its immutability is checked: nothing else can be wrong.
		errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
		return append(errs, rules.Immutable(obj.Spec, old.Spec, field.NewPath("spec"))...)
	}
	return append(errs, requireClaim(&obj.Spec.Devices, field.NewPath("spec", "devices"))...)
}

func validateTemplate(obj, old *v1.ResourceClaimTemplate) field.ErrorList {
	if old == nil {
		errs := rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		return append(errs, requireClaim(&obj.Spec.Spec.Devices, field.NewPath("spec", "spec", "devices"))...)
	}
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, rules.Immutable(obj.Spec, old.Spec, field.NewPath("spec"))...)
}

func validateSlice(obj, old *v1.ResourceSlice) field.ErrorList {
	path := field.NewPath("spec")
	if old == nil {
		errs := rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		return append(errs, requireSlice(&obj.Spec, path)...)
	}
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, requireSlice(&obj.Spec, path)...)
	errs = append(errs, rules.Immutable(obj.Spec.Pool.Name, old.Spec.Pool.Name, path.Child("pool", "name"))...)
	errs = append(errs, rules.Immutable(obj.Spec.Driver, old.Spec.Driver, path.Child("driver"))...)
	return append(errs, rules.Immutable(obj.Spec.NodeName, old.Spec.NodeName, path.Child("nodeName"))...)
}
