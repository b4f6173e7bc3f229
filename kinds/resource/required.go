package resource

import (
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// requireSelectors checks that selectors have an expression. It is not compiled.
func requireSelectors(selectors []v1.DeviceSelector, path *field.Path) (errs field.ErrorList) {
	for i, s := range selectors {
		if s.CEL == nil {
			errs = append(errs, field.Required(path.Index(i).Child("cel"), ""))
		}
	}
	return errs
}

// requireConfiguration checks that a configuration names its driver and has parameters.
func requireConfiguration(c *v1.DeviceConfiguration, path *field.Path) field.ErrorList {
	path = path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	return append(rules.CSIDriverName(c.Opaque.Driver, path.Child("driver")), requireObject(c.Opaque.Parameters, path.Child("parameters"))...)
}

func requireObject(value runtime.RawExtension, path *field.Path) field.ErrorList {
	switch text := strings.TrimSpace(string(value.Raw)); {
	case text == "", text == "null":
		return field.ErrorList{field.Required(path, "")}
	case text[0] != '{':
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}

// requireClaim checks the required fields of the devices that a claim requests.
func requireClaim(claim *v1.DeviceClaim, path *field.Path) (errs field.ErrorList) {
	for i := range claim.Requests {
		errs = append(errs, requireRequest(&claim.Requests[i], path.Child("requests").Index(i))...)
	}
	for i, c := range claim.Constraints {
		if c.MatchAttribute == nil && c.DistinctAttribute == nil {
			errs = append(errs, field.Required(path.Child("constraints").Index(i),
				`exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
		}
	}
	for i := range claim.Config {
		errs = append(errs, requireConfiguration(&claim.Config[i].DeviceConfiguration, path.Child("config").Index(i))...)
	}
	return errs
}

func requireRequest(r *v1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := rules.Label(r.Name, path.Child("name"))
	switch {
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		path, e := path.Child("exactly"), r.Exactly
		errs = append(errs, requireClass(e.DeviceClassName, path.Child("deviceClassName"))...)
		errs = append(errs, requireSelectors(e.Selectors, path.Child("selectors"))...)
		return append(errs, requireCount(e.AllocationMode, e.Count, path)...)
	case len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	}
	for i, s := range r.FirstAvailable {
		path := path.Child("firstAvailable").Index(i)
		errs = append(errs, rules.Label(s.Name, path.Child("name"))...)
		errs = append(errs, requireClass(s.DeviceClassName, path.Child("deviceClassName"))...)
		errs = append(errs, requireSelectors(s.Selectors, path.Child("selectors"))...)
		errs = append(errs, requireCount(s.AllocationMode, s.Count, path)...)
	}
	return errs
}

func requireClass(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return rules.Subdomain(name, path)
}

// requireCount checks the number of devices of a request.
func requireCount(mode v1.DeviceAllocationMode, count int64, path *field.Path) field.ErrorList {
	switch {
	case mode == v1.DeviceAllocationModeAll && count != 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, "must not be specified when allocationMode is 'All'")}
	case mode == v1.DeviceAllocationModeExactCount && count <= 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, "must be greater than zero")}
	}
	return rules.Enum(mode, path.Child("allocationMode"), v1.DeviceAllocationModeAll, v1.DeviceAllocationModeExactCount)
}

// requireSlice checks the required fields of a slice: its driver, its pool, its nodes, and the
// names of its devices.
func requireSlice(spec *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := rules.CSIDriverName(spec.Driver, path.Child("driver"))
	pool := path.Child("pool")
	errs = append(errs, rules.Required(spec.Pool.Name, pool.Child("name"))...)
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), spec.Pool.Generation, "must be greater than or equal to zero"))
	}
	errs = append(errs, requireNodes(spec, path)...)
	for i, d := range spec.Devices {
		errs = append(errs, rules.Label(d.Name, path.Child("devices").Index(i).Child("name"))...)
	}
	return errs
}

// requireNodes checks that a slice says in one way where its devices are.
func requireNodes(spec *v1.ResourceSliceSpec, path *field.Path) (errs field.ErrorList) {
	var set []string
	switch {
	case spec.NodeName == nil:
	case *spec.NodeName == "":
		errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must be either unset or set to a non-empty string"))
	default:
		set = append(set, "`nodeName`")
	}
	if spec.NodeSelector != nil {
		set = append(set, "`nodeSelector`")
	}
	for _, f := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		switch {
		case f.value == nil:
		case *f.value:
			set = append(set, "`"+f.name+"`")
		default:
			errs = append(errs, field.Invalid(path.Child(f.name), false, "must be either unset or set to true"))
		}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(set) {
	case 0:
		errs = append(errs, field.Required(path, one))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, "{"+strings.Join(set, ", ")+"}", one+", but multiple fields are set"))
	}
	return errs
}

// requireStatus checks the required fields of the users and devices of a claim.
func requireStatus(s *v1.ResourceClaimStatus, path *field.Path) (errs field.ErrorList) {
	for i, user := range s.ReservedFor {
		path := path.Child("reservedFor").Index(i)
		errs = append(errs, rules.Required(user.Resource, path.Child("resource"))...)
		errs = append(errs, rules.Required(user.Name, path.Child("name"))...)
		errs = append(errs, rules.Required(user.UID, path.Child("uid"))...)
	}
	device := func(driver, pool, name string, path *field.Path) {
		errs = append(errs, rules.CSIDriverName(driver, path.Child("driver"))...)
		errs = append(errs, rules.Required(pool, path.Child("pool"))...)
		errs = append(errs, rules.Label(name, path.Child("device"))...)
	}
	for i, d := range s.Devices {
		device(d.Driver, d.Pool, d.Device, path.Child("devices").Index(i))
	}
	if s.Allocation == nil {
		if len(s.ReservedFor) > 0 {
			errs = append(errs, field.Forbidden(path.Child("reservedFor"), "may not be specified when `allocated` is not set"))
		}
		return errs
	}
	for i, d := range s.Allocation.Devices.Results {
		device(d.Driver, d.Pool, d.Device, path.Child("allocation", "devices", "results").Index(i))
	}
	return errs
}
