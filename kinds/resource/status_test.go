package resource_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	v1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/resource"
)

const shareID = "01234567-89ab-cdef-0123-456789abcdef"

func allocatedClaim() *v1.ResourceClaim {
	return &v1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec:       v1.ResourceClaimSpec{Devices: v1.DeviceClaim{Requests: requests("r")}},
		Status: v1.ResourceClaimStatus{
			Allocation: &v1.AllocationResult{Devices: v1.DeviceAllocationResult{Results: []v1.DeviceRequestAllocationResult{
				{Request: "r", Driver: "d", Pool: "p", Device: "e"},
				{Request: "r", Driver: "d", Pool: "p", Device: "e", ShareID: new(types.UID(shareID))},
			}}},
			ReservedFor: []v1.ResourceClaimConsumerReference{{Resource: "pods", Name: "n", UID: "u"}},
			Devices: []v1.AllocatedDeviceStatus{
				{Driver: "d", Pool: "p", Device: "e"}, {Driver: "d", Pool: "p", Device: "e", ShareID: new(shareID)},
			},
		},
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	rules := resource.Rules(nil)["resourceclaims"]
	update := kindtest.Stored(t, rules, "status", allocatedClaim())
	update(func(*v1.ResourceClaim) {})
	update(func(c *v1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].AdminAccess = new(true) },
		`status.allocation: Invalid value: {"Devices":{"Results":[{"Request":"r","Driver":"d","Pool":"p","Device":"e","AdminAccess":true,"Tolerations":null,"BindingConditions":null,"BindingFailureConditions":null,"ShareID":null,"ConsumedCapacity":null},{"Request":"r","Driver":"d","Pool":"p","Device":"e","AdminAccess":null,"Tolerations":null,"BindingConditions":null,"BindingFailureConditions":null,"ShareID":"`+shareID+`","ConsumedCapacity":null}],"Config":null},"NodeSelector":null,"AllocationTimestamp":null}: field is immutable`)

	// The status of devices goes with their allocation.
	got := update(func(c *v1.ResourceClaim) { c.Status.Allocation, c.Status.ReservedFor = nil, nil })
	if got.Status.Devices != nil {
		t.Errorf("there is a status of devices that are not allocated: %+v", got.Status.Devices)
	}

	user := func(name string) v1.ResourceClaimConsumerReference {
		return v1.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: types.UID(name)}
	}
	update(func(c *v1.ResourceClaim) {
		c.Status.ReservedFor = []v1.ResourceClaimConsumerReference{user("a"), user("b"), user("a")}
	}, `status.reservedFor[2]: Duplicate value: "a"`)
	update(func(c *v1.ResourceClaim) {
		for i := range 257 {
			c.Status.ReservedFor = append(c.Status.ReservedFor, user(fmt.Sprint(i)))
		}
	}, `status.reservedFor: Too many: 258: must have at most 256 items`)

	deleted := allocatedClaim()
	deleted.DeletionTimestamp = new(metav1.Now())
	update = kindtest.Stored(t, rules, "status", deleted)
	update(func(c *v1.ResourceClaim) { c.Status.ReservedFor = nil })
	update(func(c *v1.ResourceClaim) { c.Status.ReservedFor = append(c.Status.ReservedFor, user("a")) },
		"status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
}

