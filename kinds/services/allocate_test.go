package services_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/kinds/services"
)

func allocator(t *testing.T, ips, ports string) *services.Allocator {
	t.Helper()
	a, err := services.NewAllocator(ips, ports)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// begin creates or updates a service as the server does it: with defaults.
func begin(a *services.Allocator, svc, old *corev1.Service, stored ...*corev1.Service) (bool, error) {
	services.Rules().Default(svc)
	return a.Begin(svc, old, services.Stored{Services: slices.Values(stored)})
}

func TestCreateAllocates(t *testing.T) {
	t.Parallel()
	a := allocator(t, "", "")
	svc := service()
	takes, err := begin(a, svc, nil)
	if err != nil || !takes || !strings.HasPrefix(svc.Spec.ClusterIP, "10.0.0.") || len(svc.Spec.ClusterIPs) != 1 ||
		*svc.Spec.IPFamilyPolicy != "SingleStack" || len(svc.Spec.IPFamilies) != 1 || svc.Spec.IPFamilies[0] != "IPv4" || svc.Spec.Ports[0].NodePort != 0 {
		t.Fatalf("got %v %v %+v", takes, err, svc.Spec)
	}

	lb := service()
	lb.Spec.Type, lb.Spec.ExternalTrafficPolicy = "LoadBalancer", "Local"
	lb.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 53, Protocol: "UDP"}, {Name: "b", Port: 53, Protocol: "TCP"}, {Name: "c", Port: 54}}
	if _, err := begin(a, lb, nil, svc); err != nil {
		t.Fatal(err)
	}
	p := lb.Spec.Ports
	if p[0].NodePort < 30000 || p[0].NodePort != p[1].NodePort || p[2].NodePort == p[0].NodePort || lb.Spec.HealthCheckNodePort < 30000 || lb.Spec.ClusterIP == svc.Spec.ClusterIP {
		t.Errorf("got %+v", lb.Spec)
	}

	headless := service()
	headless.Spec.ClusterIP = "None"
	if takes, err := begin(a, headless, nil); err != nil || takes || len(headless.Spec.IPFamilies) != 2 || *headless.Spec.IPFamilyPolicy != "RequireDualStack" {
		t.Errorf("got %v %v %+v", takes, err, headless.Spec)
	}
	name := service()
	name.Spec.Type = "ExternalName"
	if takes, err := begin(a, name, nil); err != nil || takes || name.Spec.ClusterIP != "" || name.Spec.IPFamilies != nil {
		t.Errorf("got %v %v %+v", takes, err, name.Spec)
	}
}

