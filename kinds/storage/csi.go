package storage

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/rules"
)

func csiDrivers() kind.Rules {
	return kind.Rules{
		Conditional: true,
		Default: kind.On(func(d *storagev1.CSIDriver) {
			rules.SetDefaultPointer(&d.Spec.AttachRequired, true)
			rules.SetDefaultPointer(&d.Spec.PodInfoOnMount, false)
			rules.SetDefaultPointer(&d.Spec.StorageCapacity, false)
			rules.SetDefaultPointer(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
			if len(d.Spec.VolumeLifecycleModes) == 0 {
				d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
			}
			rules.SetDefaultPointer(&d.Spec.RequiresRepublish, false)
			rules.SetDefaultPointer(&d.Spec.SELinuxMount, false)
		}),
		Main: kind.Write{
			Prepare: kind.Change(func(d, old *storagev1.CSIDriver) {
				// Scaling by volume limits is off by default.
				if old == nil || old.Spec.PreventPodSchedulingIfMissing == nil {
					d.Spec.PreventPodSchedulingIfMissing = nil
				}
				if old != nil && !apiequality.Semantic.DeepEqual(old.Spec, d.Spec) {
					d.Generation = old.Generation + 1
				}
			}),
			Validate: kind.Check(validateCSIDriver),
			Warnings: kind.Warn(csiDriverWarnings),
		},
	}
}

func validateCSIDriver(d, old *storagev1.CSIDriver) (errs field.ErrorList) {
	path, spec := field.NewPath("spec"), &d.Spec
	if old == nil {
		errs = validateMeta(&d.ObjectMeta, false)
	} else {
		errs = validateChange(&d.ObjectMeta, &old.ObjectMeta)
	}
	for _, required := range []struct {
		name  string
		value *bool
	}{
		{"attachedRequired", spec.AttachRequired},
		{"podInfoOnMount", spec.PodInfoOnMount},
		{"storageCapacity", spec.StorageCapacity},
	} {
		if required.value == nil {
			errs = append(errs, field.Required(path.Child(required.name), ""))
		}
	}
	if spec.FSGroupPolicy != nil {
		errs = append(errs, rules.Enum(*spec.FSGroupPolicy, path.Child("fsGroupPolicy"),
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	errs = append(errs, tokenRequests(spec.TokenRequests, path.Child("tokenRequests"))...)
	for _, mode := range spec.VolumeLifecycleModes {
		errs = append(errs, rules.Enum(mode, path.Child("volumeLifecycleModes"),
			storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	if spec.SELinuxMount == nil {
		errs = append(errs, field.Required(path.Child("seLinuxMount"), ""))
	}
	if seconds := spec.NodeAllocatableUpdatePeriodSeconds; seconds != nil && *seconds < 10 {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"),
			*seconds, "must be greater than or equal to 10 seconds"))
	}
	if spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *spec.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if old != nil {
		errs = append(errs, rules.Immutable(spec.AttachRequired, old.Spec.AttachRequired, path.Child("attachedRequired"))...)
		errs = append(errs, rules.Immutable(spec.VolumeLifecycleModes,
			old.Spec.VolumeLifecycleModes, path.Child("volumeLifecycleModes"))...)
	}
	return errs
}

func tokenRequests(list []storagev1.TokenRequest, path *field.Path) (errs field.ErrorList) {
	audiences := map[string]bool{}
	for i, request := range list {
		if audiences[request.Audience] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("audience"), request.Audience))
			continue
		}
		audiences[request.Audience] = true
		if request.ExpirationSeconds == nil {
			continue
		}
		seconds, at := *request.ExpirationSeconds, path.Index(i).Child("expirationSeconds")
		if seconds < 600 {
			errs = append(errs, field.Invalid(at, seconds, "may not specify a duration less than 10 minutes"))
		}
		if seconds > 1<<32 {
			errs = append(errs, field.Invalid(at, seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

func csiDriverWarnings(d, old *storagev1.CSIDriver) []string {
	unchanged := old != nil && apiequality.Semantic.DeepEqual(old.Spec.TokenRequests, d.Spec.TokenRequests)
	if unchanged || len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

func validateCSINode(n, old *storagev1.CSINode) field.ErrorList {
	errs := validateMeta(&n.ObjectMeta, false)
	path := field.NewPath("spec", "drivers")
	names := map[string]bool{}
	for i, driver := range n.Spec.Drivers {
		errs = append(errs, validateNodeDriver(driver, names, path.Index(i))...)
	}
	if old == nil {
		return errs
	}
	for _, before := range old.Spec.Drivers {
		for _, driver := range n.Spec.Drivers {
			if driver.Name != before.Name {
				continue
			}
			driver, before := driver, before
			driver.Allocatable, before.Allocatable = nil, nil
			errs = append(errs, rules.Immutable(driver, before, path)...)
		}
	}
	return errs
}

func validateNodeDriver(driver storagev1.CSINodeDriver, names map[string]bool, path *field.Path) field.ErrorList {
	const maxID = 256
	errs := rules.CSIDriverName(driver.Name, path.Child("name"))
	errs = append(errs, rules.Required(driver.NodeID, path.Child("nodeID"))...)
	if len(driver.NodeID) > maxID {
		errs = append(errs, field.Invalid(path.Child("nodeID"), driver.NodeID, fmt.Sprintf("must be %d characters or less", maxID)))
	}
	if driver.Allocatable != nil && driver.Allocatable.Count != nil {
		errs = append(errs, rules.Nonnegative(*driver.Allocatable.Count, path.Child("allocatable", "count"))...)
	}
	if names[driver.Name] {
		errs = append(errs, field.Duplicate(path.Child("name"), driver.Name))
	}
	names[driver.Name] = true
	keys := map[string]bool{}
	for _, key := range driver.TopologyKeys {
		errs = append(errs, rules.Required(key, path)...)
		if keys[key] {
			errs = append(errs, field.Duplicate(path, key))
		}
		keys[key] = true
		errs = append(errs, rules.QualifiedName(key, path)...)
	}
	return errs
}