func TestAllocation(t *testing.T) {
	t.Parallel()
	claim := allocatedClaim()
	claim.Status = v1.ResourceClaimStatus{}
	update := kindtest.Update(t, resource.Rules(nil)["resourceclaims"], "status", claim)
	change := func(f func(*v1.AllocationResult), want ...string) *v1.ResourceClaim {
		t.Helper()
		return update(func(c *v1.ResourceClaim) {
			c.Status = allocatedClaim().Status
			c.Status.Devices = nil
			f(c.Status.Allocation)
		}, want...)
	}
	tolerated := change(func(a *v1.AllocationResult) { a.Devices.Results[0].Tolerations = make([]v1.DeviceToleration, 1) })
	if operator := tolerated.Status.Allocation.Devices.Results[0].Tolerations[0].Operator; operator != v1.DeviceTolerationOpEqual {
		t.Errorf("the operator is %q", operator)
	}
	change(func(a *v1.AllocationResult) {
		a.NodeSelector = &corev1.NodeSelector{}
		a.Devices.Results = []v1.DeviceRequestAllocationResult{
			{Request: "x", Driver: "-", Pool: "p/", Device: "E", ShareID: new(types.UID("X"))},
			{Request: "r", Driver: "d", Pool: "p", Device: "e", ShareID: new(types.UID(strings.ToUpper(shareID))), BindingConditions: []string{"a"}},
		}
		a.Devices.Config = []v1.DeviceAllocationConfiguration{
			{Source: "x", DeviceConfiguration: opaque("d", "{}")},
			{Requests: []string{"y"}, DeviceConfiguration: opaque("d", "1")},
		}
	},
		`status.allocation.devices.results[0].request: Invalid value: "x": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`,
		`status.allocation.devices.results[0].driver: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`status.allocation.devices.results[0].pool: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`status.allocation.devices.results[0].device: Invalid value: "E": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`status.allocation.devices.results[0].shareID: Invalid value: "X": error validating uid: invalid UUID length: 1`,
		`status.allocation.devices.results[1].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions`,
		`status.allocation.devices.results[1].shareID: Invalid value: "`+strings.ToUpper(shareID)+"\": uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters",
		`status.allocation.devices.config[0].source: Unsupported value: "x": supported values: "FromClaim", "FromClass"`,
		`status.allocation.devices.config[1].source: Required value`,
		`status.allocation.devices.config[1].requests[0]: Invalid value: "y": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'`,
		`status.allocation.devices.config[1].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object`,
		`status.allocation.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term`)
	change(func(a *v1.AllocationResult) {
		a.Devices.Results = make([]v1.DeviceRequestAllocationResult, 33)
		a.Devices.Config = make([]v1.DeviceAllocationConfiguration, 65)
	},
		`status.allocation.devices.results: Too many: 33: must have at most 32 items`,
		`status.allocation.devices.config: Too many: 65: must have at most 64 items`)
	got := change(func(a *v1.AllocationResult) {
		a.Devices.Results[0].SkipNodeOperations = []v1.SkipNodeOperation{v1.SkipNodeOperationAll}
	})
	if got.Status.Allocation.Devices.Results[0].SkipNodeOperations != nil {
		t.Error("an alpha field is stored")
	}
}

func TestDeviceStatus(t *testing.T) {
	t.Parallel()
	update := kindtest.Stored(t, resource.Rules(nil)["resourceclaims"], "status", allocatedClaim())
	change := func(f func(*v1.AllocatedDeviceStatus), want ...string) {
		t.Helper()
		update(func(c *v1.ResourceClaim) { f(&c.Status.Devices[0]) }, want...)
	}
	change(func(d *v1.AllocatedDeviceStatus) {
		d.Data = &runtime.RawExtension{Raw: []byte(`{"a":1}`)}
		d.NetworkData = &v1.NetworkDeviceData{InterfaceName: "eth0", HardwareAddress: "00:11", IPs: []string{"10.0.0.1/24", "fd00::1/64"}}
	})
	change(func(d *v1.AllocatedDeviceStatus) { d.Data = &runtime.RawExtension{Raw: []byte(`1`)} },
		`status.devices[0].data: Invalid value: "<value omitted>": must be a valid JSON object`)
	change(func(d *v1.AllocatedDeviceStatus) { d.Data = &runtime.RawExtension{Raw: []byte(large)} },
		`status.devices[0].data: Too long: may not be more than 10240 bytes`)
	change(func(d *v1.AllocatedDeviceStatus) {
		d.NetworkData = &v1.NetworkDeviceData{InterfaceName: strings.Repeat("a", 257), HardwareAddress: strings.Repeat("a", 129),
			IPs: []string{"10.0.0.1", "fd00::1/64", "fd00::1/64"}}
	},
		`status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes`,
		`status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes`,
		`status.devices[0].networkData.ips[0]: Invalid value: "10.0.0.1": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)`,
		`status.devices[0].networkData.ips[2]: Duplicate value: "fd00::1/64"`)
	change(func(d *v1.AllocatedDeviceStatus) { d.NetworkData = &v1.NetworkDeviceData{IPs: make([]string, 17)} },
		`status.devices[0].networkData.ips: Too many: 17: must have at most 16 items`)
	change(func(d *v1.AllocatedDeviceStatus) {
		for i := range 9 {
			d.Conditions = append(d.Conditions, metav1.Condition{Type: fmt.Sprintf("C%d", i), Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()})
		}
	}, `status.devices[0].conditions: Too many: 9: must have at most 8 items`)
	change(func(d *v1.AllocatedDeviceStatus) { d.ShareID = new(shareID) },
		`status.devices[1]: Duplicate value: {"Driver":"d","Pool":"p","Device":"e","ShareID":"`+shareID+`"}`)
}
