package services_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/services"
)

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, services.Rules(), service())
	got := create(func(s *corev1.Service) {
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
	})
	spec := got.Spec
	if spec.Type != "ClusterIP" || spec.SessionAffinity != "None" || spec.SessionAffinityConfig != nil || spec.Ports[0].Protocol != "TCP" ||
		spec.Ports[0].TargetPort != intstr.FromInt32(80) || *spec.InternalTrafficPolicy != "Cluster" || spec.ExternalTrafficPolicy != "" || len(got.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("got %+v", got)
	}
	got = create(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	})
	if !*got.Spec.AllocateLoadBalancerNodePorts || got.Spec.ExternalTrafficPolicy != "Cluster" || *got.Spec.SessionAffinityConfig.ClientIP.TimeoutSeconds != 10800 {
		t.Errorf("got %+v", got)
	}
}

func TestValidation(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, services.Rules(), service())
	create(func(s *corev1.Service) {
		s.Name = "1a.b"
		s.Spec.Ports = nil
	},
		`metadata.name: Invalid value: "1a.b": must not contain dots`,
		`spec.ports: Required value`)
	create(func(s *corev1.Service) { s.Name = "1a" })
	create(func(s *corev1.Service) {
		s.Spec.Ports = []corev1.ServicePort{
			{Port: 0, Protocol: "x", TargetPort: intstr.FromInt32(70000), AppProtocol: new("/")},
			{Name: "A", Port: 81, NodePort: 30000, TargetPort: intstr.FromString("aaaaaaaaaaaaaaaa")},
			{Name: "b", Port: 82}, {Name: "b", Port: 82},
		}
	},
		`spec.ports[0].name: Required value`,
		`spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
		`spec.ports[0].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"`,
		`spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive`,
		`spec.ports[0].appProtocol: Invalid value: "/": prefix part must be non-empty`,
		`spec.ports[0].appProtocol: Invalid value: "/": name part must be non-empty`,
		`spec.ports[0].appProtocol: Invalid value: "/": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.ports[1].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		`spec.ports[1].targetPort: Invalid value: "aaaaaaaaaaaaaaaa": must be no more than 15 characters`,
		`spec.ports[3].name: Duplicate value: "b"`,
		"spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
		`spec.ports[3]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":82,"TargetPort":0,"NodePort":0}`)
	create(func(s *corev1.Service) {
		s.Spec.Type = "x"
		s.Spec.SessionAffinity = "y"
		s.Spec.ExternalIPs = []string{"127.0.0.1", "010.0.0.1"}
		s.Spec.LoadBalancerSourceRanges = []string{" 1.2.3.4/24 "}
		s.Spec.TrafficDistribution = new("z")
	},
		`spec.sessionAffinity: Unsupported value: "y": supported values: "ClientIP", "None"`,
		`spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		`spec.externalIPs[1]: Invalid value: "010.0.0.1": must not have leading 0s`,
		`spec.type: Unsupported value: "x": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"`,
		"spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
		`spec.LoadBalancerSourceRanges[0]: Invalid value: "1.2.3.4/24": must not have bits set beyond the prefix length`,
		`spec.trafficDistribution: Unsupported value: "z": supported values: "PreferClose", "PreferSameZone", "PreferSameNode"`)
	create(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeExternalName
		s.Spec.ClusterIPs = []string{"10.0.0.1"}
		s.Spec.IPFamilies = []corev1.IPFamily{"IPv4"}
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	},
		`spec.clusterIPs: Forbidden: may not be set for ExternalName services`,
		`spec.ipFamilies: Forbidden: may not be set for ExternalName services`,
		`spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services`,
		`spec.externalName: Required value`)
	create(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(86401))}}
		s.Spec.LoadBalancerClass = new("-")
	},
		`spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400`,
		`spec.loadBalancerClass: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.healthCheckNodePort: Required value`)
	create(func(s *corev1.Service) {
		s.Spec.ExternalTrafficPolicy = "Local"
		s.Spec.HealthCheckNodePort = 1
		s.Spec.AllocateLoadBalancerNodePorts = new(true)
		s.Spec.LoadBalancerClass = new("a")
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("x"))
	},
		"spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
		"spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
		`spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services`,
		"spec.healthCheckNodePort: Invalid value: 1: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
		`spec.internalTrafficPolicy: Unsupported value: "x": supported values: "Cluster", "Local"`)
}

