package resource

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxValidValues is the number of values of a policy, which k8s.io/api does not have.
const maxValidValues = 10

// checkExclusive checks a capacity of a device that is allocated once.
func checkExclusive(c v1.DeviceCapacity, path *field.Path) field.ErrorList {
	if c.RequestPolicy == nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(path.Child("requestPolicy"), "allowMultipleAllocations must be true")}
}

// checkShared checks a capacity that several requests can consume.
func checkShared(c v1.DeviceCapacity, path *field.Path) field.ErrorList {
	p := c.RequestPolicy
	if p == nil {
		return nil
	}
	path = path.Child("requestPolicy")
	switch {
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
	case len(p.ValidValues) > 0:
		return checkValues(p.ValidValues, *p.Default, c.Value, path.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
	case p.ValidRange != nil:
		return checkRange(p.ValidRange, *p.Default, c.Value, path.Child("validRange"))
	}
	return nil
}

// checkValues checks the values that requests can have: a default one among them, and none above
// the capacity.
func checkValues(values []resource.Quantity, byDefault, capacity resource.Quantity, path *field.Path) (errs field.ErrorList) {
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, checkSet(values, maxValidValues, path,
		func(q *resource.Quantity) string { return strconv.FormatInt(q.Value(), 10) },
		func(q *resource.Quantity, path *field.Path) field.ErrorList {
			found = found || q.Cmp(byDefault) == 0
			return largerThan(capacity, q, path, "option is larger than capacity value: %s")
		})...)
	if !found {
		errs = append(errs, field.Invalid(path, byDefault.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

// largerThan returns an error for a value that is larger than a limit. The message has a verb for
// the limit.
func largerThan(limit resource.Quantity, value *resource.Quantity, path *field.Path, message string) field.ErrorList {
	if value.Cmp(limit) <= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.String(), fmt.Sprintf(message, limit.String()))}
}

// checkRange checks the range of the values that requests can have. It has the default value, and
// ends at the capacity.
func checkRange(r *v1.CapacityRequestPolicyRange, byDefault, capacity resource.Quantity, path *field.Path) field.ErrorList {
	from, to := path.Child("min"), path.Child("max")
	if r.Min == nil {
		return field.ErrorList{field.Required(from, "required when validRange is defined")}
	}
	errs := largerThan(capacity, r.Min, from, "min is larger than capacity value: %s")
	if byDefault.Cmp(*r.Min) < 0 {
		errs = append(errs, field.Invalid(from, byDefault.String(), "default is less than min: "+r.Min.String()))
	}
	if r.Max != nil {
		errs = append(errs, largerThan(*r.Max, r.Min, to, "min is larger than max: %s")...)
		errs = append(errs, largerThan(capacity, r.Max, to, "max is larger than capacity value: %s")...)
		errs = append(errs, largerThan(*r.Max, &byDefault, to, "default is more than max: %s")...)
	}
	if r.Step != nil {
		errs = append(errs, checkSteps(r, byDefault, capacity, path.Child("step"))...)
	}
	return errs
}

// checkSteps checks that the default value and the end of a range are whole steps from its begin.
func checkSteps(r *v1.CapacityRequestPolicyRange, byDefault, capacity resource.Quantity, path *field.Path) (errs field.ErrorList) {
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	if first.Cmp(capacity) > 0 {
		errs = append(errs, field.Invalid(path, r.Step.String(), fmt.Sprintf("one step %s is larger than capacity value: %s", first.String(), capacity.String())))
	}
	if r.Step.Value() == 0 {
		return append(errs, field.Invalid(path, r.Step.String(), "must not be zero")) // kube-apiserver panics
	}
	for _, q := range []*resource.Quantity{&byDefault, r.Max} {
		if q != nil && (q.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(path, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String())))
		}
	}
	return errs
}
