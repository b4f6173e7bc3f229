package resource_test

import (
	"testing"

	v1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/resource"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	rules := resource.Rules(nil)["resourceclaims"]
	valid := &v1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec: v1.ResourceClaimSpec{Devices: v1.DeviceClaim{Requests: []v1.DeviceRequest{
			{Name: "r", Exactly: &v1.ExactDeviceRequest{DeviceClassName: "c"}},
			{Name: "s", FirstAvailable: []v1.DeviceSubRequest{{Name: "t", DeviceClassName: "c", AllocationMode: v1.DeviceAllocationModeAll}}},
		}}},
	}
	got := kindtest.Create(t, rules, valid)(func(c *v1.ResourceClaim) { c.Status.Devices = make([]v1.AllocatedDeviceStatus, 1) })
	r := got.Spec.Devices.Requests
	if r[0].Exactly.AllocationMode != v1.DeviceAllocationModeExactCount || r[0].Exactly.Count != 1 || r[1].FirstAvailable[0].Count != 0 || len(got.Status.Devices) != 0 || got.Generation != 0 {
		t.Errorf("got %+v", got)
	}
	kindtest.Update(t, rules, "", valid)(func(c *v1.ResourceClaim) { c.Spec = v1.ResourceClaimSpec{} },
		`spec: Invalid value: {"Devices":{"Requests":null,"Constraints":null,"Config":null}}: field is immutable`)
	got = kindtest.Update(t, rules, "status", valid)(func(c *v1.ResourceClaim) {
		c.Spec = v1.ResourceClaimSpec{}
		c.Status.Devices = []v1.AllocatedDeviceStatus{{Driver: "d", Pool: "p", Device: "e"}}
	}, `status.devices[0]: Invalid value: {"Driver":"d","Pool":"p","Device":"e","ShareID":""}: must be an allocated device in the claim`)
	if len(got.Spec.Devices.Requests) != 2 || len(got.Status.Devices) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	template := &v1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	kindtest.Update(t, resource.Rules(nil)["resourceclaimtemplates"], "", template)(func(c *v1.ResourceClaimTemplate) { c.Spec.Labels = map[string]string{"a": "b"} },
		`spec: Invalid value: {"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}: field is immutable`)

	slice := &v1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.ResourceSliceSpec{Driver: "d", Pool: v1.ResourcePool{Name: "p", ResourceSliceCount: 1}, AllNodes: new(true)}}
	update := kindtest.Update(t, resource.Rules(nil)["resourceslices"], "", slice)
	update(func(s *v1.ResourceSlice) {
		s.Spec.Driver, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.AllNodes = "e", "q", new("n"), nil
	},
		`spec.pool.name: Invalid value: "q": field is immutable`,
		`spec.driver: Invalid value: "e": field is immutable`,
		`spec.nodeName: Invalid value: "n": field is immutable`)
	if got := update(func(s *v1.ResourceSlice) { s.Spec.Pool.Generation = 5 }); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}

	class := &v1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	create := kindtest.Create(t, resource.Rules(nil)["deviceclasses"], class)
	if got := create(func(*v1.DeviceClass) {}); got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	create(func(c *v1.DeviceClass) { c.Namespace = "b" }, `metadata.namespace: Forbidden: not allowed on this type`)
}

// TestRequired checks the fields without which an object has no meaning.
func TestRequired(t *testing.T) {
	t.Parallel()
	all := resource.Rules(nil)
	claim := &v1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	kindtest.Create(t, all["resourceclaims"], claim)(func(c *v1.ResourceClaim) {
		c.Spec.Devices = v1.DeviceClaim{
			Requests: []v1.DeviceRequest{
				{Name: "a"},
				{Name: "b", Exactly: &v1.ExactDeviceRequest{AllocationMode: "x", Selectors: make([]v1.DeviceSelector, 1)}},
				{Name: "c", FirstAvailable: []v1.DeviceSubRequest{{Name: "d", DeviceClassName: "e", AllocationMode: v1.DeviceAllocationModeAll, Count: 3}}},
			},
			Constraints: make([]v1.DeviceConstraint, 1),
			Config:      []v1.DeviceClaimConfiguration{{}, {DeviceConfiguration: v1.DeviceConfiguration{Opaque: &v1.OpaqueDeviceConfiguration{}}}},
		}
	},
		"spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
		`spec.devices.requests[1].exactly.deviceClassName: Required value`,
		`spec.devices.requests[1].exactly.selectors[0].cel: Required value`,
		`spec.devices.requests[1].exactly.allocationMode: Unsupported value: "x": supported values: "All", "ExactCount"`,
		`spec.devices.requests[2].firstAvailable[0].count: Invalid value: 3: must not be specified when allocationMode is 'All'`,
		`spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`,
		`spec.devices.config[0].opaque: Required value`,
		`spec.devices.config[1].opaque.driver: Required value`,
		`spec.devices.config[1].opaque.parameters: Required value`)
	kindtest.Update(t, all["resourceclaims"], "status", claim)(func(c *v1.ResourceClaim) {
		c.Status.ReservedFor = make([]v1.ResourceClaimConsumerReference, 1)
	},
		`status.reservedFor[0].resource: Required value`,
		`status.reservedFor[0].name: Required value`,
		`status.reservedFor[0].uid: Required value`,
		"status.reservedFor: Forbidden: may not be specified when `allocated` is not set")
	kindtest.Create(t, all["resourceslices"], &v1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}})(func(*v1.ResourceSlice) {},
		`spec.driver: Required value`,
		`spec.pool.name: Required value`,
		`spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero`,
		"spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required")
	kindtest.Create(t, all["deviceclasses"], &v1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}})(func(c *v1.DeviceClass) {
		c.Spec.Selectors, c.Spec.Config = make([]v1.DeviceSelector, 1), make([]v1.DeviceClassConfiguration, 1)
	},
		`spec.selectors[0].cel: Required value`,
		`spec.config[0].opaque: Required value`)
}
