package resource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	quantities "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/resource"
)

func slice(devices ...v1.Device) *v1.ResourceSlice {
	return &v1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.ResourceSliceSpec{
		Driver: "d", Pool: v1.ResourcePool{Name: "p", ResourceSliceCount: 1}, AllNodes: new(true), Devices: devices}}
}

// devices returns n devices with a change of each.
func devices(n int, change func(*v1.Device)) (out []v1.Device) {
	for i := range n {
		d := v1.Device{Name: fmt.Sprint("d", i)}
		change(&d)
		out = append(out, d)
	}
	return out
}

func TestSliceContents(t *testing.T) {
	t.Parallel()
	rules := resource.Rules(nil)["resourceslices"]
	create := kindtest.Create(t, rules, slice())
	change := func(f func(*v1.ResourceSliceSpec), want ...string) {
		t.Helper()
		create(func(s *v1.ResourceSlice) { f(&s.Spec) }, want...)
	}
	plain := func(*v1.Device) {}
	change(func(s *v1.ResourceSliceSpec) { s.Devices = devices(128, plain) })
	change(func(s *v1.ResourceSliceSpec) { s.Devices = devices(129, plain) }, `spec.devices: Too many: 129: must have at most 128 items`)
	change(func(s *v1.ResourceSliceSpec) { s.Devices = slices.Repeat(devices(1, plain), 2) }, `spec.devices[1]: Duplicate value: "d0"`)
	change(func(s *v1.ResourceSliceSpec) {
		s.Devices = devices(65, func(d *v1.Device) { d.Taints = []v1.DeviceTaint{{Key: "a", Effect: v1.DeviceTaintEffectNone}} })
	}, `spec.devices: Too many: 65: must have at most 64 items`)
	change(func(s *v1.ResourceSliceSpec) {
		s.Devices = devices(65, func(d *v1.Device) {
			d.ConsumesCounters = []v1.DeviceCounterConsumption{{CounterSet: "a", Counters: map[string]v1.Counter{"c": {}}}}
		})
	}, `spec.devices: Too many: 65: must have at most 64 items`)

	counters := map[string]v1.Counter{"memory": {Value: quantities.MustParse("1Gi")}}
	change(func(s *v1.ResourceSliceSpec) { s.SharedCounters = []v1.CounterSet{{Name: "a", Counters: counters}} })
	change(func(s *v1.ResourceSliceSpec) {
		s.SharedCounters, s.Devices = []v1.CounterSet{{Name: "a", Counters: counters}, {Name: "a", Counters: counters}, {}}, devices(1, plain)
	},
		"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
		`spec.sharedCounters[2].name: Required value`,
		`spec.sharedCounters[2].counters: Required value`,
		`spec.sharedCounters[1]: Duplicate value: "a"`)
	change(func(s *v1.ResourceSliceSpec) { s.SharedCounters = make([]v1.CounterSet, 9) }, `spec.sharedCounters: Too many: 9: must have at most 8 items`)
	many := map[string]v1.Counter{}
	for i := range 33 {
		many[fmt.Sprint("c", i)] = v1.Counter{}
	}
	change(func(s *v1.ResourceSliceSpec) { s.SharedCounters = []v1.CounterSet{{Name: "a", Counters: many}} },
		`spec.sharedCounters[0].counters: Too many: 33: must have at most 32 items`)

	change(func(s *v1.ResourceSliceSpec) {
		s.Pool = v1.ResourcePool{Name: "a/" + strings.Repeat("b", 252), ResourceSliceCount: -1, Generation: -1}
	},
		`spec.pool.name: Too long: may not be more than 253 bytes`,
		`spec.pool.resourceSliceCount: Invalid value: -1: must be greater than zero`,
		`spec.pool.generation: Invalid value: -1: must be greater than or equal to zero`)

	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	change(func(s *v1.ResourceSliceSpec) {
		s.NodeName, s.AllNodes, s.PerDeviceNodeSelection = new(""), new(false), new(false)
		s.NodeSelector = &corev1.NodeSelector{}
	},
		`spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string`,
		`spec.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term`,
		`spec.nodeSelector.nodeSelectorTerms: Invalid value: null: must have exactly one node selector term`,
		`spec.allNodes: Invalid value: false: must be either unset or set to true`,
		`spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true`)
	change(func(s *v1.ResourceSliceSpec) { s.NodeName = new("n") }, "spec: Invalid value: \"{`nodeName`, `allNodes`}\": "+one+", but multiple fields are set")

	got := create(func(s *v1.ResourceSlice) {
		s.Spec.PartitionTypeAttribute = new(v1.FullyQualifiedName("a/b"))
		s.Spec.SkipNodeOperations = []v1.SkipNodeOperation{v1.SkipNodeOperationAll}
		s.Spec.Devices = devices(1, func(d *v1.Device) {
			d.NodeAllocatableResources = map[corev1.ResourceName]v1.NodeAllocatableResource{"cpu": {}}
			d.Attributes = map[v1.QualifiedName]v1.DeviceAttribute{"a": {IntValue: new(int64(1)), IntValues: []int64{1}}}
		})
	})
	if d := got.Spec.Devices[0]; got.Spec.PartitionTypeAttribute != nil || got.Spec.SkipNodeOperations != nil || d.NodeAllocatableResources != nil || d.Attributes["a"].IntValues != nil {
		t.Errorf("alpha fields are stored: %+v", got.Spec)
	}
	if w := rules.Main.Warnings(&v1.ResourceSlice{Spec: v1.ResourceSliceSpec{Driver: "D"}}, nil); len(w) != 1 {
		t.Errorf("got warnings %q", w)
	}
	if f := rules.Fields(slice()); f.String() != "spec.driver=d,spec.nodeName=" {
		t.Errorf("got fields %v", f)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, resource.Rules(nil)["resourceslices"], slice(v1.Device{Name: "a"}))
	change := func(f func(*v1.Device), want ...string) *v1.ResourceSlice {
		t.Helper()
		return create(func(s *v1.ResourceSlice) { f(&s.Spec.Devices[0]) }, want...)
	}
	attributes := func(n int) map[v1.QualifiedName]v1.DeviceAttribute {
		out := map[v1.QualifiedName]v1.DeviceAttribute{}
		for i := range n {
			out[v1.QualifiedName(fmt.Sprint("a", i))] = v1.DeviceAttribute{BoolValue: new(true)}
		}
		return out
	}
	change(func(d *v1.Device) { d.Attributes = attributes(32) })
	change(func(d *v1.Device) {
		d.Attributes = attributes(32)
		d.Capacity = map[v1.QualifiedName]v1.DeviceCapacity{"a": {}}
	}, `spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32`)
	change(func(d *v1.Device) { d.Attributes = attributes(49) },
		`spec.devices[0]: Invalid value: 49: the total number of attributes and capacities must not exceed 32`,
		`spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48`)
	long := strings.Repeat("x", 65)
	change(func(d *v1.Device) {
		d.Attributes = map[v1.QualifiedName]v1.DeviceAttribute{
			"a": {}, "b": {IntValue: new(int64(1)), StringValue: new("x")}, "c": {StringValue: &long}, "d": {VersionValue: new("1.2")},
			"e": {VersionValue: new("1.2.3-rc.1+b.2")}, v1.QualifiedName(long + "/" + long): {},
		}
	},
		`spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified`,
		`spec.devices[0].attributes[b]: Invalid value: {"IntValue":1,"BoolValue":null,"StringValue":"x","VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}: exactly one value must be specified`,
		`spec.devices[0].attributes[c].string: Too long: may not be more than 64 bytes`,
		`spec.devices[0].attributes[d].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0`,
		`spec.devices[0].attributes: Too long: may not be more than 63 bytes`,
		`spec.devices[0].attributes: Too long: may not be more than 32 bytes`,
		`spec.devices[0].attributes[`+long[:47]+`...`+long[:46]+`]: Invalid value: "": exactly one value must be specified`)
	got := change(func(d *v1.Device) { d.Taints = []v1.DeviceTaint{{Key: "a", Effect: v1.DeviceTaintEffectNoSchedule}} })
	if got.Spec.Devices[0].Taints[0].TimeAdded == nil {
		t.Error("a taint has no time")
	}
	change(func(d *v1.Device) { d.Taints = []v1.DeviceTaint{{Key: "a", Effect: "x"}, {Key: "b"}} },
		`spec.devices[0].taints[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"`,
		`spec.devices[0].taints[1].effect: Required value`)
	change(func(d *v1.Device) { d.Taints = make([]v1.DeviceTaint, 17) }, `spec.devices[0].taints: Too many: 17: must have at most 16 items`)
	change(func(d *v1.Device) { d.ConsumesCounters = []v1.DeviceCounterConsumption{{}, {CounterSet: "B"}} },
		`spec.devices[0].consumesCounters[0].counterSet: Required value`,
		`spec.devices[0].consumesCounters[0].counters: Required value`,
		`spec.devices[0].consumesCounters[1].counterSet: Invalid value: "B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`spec.devices[0].consumesCounters[1].counters: Required value`)
	change(func(d *v1.Device) {
		d.BindingConditions = []string{"a", "a"}
		d.BindingFailureConditions = []string{"a", "b", "b"}
	},
		`spec.devices[0].bindingConditions[1]: Duplicate value: "a"`,
		`spec.devices[0].bindingFailureConditions[2]: Duplicate value: "b"`,
		`spec.devices[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`)
	change(func(d *v1.Device) { d.BindingFailureConditions = []string{"a", "b", "c", "d", "e"} },
		`spec.devices[0].bindingFailureConditions: Too many: 5: must have at most 4 items`,
		`spec.devices[0].bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions`)

	change(func(d *v1.Device) { d.AllNodes = new(true) },
		"spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	create(func(s *v1.ResourceSlice) {
		s.Spec.AllNodes, s.Spec.PerDeviceNodeSelection = nil, new(true)
		s.Spec.Devices = []v1.Device{{Name: "a"}, {Name: "b", NodeName: new("n")}, {Name: "c", NodeName: new("n"), AllNodes: new(true)}, {Name: "d", NodeName: new("")}}
	},
		"spec.devices[0]: Required value: "+one,
		"spec.devices[2]: Invalid value: \"{`nodeName`, `allNodes`}\": "+one,
		`spec.devices[3].nodeName: Invalid value: "": must not be empty`,
		"spec.devices[3]: Required value: "+one)
}

// TestRatcheting makes sure that fields of stored slices that rules have come for later do not keep it from being
// updated.
func TestRatcheting(t *testing.T) {
	t.Parallel()
	stored := slice(v1.Device{Name: "a", Taints: []v1.DeviceTaint{{Key: "a", Effect: "x", TimeAdded: new(metav1.Now())}},
		Attributes: map[v1.QualifiedName]v1.DeviceAttribute{"a": {BoolValues: []bool{true}}}})
	update := kindtest.Stored(t, resource.Rules(nil)["resourceslices"], "", stored)
	got := update(func(s *v1.ResourceSlice) { s.Spec.Devices[0].BindsToNode = new(true) })
	if got.Spec.Devices[0].Attributes["a"].BoolValues == nil {
		t.Error("a stored list is dropped")
	}
	update(func(s *v1.ResourceSlice) { s.Spec.Devices[0].Taints[0].Value = "y" },
		`spec.devices[0].taints[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"`)
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, resource.Rules(nil)["resourceslices"], slice(v1.Device{Name: "a", AllowMultipleAllocations: new(true)}))
	q := func(text string) *quantities.Quantity { return new(quantities.MustParse(text)) }
	values := func(texts ...string) (out []quantities.Quantity) {
		for _, text := range texts {
			out = append(out, *q(text))
		}
		return out
	}
	check := func(p v1.CapacityRequestPolicy, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = "spec.devices[0].capacity[m]." + want[i]
		}
		create(func(s *v1.ResourceSlice) {
			s.Spec.Devices[0].Capacity = map[v1.QualifiedName]v1.DeviceCapacity{"m": {Value: *q("10"), RequestPolicy: &p}}
		}, want...)
	}
	check(v1.CapacityRequestPolicy{})
	check(v1.CapacityRequestPolicy{Default: q("2"), ValidValues: values("1", "2", "4")})
	check(v1.CapacityRequestPolicy{Default: q("4"), ValidRange: &v1.CapacityRequestPolicyRange{Min: q("2"), Max: q("8"), Step: q("2")}})
	check(v1.CapacityRequestPolicy{ValidValues: values("1"), ValidRange: &v1.CapacityRequestPolicyRange{}},
		`requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)
	check(v1.CapacityRequestPolicy{ValidValues: values("1")}, `requestPolicy.default: Required value: required when validValues is defined`)
	check(v1.CapacityRequestPolicy{ValidRange: &v1.CapacityRequestPolicyRange{}}, `requestPolicy.default: Required value: required when validRange is defined`)
	check(v1.CapacityRequestPolicy{Default: q("3"), ValidValues: values("1", "11", "4", "4")},
		`requestPolicy.validValues[2]: Invalid value: "4": values must be sorted in ascending order`,
		`requestPolicy.validValues[1]: Invalid value: "11": option is larger than capacity value: 10`,
		`requestPolicy.validValues[3]: Duplicate value: "4"`,
		`requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy`)
	check(v1.CapacityRequestPolicy{Default: q("1"), ValidValues: values("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "10")},
		`requestPolicy.validValues: Too many: 11: must have at most 10 items`,
		`requestPolicy.validValues: Invalid value: "1": default value is not valid according to the requestPolicy`)
	check(v1.CapacityRequestPolicy{Default: q("1"), ValidRange: &v1.CapacityRequestPolicyRange{}},
		`requestPolicy.validRange.min: Required value: required when validRange is defined`)
	check(v1.CapacityRequestPolicy{Default: q("1"), ValidRange: &v1.CapacityRequestPolicyRange{Min: q("12"), Max: q("11")}},
		`requestPolicy.validRange.min: Invalid value: "12": min is larger than capacity value: 10`,
		`requestPolicy.validRange.min: Invalid value: "1": default is less than min: 12`,
		`requestPolicy.validRange.max: Invalid value: "12": min is larger than max: 11`,
		`requestPolicy.validRange.max: Invalid value: "11": max is larger than capacity value: 10`)
	check(v1.CapacityRequestPolicy{Default: q("5"), ValidRange: &v1.CapacityRequestPolicyRange{Min: q("1"), Max: q("4"), Step: q("10")}},
		`requestPolicy.validRange.max: Invalid value: "5": default is more than max: 4`,
		`requestPolicy.validRange.step: Invalid value: "10": one step 11 is larger than capacity value: 10`,
		`requestPolicy.validRange.step: Invalid value: "5": value is not a multiple of a given step (10) from (1)`,
		`requestPolicy.validRange.step: Invalid value: "4": value is not a multiple of a given step (10) from (1)`)
	check(v1.CapacityRequestPolicy{Default: q("5"), ValidRange: &v1.CapacityRequestPolicyRange{Min: q("1"), Step: q("0")}},
		`requestPolicy.validRange.step: Invalid value: "0": must not be zero`)
	create(func(s *v1.ResourceSlice) {
		s.Spec.Devices[0].AllowMultipleAllocations = nil
		s.Spec.Devices[0].Capacity = map[v1.QualifiedName]v1.DeviceCapacity{"m": {RequestPolicy: &v1.CapacityRequestPolicy{}}}
	}, `spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true`)
}
