package discovery_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/discovery"
	"espalier.dev/kinds/kind/kindtest"
)

type slice = discoveryv1.EndpointSlice

func TestEndpointSlices(t *testing.T) {
	t.Parallel()
	rules := discovery.Rules()["endpointslices"]
	valid := &slice{
		ObjectMeta:  metav1.ObjectMeta{Name: "a", Namespace: "b"},
		AddressType: "IPv4",
		Ports:       []discoveryv1.EndpointPort{{Port: new(int32(1))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, DeprecatedTopology: map[string]string{corev1.LabelHostname: "h"}}},
	}
	create := kindtest.Create(t, rules, valid)
	got := create(func(*slice) {})
	if got.Generation != 1 || *got.Ports[0].Name != "" || *got.Ports[0].Protocol != "TCP" || got.Endpoints[0].DeprecatedTopology != nil || got.Endpoints[0].NodeName != nil {
		t.Errorf("got %+v", got)
	}
	create(func(s *slice) {
		s.AddressType = "x"
		s.Ports = []discoveryv1.EndpointPort{{}, {Protocol: new(corev1.Protocol("y"))}}
		s.Endpoints = []discoveryv1.Endpoint{{NodeName: new("-"), Hints: &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "z"}, {Name: "z"}}, ForNodes: make([]discoveryv1.ForNode, 9)}}}
	},
		`addressType: Unsupported value: "x": supported values: "FQDN", "IPv4", "IPv6"`,
		`ports[1].name: Duplicate value: ""`,
		`ports[1].protocol: Unsupported value: "y": supported values: "SCTP", "TCP", "UDP"`,
		`endpoints[0].addresses: Required value: must contain at least 1 address`,
		`endpoints[0].nodeName: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`endpoints[0].hints.forZones[1].name: Duplicate value: "z"`,
		`endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items`)
	for kind, c := range map[discoveryv1.AddressType][2]string{
		"IPv4": {"::2", `endpoints[0].addresses: Invalid value: "::2": must be an IPv4 address`},
		"IPv6": {"10.0.0.1", `endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address`},
		"FQDN": {"a", `endpoints[0].addresses[0]: Invalid value: "a": should be a domain with at least two segments separated by dots`},
	} {
		create(func(s *slice) { s.AddressType, s.Endpoints[0].Addresses[0] = kind, c[0] }, c[1])
	}
	create(func(s *slice) { s.Endpoints = make([]discoveryv1.Endpoint, 1001) }, `endpoints: Too many: 1001: must have at most 1000 items`)

	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(s *slice) { s.Annotations = map[string]string{"a": "b"} }); got.Generation != 1 {
		t.Errorf("got generation %d", got.Generation)
	}
	if got := update(func(s *slice) { s.Labels = map[string]string{"a": "b"} }); got.Generation != 2 {
		t.Errorf("got generation %d", got.Generation)
	}
	update(func(s *slice) { s.AddressType, s.Endpoints = "IPv6", nil }, `addressType: Invalid value: "IPv6": field is immutable`)

	// A stored slice may have the name of the node in its topology.
	stored, changed := valid.DeepCopy(), valid.DeepCopy()
	changed.Endpoints[0].Addresses[0] = "10.0.0.2"
	rules.Main.Prepare(changed, stored)
	if e := changed.Endpoints[0]; e.NodeName == nil || *e.NodeName != "h" || e.DeprecatedTopology != nil {
		t.Errorf("got %+v", e)
	}
}
