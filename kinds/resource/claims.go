package resource

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// claim checks the devices that a claim requests. Its expressions are new: the specification of a
// claim never changes.
func (c checks) claim(claim *v1.DeviceClaim, path *field.Path) field.ErrorList {
	names := namesOf(claim)
	errs := checkSet(claim.Requests, v1.DeviceRequestsMaxSize, path.Child("requests"),
		func(r *v1.DeviceRequest) string { return r.Name }, c.request)
	errs = append(errs, checkList(claim.Constraints, v1.DeviceConstraintsMaxSize, path.Child("constraints"), names.constraint)...)
	return append(errs, checkList(claim.Config, v1.DeviceConfigMaxSize, path.Child("config"),
		func(config *v1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
			errs := names.references(config.Requests, path.Child("requests"))
			return append(errs, checkConfiguration(&config.DeviceConfiguration, path, false)...)
		})...)
}

// request checks that a request has one alternative or several, and checks them.
func (c checks) request(r *v1.DeviceRequest, path *field.Path) field.ErrorList {
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	errs := rules.Label(r.Name, path.Child("name"))
	several := len(r.FirstAvailable) > 0
	switch {
	case r.Exactly != nil && several:
		return append(errs, field.Invalid(path, nil, one+", but multiple fields are set"))
	case r.Exactly != nil:
		e := r.Exactly
		return append(errs, c.alternative(v1.DeviceSubRequest{DeviceClassName: e.DeviceClassName, Selectors: e.Selectors,
			AllocationMode: e.AllocationMode, Count: e.Count, Tolerations: e.Tolerations}, path.Child("exactly"))...)
	case several:
		return append(errs, checkSet(r.FirstAvailable, v1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
			func(s *v1.DeviceSubRequest) string { return s.Name },
			func(s *v1.DeviceSubRequest, path *field.Path) field.ErrorList {
				return append(rules.Label(s.Name, path.Child("name")), c.alternative(*s, path)...)
			})...)
	}
	return append(errs, field.Required(path, one))
}

// alternative checks what all requests for devices have.
func (c checks) alternative(r v1.DeviceSubRequest, path *field.Path) field.ErrorList {
	errs := checkClassName(r.DeviceClassName, path.Child("deviceClassName"))
	errs = append(errs, c.selectors(r.Selectors, path, false)...)
	errs = append(errs, checkCount(r.AllocationMode, r.Count, path)...)
	return append(errs, checkList(r.Tolerations, unlimited, path.Child("tolerations"), checkToleration)...)
}

func checkClassName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return rules.Subdomain(name, path)
}

// checkCount checks the number of devices of a request.
func checkCount(mode v1.DeviceAllocationMode, count int64, path *field.Path) field.ErrorList {
	switch {
	case mode == v1.DeviceAllocationModeAll && count != 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode))}
	case mode == v1.DeviceAllocationModeExactCount && count <= 0:
		return field.ErrorList{field.Invalid(path.Child("count"), count, "must be greater than zero")}
	}
	return rules.Enum(mode, path.Child("allocationMode"), v1.DeviceAllocationModeAll, v1.DeviceAllocationModeExactCount)
}

// taintEffects are the effects of taints that exist.
var taintEffects = []v1.DeviceTaintEffect{v1.DeviceTaintEffectNoExecute, v1.DeviceTaintEffectNoSchedule, v1.DeviceTaintEffectNone}

func checkToleration(t *v1.DeviceToleration, path *field.Path) (errs field.ErrorList) {
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case v1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case v1.DeviceTolerationOpEqual:
		errs = append(errs, checkLabelValue(t.Value, path.Child("value"))...)
	default:
		errs = append(errs, rules.RequiredEnum(t.Operator, path.Child("operator"), v1.DeviceTolerationOpEqual, v1.DeviceTolerationOpExists)...)
	}
	if t.Effect != "" {
		errs = append(errs, rules.Enum(t.Effect, path.Child("effect"), taintEffects...)...)
	}
	return errs
}

func checkLabelValue(value string, path *field.Path) field.ErrorList {
	return rules.Invalid(value, path, validation.IsValidLabelValue(value))
}

// requestNames are the names of the requests of a claim, each with those of its alternatives.
type requestNames map[string]sets.Set[string]

func namesOf(claim *v1.DeviceClaim) requestNames {
	names := requestNames{}
	for i := range claim.Requests {
		r := &claim.Requests[i]
		alternatives := sets.Set[string]{}
		for _, s := range r.FirstAvailable {
			alternatives.Insert(s.Name)
		}
		names[r.Name] = alternatives
	}
	return names
}

// constraint checks that a constraint compares one attribute.
func (n requestNames) constraint(c *v1.DeviceConstraint, path *field.Path) field.ErrorList {
	errs := n.references(c.Requests, path.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, checkFullName(*c.MatchAttribute, path.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		return append(errs, checkFullName(*c.DistinctAttribute, path.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

// references checks names of requests that something else applies to.
func (n requestNames) references(names []string, path *field.Path) field.ErrorList {
	return checkSet(names, v1.DeviceRequestsMaxSize, path, itself, func(name *string, path *field.Path) field.ErrorList {
		return n.reference(*name, path)
	})
}

// reference checks the name of a request, or of one of its alternatives.
func (n requestNames) reference(name string, path *field.Path) (errs field.ErrorList) {
	unknown := field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	request, alternative, divided := strings.Cut(name, "/")
	if strings.Contains(alternative, "/") {
		return field.ErrorList{unknown}
	}
	errs = rules.Label(request, path)
	if divided {
		errs = append(errs, rules.Label(alternative, path)...)
	}
	alternatives, found := n[request]
	if !found || divided && !alternatives.Has(alternative) {
		errs = append(errs, unknown)
	}
	return errs
}
