package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// TestDevices measures resource claims: devices by class, and as extended resources if no pod is
// charged for them.
func TestDevices(t *testing.T) {
	t.Parallel()
	class := parse[resourcev1.DeviceClass](t, "{metadata: {name: gpu}, spec: {extendedResourceName: e.x/gpu}}")
	pod := parse[corev1.Pod](t, "{metadata: {name: p, namespace: ns, uid: u}, spec: {containers: [{name: c, resources: {requests: {e.x/gpu: 2}}}]}}")
	list := func(r schema.GroupResource, _ string) ([]runtime.Object, error) {
		switch r.Resource {
		case "deviceclasses":
			return []runtime.Object{class}, nil
		case "pods":
			return []runtime.Object{pod}, nil
		}
		return nil, nil
	}
	e := Evaluator(schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}, list, nil)
	const owned = "metadata: {name: c, namespace: ns, annotations: {resource.kubernetes.io/extended-resource-claim: 'true'}, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}"
	for _, c := range []struct{ meta, requests, want string }{
		{"", "[{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 3}}]",
			"count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=3 requests.deviceclass.resource.kubernetes.io/gpu=3 requests.e.x/gpu=3"},
		{"", "[{name: a, exactly: {deviceClassName: nic, allocationMode: All}}]",
			"count/resourceclaims.resource.k8s.io=1 nic.deviceclass.resource.k8s.io/devices=32 requests.deviceclass.resource.kubernetes.io/nic=32"},
		{"", "[{name: a, firstAvailable: [{name: x, deviceClassName: gpu, allocationMode: ExactCount, count: 1}, {name: y, deviceClassName: gpu, allocationMode: ExactCount, count: 4}]}, {name: b, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]",
			"count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=5 requests.deviceclass.resource.kubernetes.io/gpu=5 requests.e.x/gpu=5"},
		{owned, "[{name: a, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]",
			"count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=2 requests.deviceclass.resource.kubernetes.io/gpu=2"},
	} {
		claim := parse[resourcev1.ResourceClaim](t, "{"+strings.TrimPrefix(c.meta+", ", ", ")+"spec: {devices: {requests: "+c.requests+"}}}")
		used, err := e.Usage(claim)
		var texts []string
		for _, name := range slices.Sorted(maps.Keys(used)) {
			q := used[name]
			texts = append(texts, fmt.Sprintf("%s=%s", name, q.String()))
		}
		if got := strings.Join(texts, " "); err != nil || got != c.want {
			t.Errorf("%s\ngot  %s %v\nwant %s", c.requests, got, err, c.want)
		}
	}
	for name, want := range map[corev1.ResourceName]bool{"requests.e.x/gpu": true, "requests.e.x/other": false, "requests.deviceclass.resource.kubernetes.io/gpu": true, "pods": false} {
		if got := len(e.MatchingResources([]corev1.ResourceName{name})) == 1; got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}
