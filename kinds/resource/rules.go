// Package resource has the rules of the kinds of dynamic resource allocation: claims for devices and
// their templates, classes of devices, and slices, which say what devices there are. Expressions of
// selectors are compiled by an implementation of [CEL].
package resource

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

// Rules returns the rules of the kinds of resource.k8s.io, by resource. If cel is nil, expressions
// are not compiled.
func Rules(cel CEL) map[string]kind.Rules {
	c := checks{cel}
	return map[string]kind.Rules{
		"deviceclasses": {
			Main: kind.Write{
				Prepare: kind.Change(func(obj, old *v1.DeviceClass) {
					rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
				}),
				Validate: kind.Check(c.validateClass),
			},
		},
		"resourceclaims": {
			Default: kind.On(func(c *v1.ResourceClaim) {
				defaultRequests(c.Spec.Devices.Requests)
				eachResult(&c.Status, func(r *v1.DeviceRequestAllocationResult) bool {
					defaultTolerations(r.Tolerations)
					return false
				})
			}),
			Main: kind.Write{
				Prepare:  kind.Change(prepareClaim),
				Validate: kind.Check(c.validateClaim),
				Reset:    []string{"status"},
			},
			Status: &kind.Write{
				Prepare:  kind.Change(prepareStatus),
				Validate: kind.Check(validateStatus),
				Reset:    []string{"metadata", "spec"},
			},
		},
		"resourceclaimtemplates": {
			Default: kind.On(func(t *v1.ResourceClaimTemplate) { defaultRequests(t.Spec.Spec.Devices.Requests) }),
			Main: kind.Write{
				Prepare:  kind.Change(prepareTemplate),
				Validate: kind.Check(c.validateTemplate),
			},
		},
		"resourceslices": {
			Default: kind.On(defaultTaints),
			Main: kind.Write{
				Prepare:  kind.Change(prepareSlice),
				Validate: kind.Check(validateSlice),
				Warnings: kind.Warn(warnAboutDriver),
			},
			Fields: func(obj kind.Object) fields.Set {
				spec := obj.(*v1.ResourceSlice).Spec
				node := ""
				if spec.NodeName != nil {
					node = *spec.NodeName
				}
				return fields.Set{v1.ResourceSliceSelectorNodeName: node, v1.ResourceSliceSelectorDriver: spec.Driver}
			},
		},
	}
}

func defaultRequests(requests []v1.DeviceRequest) {
	for i := range requests {
		if r := requests[i].Exactly; r != nil {
			defaultCount(&r.AllocationMode, &r.Count)
			defaultTolerations(r.Tolerations)
		}
		for j := range requests[i].FirstAvailable {
			r := &requests[i].FirstAvailable[j]
			defaultCount(&r.AllocationMode, &r.Count)
			defaultTolerations(r.Tolerations)
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

func defaultTolerations(tolerations []v1.DeviceToleration) {
	for i := range tolerations {
		rules.SetDefault(&tolerations[i].Operator, v1.DeviceTolerationOpEqual)
	}
}

// defaultTaints sets the time of taints without one.
func defaultTaints(s *v1.ResourceSlice) {
	for i := range s.Spec.Devices {
		for j := range s.Spec.Devices[i].Taints {
			taint := &s.Spec.Devices[i].Taints[j]
			if taint.TimeAdded == nil {
				taint.TimeAdded = &metav1.Time{Time: time.Now().Truncate(time.Second)}
			}
		}
	}
}

func prepareClaim(obj, old *v1.ResourceClaim) {
	if old == nil {
		obj.Status = v1.ResourceClaimStatus{}
		dropNewInClaim(&obj.Spec.Devices, nil)
		return
	}
	obj.Status = old.Status
	dropNewInClaim(&obj.Spec.Devices, &old.Spec.Devices)
}

func prepareStatus(obj, old *v1.ResourceClaim) {
	obj.Spec = old.Spec
	metav1.ResetObjectMetaForStatus(obj, old)
	dropNewInStatus(&obj.Status, &old.Status)
	dropDeallocated(&obj.Status, &old.Status)
}

func prepareTemplate(obj, old *v1.ResourceClaimTemplate) {
	var before *v1.DeviceClaim
	if old != nil {
		before = &old.Spec.Spec.Devices
	}
	dropNewInClaim(&obj.Spec.Spec.Devices, before)
}

// prepareSlice counts the change of a field that is then dropped, as kube-apiserver does.
func prepareSlice(obj, old *v1.ResourceSlice) {
	var before *v1.ResourceSliceSpec
	if old != nil {
		before = &old.Spec
	}
	dropNewInSlice(&obj.Spec, before)
	rules.Generation(obj, old, old != nil && equality.Semantic.DeepEqual(obj.Spec, old.Spec))
	dropLists(&obj.Spec, before)
}

func (c checks) validateClass(obj, old *v1.DeviceClass) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	errs := rules.ObjectMetaWithName(&obj.ObjectMeta, false, rules.LongName, meta)
	var sameSelectors, sameConfig bool
	if old != nil {
		errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)...)
		sameSelectors = equality.Semantic.DeepEqual(obj.Spec.Selectors, old.Spec.Selectors)
		sameConfig = equality.Semantic.DeepEqual(obj.Spec.Config, old.Spec.Config)
	}
	errs = append(errs, c.selectors(obj.Spec.Selectors, path, sameSelectors)...)
	errs = append(errs, checkList(obj.Spec.Config, v1.DeviceConfigMaxSize, path.Child("config"),
		func(config *v1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
			return checkConfiguration(&config.DeviceConfiguration, path, sameConfig)
		})...)
	if name := obj.Spec.ExtendedResourceName; name != nil && !rules.IsExtendedResource(corev1.ResourceName(*name)) {
		errs = append(errs, field.Invalid(path.Child("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}

func (c checks) validateClaim(obj, old *v1.ResourceClaim) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	errs := rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	if old != nil {
		// Only its immutability is checked: nothing else can be wrong.
		errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)...)
		return append(errs, rules.Immutable(obj.Spec, old.Spec, path)...)
	}
	return append(errs, c.claim(&obj.Spec.Devices, path.Child("devices"))...)
}

func validateStatus(obj, old *v1.ResourceClaim) field.ErrorList {
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, checkStatus(obj, old, field.NewPath("status"))...)
}

func (c checks) validateTemplate(obj, old *v1.ResourceClaimTemplate) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	errs := rules.ObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, meta)
	errs = append(errs, rules.TemplateMeta(&obj.Spec.ObjectMeta, path.Child("metadata"))...)
	errs = append(errs, c.claim(&obj.Spec.Spec.Devices, path.Child("spec", "devices"))...)
	if old == nil {
		return errs
	}
	errs = append(errs, rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)...)
	return append(errs, rules.Immutable(obj.Spec, old.Spec, path)...)
}

func validateSlice(obj, old *v1.ResourceSlice) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("spec")
	if old == nil {
		errs := rules.ObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, meta)
		return append(errs, checkSlice(&obj.Spec, nil, path)...)
	}
	errs := rules.ObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, meta)
	return append(errs, checkSlice(&obj.Spec, &old.Spec, path)...)
}

// warnAboutDriver warns about names of drivers that are not in lower case.
func warnAboutDriver(obj, _ *v1.ResourceSlice) []string {
	if name := obj.Spec.Driver; name != strings.ToLower(name) {
		return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", name)}
	}
	return nil
}
