package resource

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/rules"
)

// checkSlice checks the specification of a slice. old is nil if it is created.
func checkSlice(spec, old *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := rules.CSIDriverName(spec.Driver, path.Child("driver"))
	errs = append(errs, checkPool(&spec.Pool, path.Child("pool"))...)
	if old != nil {
		errs = append(errs, rules.Immutable(spec.Pool.Name, old.Pool.Name, path.Child("pool", "name"))...)
		errs = append(errs, rules.Immutable(spec.Driver, old.Driver, path.Child("driver"))...)
		errs = append(errs, rules.Immutable(spec.NodeName, old.NodeName, path.Child("nodeName"))...)
	}
	errs = append(errs, checkSliceNodes(spec, path)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	limit := v1.ResourceSliceMaxDevices
	if slices.ContainsFunc(spec.Devices, isAdvanced) {
		limit = v1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	errs = append(errs, checkSet(spec.Devices, limit, path.Child("devices"),
		func(d *v1.Device) string { return d.Name },
		func(d *v1.Device, path *field.Path) field.ErrorList { return checkSliceDevice(d, spec, old, path) })...)
	return append(errs, checkSet(spec.SharedCounters, v1.ResourceSliceMaxCounterSets, path.Child("sharedCounters"),
		func(s *v1.CounterSet) string { return s.Name },
		func(s *v1.CounterSet, path *field.Path) field.ErrorList {
			return checkCounters("name", s.Name, s.Counters, v1.ResourceSliceMaxCountersPerCounterSet, path)
		})...)
}

// isAdvanced reports whether a device has fields of which a slice can have fewer.
func isAdvanced(d v1.Device) bool {
	if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
		return true
	}
	for _, a := range d.Attributes {
		if hasList(&a) {
			return true
		}
	}
	return false
}

func checkPool(pool *v1.ResourcePool, path *field.Path) field.ErrorList {
	errs := checkPoolName(pool.Name, path.Child("name"))
	if pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("resourceSliceCount"), pool.ResourceSliceCount, "must be greater than zero"))
	}
	if pool.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("generation"), pool.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

// nodes collects the ways in which something says on which nodes devices are.
type nodes struct {
	path *field.Path
	set  []string
	errs field.ErrorList
}

// name adds the name of a node. empty is the error about an empty one.
func (n *nodes) name(name *string, empty string) {
	path := n.path.Child("nodeName")
	switch {
	case name == nil:
	case *name == "":
		n.errs = append(n.errs, field.Invalid(path, "", empty))
	default:
		n.set = append(n.set, "`nodeName`")
		n.errs = append(n.errs, rules.Invalid(*name, path, apivalidation.NameIsDNSSubdomain(*name, false))...)
	}
}

func (n *nodes) selector(s *corev1.NodeSelector) {
	if s != nil {
		n.set = append(n.set, "`nodeSelector`")
		n.errs = append(n.errs, rules.NodeSelector(s, false, n.path.Child("nodeSelector"))...)
	}
}

// flag adds a field that can only be true.
func (n *nodes) flag(name string, value *bool) {
	switch {
	case value == nil:
	case *value:
		n.set = append(n.set, "`"+name+"`")
	default:
		n.errs = append(n.errs, field.Invalid(n.path.Child(name), false, "must be either unset or set to true"))
	}
}

// exactlyOne returns all errors, with one of its arguments if there is no way or if there are
// several.
func (n *nodes) exactlyOne(none, several string) field.ErrorList {
	switch len(n.set) {
	case 0:
		n.errs = append(n.errs, field.Required(n.path, none))
	case 1:
	default:
		n.errs = append(n.errs, field.Invalid(n.path, "{"+strings.Join(n.set, ", ")+"}", several))
	}
	return n.errs
}

// checkSliceNodes checks that a slice says in one way where its devices are.
func checkSliceNodes(spec *v1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	n := nodes{path: path}
	n.name(spec.NodeName, "must be either unset or set to a non-empty string")
	n.selector(spec.NodeSelector)
	if s := spec.NodeSelector; s != nil && len(s.NodeSelectorTerms) != 1 {
		n.errs = append(n.errs, field.Invalid(path.Child("nodeSelector", "nodeSelectorTerms"), rules.Internal(s.NodeSelectorTerms),
			"must have exactly one node selector term"))
	}
	n.flag("allNodes", spec.AllNodes)
	n.flag("perDeviceNodeSelection", spec.PerDeviceNodeSelection)
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	return n.exactlyOne(one, one+", but multiple fields are set")
}

// checkDeviceNodes checks that a device says where it is if its slice leaves it to its devices, and only then.
func checkDeviceNodes(d *v1.Device, perDevice *bool, path *field.Path) field.ErrorList {
	if perDevice == nil || !*perDevice {
		if d.NodeName == nil && d.NodeSelector == nil && d.AllNodes == nil {
			return nil
		}
		return field.ErrorList{field.Invalid(path, nil,
			"`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
	}
	n := nodes{path: path}
	n.name(d.NodeName, "must not be empty")
	n.selector(d.NodeSelector)
	n.flag("allNodes", d.AllNodes)
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	return n.exactlyOne(one, one)
}

// checkCounters checks a set of counters, or what a device consumes of one. name is the field that
// has the name of the set.
func checkCounters(name, set string, counters map[string]v1.Counter, limit int, path *field.Path) field.ErrorList {
	errs := rules.Required(set, path.Child(name))
	if set != "" {
		errs = rules.Label(set, path.Child(name))
	}
	path = path.Child("counters")
	if len(counters) == 0 {
		return append(errs, field.Required(path, ""))
	}
	return append(errs, checkMap(counters, limit, validation.DNS1123LabelMaxLength, path, rules.Label,
		func(v1.Counter, *field.Path) field.ErrorList { return nil })...)
}