func TestClusterIPs(t *testing.T) {
	t.Parallel()
	create := kindtest.Create(t, services.Rules(), service())
	ips := func(ip string, ips ...string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = ip, ips }
	}
	create(ips("10.0.0.1"), `spec.clusterIPs: Required value`)
	create(ips("10.0.0.1", "10.0.0.2"), "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`")
	create(ips("", "10.0.0.2"), "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: must be empty when `clusterIP` is not specified")
	create(ips("None", "None", "x"), `spec.clusterIPs: Invalid value: ["None","x"]: 'None' must be the first and only value`,
		`spec.clusterIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`)
	create(ips("10.0.0.1", "10.0.0.1", "10.0.0.2"), `spec.clusterIPs: Invalid value: ["10.0.0.1","10.0.0.2"]: may specify no more than one IP for each IP family`)
	create(func(s *corev1.Service) {
		ips("10.0.0.1", "10.0.0.1", "::1")(s)
		s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "x", "x"}
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicy("y"))
	},
		`spec.ipFamilies[1]: Unsupported value: "x": supported values: "IPv4", "IPv6"`,
		`spec.ipFamilies[2]: Unsupported value: "x": supported values: "IPv4", "IPv6"`,
		`spec.ipFamilies[2]: Duplicate value: "x"`,
		`spec.ipFamilyPolicy: Unsupported value: "y": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"`,
		"spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`")

	valid := service()
	valid.Spec.ClusterIP, valid.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	valid.Spec.IPFamilies = []corev1.IPFamily{"IPv4"}
	update := kindtest.Update(t, services.Rules(), "", valid)
	update(ips("10.0.0.2", "10.0.0.2"), `spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`)
	update(ips(""), `spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset`)
	update(func(s *corev1.Service) {
		ips("fd00::1", "fd00::1")(s)
		s.Spec.IPFamilies = []corev1.IPFamily{"IPv6"}
	},
		`spec.clusterIPs[0]: Invalid value: ["fd00::1"]: may not change once set`,
		`spec.ipFamilies[0]: Invalid value: ["IPv6"]: may not change once set`)
	got := update(func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com."
	})
	if got.Spec.ClusterIP != "" || got.Spec.ClusterIPs != nil || got.Spec.IPFamilies != nil {
		t.Errorf("got %+v", got.Spec)
	}
}

func TestTypeChange(t *testing.T) {
	t.Parallel()
	valid := service()
	valid.Spec.Type = corev1.ServiceTypeLoadBalancer
	valid.Spec.Ports[0].NodePort = 30000
	valid.Spec.ExternalTrafficPolicy, valid.Spec.HealthCheckNodePort = "Local", 30001
	valid.Spec.LoadBalancerClass = new("a")
	update := kindtest.Update(t, services.Rules(), "", valid)
	got := update(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	if s := got.Spec; s.Ports[0].NodePort != 0 || s.HealthCheckNodePort != 0 || s.AllocateLoadBalancerNodePorts != nil || s.LoadBalancerClass != nil || s.ExternalTrafficPolicy != "" {
		t.Errorf("got %+v", s)
	}
	update(func(s *corev1.Service) {
		s.Spec.LoadBalancerClass = new("b")
		s.Spec.HealthCheckNodePort = 30002
	},
		`spec.loadBalancerClass: Invalid value: "b": may not change once set`,
		`spec.healthCheckNodePort: Forbidden: field is immutable`)

	status := kindtest.Update(t, services.Rules(), "status", valid)
	status(func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
			{IP: "x"}, {IPMode: new(corev1.LoadBalancerIPModeVIP)}, {IP: "1.2.3.4", IPMode: new(corev1.LoadBalancerIPMode("y"))}, {Hostname: "1.2.3.4"}, {Hostname: "A"},
		}
	},
		`status.loadBalancer.ingress[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		"status.loadBalancer.ingress[1].ipMode: Forbidden: may not be specified when `ip` is not set",
		`status.loadBalancer.ingress[2].ipMode: Unsupported value: "y": supported values: "Proxy", "VIP"`,
		`status.loadBalancer.ingress[3].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
		`status.loadBalancer.ingress[4].hostname: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	kindtest.Update(t, services.Rules(), "status", service())(func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}}
	}, "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'")
}
