package resource

import v1 "k8s.io/api/resource/v1"

// Fields of features that are alpha are dropped, unless the stored object has them.

// dropNewInClaim drops the fields of requests that version 1.37 adds.
func dropNewInClaim(claim, old *v1.DeviceClaim) {
	if old != nil && eachDerived(old, func(d *[]v1.DeviceDerivedAttribute) bool { return len(*d) > 0 }) {
		return
	}
	eachDerived(claim, func(d *[]v1.DeviceDerivedAttribute) bool {
		*d = nil
		return false
	})
}

// eachDerived calls a function for the derived attributes of each request until it returns true.
func eachDerived(claim *v1.DeviceClaim, f func(*[]v1.DeviceDerivedAttribute) bool) bool {
	for i := range claim.Requests {
		r := &claim.Requests[i]
		if r.Exactly != nil && f(&r.Exactly.DerivedAttributes) {
			return true
		}
		for j := range r.FirstAvailable {
			if f(&r.FirstAvailable[j].DerivedAttributes) {
				return true
			}
		}
	}
	return false
}

// dropNewInStatus drops the fields of allocations that version 1.37 adds.
func dropNewInStatus(status, old *v1.ResourceClaimStatus) {
	if eachResult(old, func(r *v1.DeviceRequestAllocationResult) bool { return len(r.SkipNodeOperations) > 0 }) {
		return
	}
	eachResult(status, func(r *v1.DeviceRequestAllocationResult) bool {
		r.SkipNodeOperations = nil
		return false
	})
}

// eachResult calls a function for each allocated device until it returns true.
func eachResult(status *v1.ResourceClaimStatus, f func(*v1.DeviceRequestAllocationResult) bool) bool {
	if status.Allocation == nil {
		return false
	}
	for i := range status.Allocation.Devices.Results {
		if f(&status.Allocation.Devices.Results[i]) {
			return true
		}
	}
	return false
}

// dropNewInSlice drops the fields of slices that version 1.37 adds.
func dropNewInSlice(spec, old *v1.ResourceSliceSpec) {
	if old != nil && hasNew(old) {
		return
	}
	spec.PartitionTypeAttribute, spec.SkipNodeOperations = nil, nil
	for i := range spec.Devices {
		d := &spec.Devices[i]
		d.NodeAllocatableResources = nil
		for j := range d.ConsumesCounters {
			d.ConsumesCounters[j].CompatibilityGroups = nil
		}
	}
}

func hasNew(spec *v1.ResourceSliceSpec) bool {
	if spec.PartitionTypeAttribute != nil || len(spec.SkipNodeOperations) > 0 {
		return true
	}
	for _, d := range spec.Devices {
		if len(d.NodeAllocatableResources) > 0 {
			return true
		}
		for _, c := range d.ConsumesCounters {
			if len(c.CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}

// dropLists drops the values of attributes that are lists.
func dropLists(spec, old *v1.ResourceSliceSpec) {
	if old != nil {
		for _, d := range old.Devices {
			for _, a := range d.Attributes {
				if hasList(&a) {
					return
				}
			}
		}
	}
	for _, d := range spec.Devices {
		for name, a := range d.Attributes {
			if hasList(&a) {
				a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
				d.Attributes[name] = a
			}
		}
	}
}