func TestRequestedValues(t *testing.T) {
	t.Parallel()
	a := allocator(t, "10.0.0.0/28", "30000-30009")
	stored := service()
	stored.Spec.ClusterIPs = []string{"10.0.0.5"}
	stored.Spec.Ports[0].NodePort = 30005
	for change, want := range map[*func(*corev1.Service)]string{
		new(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.5" }):                                      `spec.clusterIPs: Invalid value: ["10.0.0.5"]: failed to allocate IP 10.0.0.5: provided IP is already allocated`,
		new(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.1.5" }):                                      `spec.clusterIPs: Invalid value: ["10.0.1.5"]: failed to allocate IP 10.0.1.5: the provided network does not match the current range`,
		new(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.15" }):                                     `spec.clusterIPs: Invalid value: ["10.0.0.15"]: failed to allocate IP 10.0.0.15: the provided IP (10.0.0.15) is not in the valid range. The range of valid IPs is 10.0.0.0/28`,
		new(func(s *corev1.Service) { s.Spec.ClusterIP = "fd00::1" }):                                       `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`,
		new(func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) }): `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`,
		new(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"} }):                      `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`,
		new(func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = "NodePort", 30005 }):          `spec.ports[0].nodePort: Invalid value: 30005: provided port is already allocated`,
		new(func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = "NodePort", 80 }):             `spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30009`,
	} {
		svc := service()
		(*change)(svc)
		_, err := begin(a, svc, nil, stored)
		if want = `Service "a" is invalid: ` + want; err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	var all []*corev1.Service
	for range 14 {
		svc := service()
		if _, err := begin(a, svc, nil, all...); err != nil {
			t.Fatal(err)
		}
		all = append(all, svc)
	}
	if _, err := begin(a, service(), nil, all...); err == nil || !strings.HasSuffix(err.Error(), `failed to allocate a serviceIP for Service "a": range is full`) {
		t.Errorf("got %v", err)
	}
}

func TestUpdateKeepsValues(t *testing.T) {
	t.Parallel()
	a := allocator(t, "10.0.0.0/16,fd00::/112", "")
	old := service()
	old.Spec.Type = "NodePort"
	if _, err := begin(a, old, nil); err != nil {
		t.Fatal(err)
	}
	again := service()
	again.Spec.Type = "NodePort"
	if takes, err := begin(a, again, old, old); err != nil || takes || again.Spec.ClusterIP != old.Spec.ClusterIP || again.Spec.Ports[0].NodePort != old.Spec.Ports[0].NodePort {
		t.Errorf("got %v %v %+v", takes, err, again.Spec)
	}
	dual := again.DeepCopy()
	dual.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	if takes, err := begin(a, dual, old, old); err != nil || !takes || len(dual.Spec.ClusterIPs) != 2 || dual.Spec.ClusterIPs[0] != old.Spec.ClusterIP || !strings.HasPrefix(dual.Spec.ClusterIPs[1], "fd00::") {
		t.Errorf("got %v %v %+v", takes, err, dual.Spec)
	}
	single := dual.DeepCopy()
	single.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	if takes, err := begin(a, single, dual, dual); err != nil || takes || len(single.Spec.ClusterIPs) != 1 || len(single.Spec.IPFamilies) != 1 {
		t.Errorf("got %v %v %+v", takes, err, single.Spec)
	}
	lb := single.DeepCopy()
	lb.Spec.Type, lb.Spec.ExternalTrafficPolicy = "LoadBalancer", "Local"
	if takes, err := begin(a, lb, single, single); err != nil || !takes || lb.Spec.HealthCheckNodePort == 0 || lb.Spec.HealthCheckNodePort == lb.Spec.Ports[0].NodePort {
		t.Errorf("got %v %v %+v", takes, err, lb.Spec)
	}
	patched := lb.DeepCopy()
	patched.Spec.HealthCheckNodePort = 0
	if takes, err := begin(a, patched, lb, lb); err != nil || takes || patched.Spec.HealthCheckNodePort != lb.Spec.HealthCheckNodePort {
		t.Errorf("got %v %v %+v", takes, err, patched.Spec)
	}
	back := single.DeepCopy()
	back.Spec.Type = "ClusterIP"
	// The prepared object has no ports of the old type.
	back.Spec.Ports[0].NodePort = 0
	if takes, err := begin(a, back, single, single); err != nil || takes || back.Spec.Ports[0].NodePort != 0 {
		t.Errorf("got %v %v %+v", takes, err, back.Spec)
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for ranges, want := range map[string]string{
		"10.0.0.0/24":            "10.0.0.1 [10.0.0.0/24]",
		"10.0.0.9/24,fd00::/8":   "range of cluster IPs: fd00::/8 has more than 64 bits for addresses",
		"10.0.0.0/8,11.0.0.0/8":  "range of cluster IPs: 11.0.0.0/8 is a second range of IPv4",
		"fd00::/108,10.1.0.0/16": "fd00::1 [fd00::/108 10.1.0.0/16]",
		"10.0.0.0/31":            "range of cluster IPs: 10.0.0.0/31 has too few addresses",
	} {
		a, err := services.NewAllocator(ranges, "")
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(a.First(), " ", a.Ranges())
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", ranges, got, want)
		}
	}
}
