package resource_test

import (
	"testing"

	v1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/builtin/kind/kindtest"
	"espalier.dev/server/builtin/resource"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	rules := resource.Rules()["resourceclaims"]
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
		c.Status.Devices = make([]v1.AllocatedDeviceStatus, 1)
	})
	if len(got.Spec.Devices.Requests) != 2 || len(got.Status.Devices) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestOthers(t *testing.T) {
	t.Parallel()
	template := &v1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	kindtest.Update(t, resource.Rules()["resourceclaimtemplates"], "", template)(func(c *v1.ResourceClaimTemplate) { c.Spec.Labels = map[string]string{"a": "b"} },
		`spec: Invalid value: {"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}: field is immutable`)

	slice := &v1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1.ResourceSliceSpec{Driver: "d", Pool: v1.ResourcePool{Name: "p"}}}
	update := kindtest.Update(t, resource.Rules()["resourceslices"], "", slice)
	update(func(s *v1.ResourceSlice) { s.Spec.Driver, s.Spec.Pool.Name, s.Spec.NodeName = "e", "q", new("n") },
		`spec.pool.name: Invalid value: "q": field is immutable`,
		`spec.driver: Invalid value: "e": field is immutable`,
		`spec.nodeName: Invalid value: "n": field is immutable`)
	if got := update(func(s *v1.ResourceSlice) { s.Spec.Pool.Generation = 5 }); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}

	class := &v1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	create := kindtest.Create(t, resource.Rules()["deviceclasses"], class)
	if got := create(func(*v1.DeviceClass) {}); got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	create(func(c *v1.DeviceClass) { c.Namespace = "b" }, `metadata.namespace: Forbidden: not allowed on this type`)
}
