package resource

import (
	"fmt"
	"regexp"
	"slices"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// longestName is the length of the longest name of an attribute or a capacity.
const longestName = v1.DeviceMaxDomainLength + len("/") + v1.DeviceMaxIDLength

// checkSliceDevice checks a device of a slice. old is the slice that is replaced, if any.
func checkSliceDevice(d *v1.Device, spec, old *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := rules.Label(d.Name, path.Child("name"))
	errs = append(errs, checkAmount(d, path)...)
	errs = append(errs, checkMap(d.Attributes, unlimited, longestName, path.Child("attributes"), checkName, checkAttribute)...)
	capacity := checkExclusive
	if d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations {
		capacity = checkShared
	}
	errs = append(errs, checkMap(d.Capacity, unlimited, longestName, path.Child("capacity"), checkName, capacity)...)
	if !hasTaints(old, d) {
		errs = append(errs, checkList(d.Taints, v1.DeviceTaintsMaxLength, path.Child("taints"), checkTaint)...)
	}
	errs = append(errs, checkSet(d.ConsumesCounters, v1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path.Child("consumesCounters"),
		func(c *v1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c *v1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
			return checkCounters("counterSet", c.CounterSet, c.Counters, v1.ResourceSliceMaxCountersPerDeviceCounterConsumption, path)
		})...)
	errs = append(errs, checkDeviceNodes(d, spec.PerDeviceNodeSelection, path)...)
	return append(errs, checkBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

// hasTaints reports whether a stored slice has the device with the same taints.
func hasTaints(old *v1.ResourceSliceSpec, d *v1.Device) bool {
	if old == nil {
		return false
	}
	i := slices.IndexFunc(old.Devices, func(o v1.Device) bool { return o.Name == d.Name })
	return i >= 0 && equality.Semantic.DeepEqual(old.Devices[i].Taints, d.Taints)
}

// checkAmount limits the attributes and capacities of a device, and the values of its attributes.
func checkAmount(d *v1.Device, path *field.Path) (errs field.ErrorList) {
	if n := len(d.Attributes) + len(d.Capacity); n > v1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d",
			v1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	values := 0
	for _, a := range d.Attributes {
		values += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	if values > v1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(path, values, fmt.Sprintf("the total number of attribute values must not exceed %d",
			v1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	return errs
}

// hasList reports whether the value of an attribute is a list.
func hasList(a *v1.DeviceAttribute) bool {
	return a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil
}

// checkAttribute checks that an attribute has one value.
func checkAttribute(a v1.DeviceAttribute, path *field.Path) (errs field.ErrorList) {
	set := 0
	value := func(present bool) {
		if present {
			set++
		}
	}
	value(a.BoolValue != nil)
	value(a.IntValue != nil)
	for _, text := range []struct {
		name  string
		value *string
		list  []string
		check func(*string, *field.Path) field.ErrorList
	}{
		{"string", a.StringValue, a.StringValues, checkText},
		{"version", a.VersionValue, a.VersionValues, checkVersion},
	} {
		if value(text.value != nil); text.value != nil {
			errs = append(errs, text.check(text.value, path.Child(text.name))...)
		}
		errs = append(errs, checkList(text.list, unlimited, path.Child(text.name+"s"), text.check)...)
	}
	for _, list := range []struct {
		name    string
		present bool
		size    int
		value   any
	}{
		{"bools", a.BoolValues != nil, len(a.BoolValues), a.BoolValues},
		{"ints", a.IntValues != nil, len(a.IntValues), a.IntValues},
		{"strings", a.StringValues != nil, len(a.StringValues), a.StringValues},
		{"versions", a.VersionValues != nil, len(a.VersionValues), a.VersionValues},
	} {
		if value(list.present); list.present && list.size == 0 {
			errs = append(errs, field.Invalid(path.Child(list.name), list.value, "must not be empty if specified"))
		}
	}
	const one = "exactly one value must be specified"
	switch set {
	case 0:
		return append(errs, field.Invalid(path, "", one))
	case 1:
		return errs
	}
	return append(errs, field.Invalid(path, rules.Internal(a), one))
}

func checkText(text *string, path *field.Path) field.ErrorList {
	if len(*text) > v1.DeviceAttributeMaxValueLength {
		return field.ErrorList{field.TooLong(path, "", v1.DeviceAttributeMaxValueLength)}
	}
	return nil
}

// semanticVersion is what semver.org 2.0.0 defines.
var semanticVersion = func() *regexp.Regexp {
	const number = `(0|[1-9][0-9]*)`
	const prerelease = `(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)`
	const build = `[0-9a-zA-Z-]+`
	return regexp.MustCompile(fmt.Sprintf(`^%[1]s\.%[1]s\.%[1]s(-%[2]s(\.%[2]s)*)?(\+%[3]s(\.%[3]s)*)?$`, number, prerelease, build))
}()

func checkVersion(text *string, path *field.Path) (errs field.ErrorList) {
	if !semanticVersion.MatchString(*text) {
		errs = append(errs, field.Invalid(path, *text, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, checkText(text, path)...)
}

func checkTaint(t *v1.DeviceTaint, path *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	errs = append(errs, checkLabelValue(t.Value, path.Child("value"))...)
	return append(errs, rules.RequiredEnum(t.Effect, path.Child("effect"), taintEffects...)...)
}

// checkBinding checks the conditions of a claim that pods wait for, and those that end the wait: there
// are both or none, and none twice.
func checkBinding(conditions, failures []string, path *field.Path) field.ErrorList {
	const conditionsField, failuresField = "bindingConditions", "bindingFailureConditions"
	atConditions, atFailures := path.Child(conditionsField), path.Child(failuresField)
	label := func(name *string, path *field.Path) field.ErrorList {
		return metav1validation.ValidateLabelName(*name, path)
	}
	errs := checkList(conditions, v1.BindingConditionsMaxSize, atConditions, label)
	errs = append(errs, checkList(failures, v1.BindingFailureConditionsMaxSize, atFailures, label)...)
	errs = append(errs, duplicates(conditions, atConditions)...)
	errs = append(errs, duplicates(failures, atFailures)...)
	known := sets.New(conditions...)
	for i, name := range failures {
		if known.Has(name) {
			errs = append(errs, field.Invalid(atFailures.Index(i), name, failuresField+" must not overlap with "+conditionsField))
		}
	}
	switch {
	case len(conditions) == 0 && len(failures) > 0:
		errs = append(errs, field.Invalid(atConditions, conditions, conditionsField+" are required to use "+failuresField))
	case len(failures) == 0 && len(conditions) > 0:
		errs = append(errs, field.Invalid(atFailures, failures, failuresField+" are required to use "+conditionsField))
	}
	return errs
}

// duplicates returns an error for each repeated text.
func duplicates(texts []string, path *field.Path) (errs field.ErrorList) {
	seen := sets.Set[string]{}
	for i, text := range texts {
		if seen.Has(text) {
			errs = append(errs, field.Duplicate(path.Index(i), text))
		}
		seen.Insert(text)
	}
	return errs
}
