package networking_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/kind/kindtest"
	"espalier.dev/kinds/networking"
)

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

const (
	subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	label     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	wildcard  = `a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
)

func TestIngresses(t *testing.T) {
	t.Parallel()
	type ingress = v1.Ingress
	rules := networking.Rules()["ingresses"]
	valid := decode[ingress](t, `
metadata: {name: a, namespace: b}
spec:
  ingressClassName: nginx
  defaultBackend: {resource: {apiGroup: a.b, kind: A, name: a}}
  tls: [{hosts: [a.b, "*.c"], secretName: s}]
  rules:
  - host: a.b
    http: {paths: [{path: /a, pathType: Prefix, backend: {service: {name: 1s, port: {number: 80}}}}]}
`)
	create := kindtest.Create(t, rules, valid)
	if got := create(func(i *ingress) { i.Status.LoadBalancer.Ingress = make([]v1.IngressLoadBalancerIngress, 1) }); got.Generation != 1 || len(got.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("got %+v", got)
	}
	create(func(i *ingress) {
		i.Annotations = map[string]string{"kubernetes.io/ingress.class": "other"}
		i.Finalizers = []string{"x"}
	},
		`metadata.finalizers[0]: Invalid value: "x": name is neither a standard finalizer name nor is it fully qualified`,
		"annotations.kubernetes.io/ingress.class: Invalid value: \"other\": must match `ingressClassName` when both are specified")
	create(func(i *ingress) { i.Spec = v1.IngressSpec{IngressClassName: new("-")} },
		"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified",
		`spec.ingressClassName: Invalid value: "-": `+subdomain)
	create(func(i *ingress) {
		i.Spec.TLS[0] = v1.IngressTLS{Hosts: []string{"-", "a.*"}, SecretName: "-"}
		i.Spec.Rules = []v1.IngressRule{{Host: "1.2.3.4"}, {Host: "*"}, {Host: "-"}, {IngressRuleValue: v1.IngressRuleValue{HTTP: &v1.HTTPIngressRuleValue{}}}}
	},
		`spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
		`spec.rules[1].host: Invalid value: "*": `+wildcard,
		`spec.rules[2].host: Invalid value: "-": `+subdomain,
		`spec.rules[3].http.paths: Required value`,
		`spec.tls[0].hosts[0]: Invalid value: "-": `+subdomain,
		`spec.tls[0].hosts[1]: Invalid value: "a.*": `+wildcard,
		`spec.tls[0].secretName: Invalid value: "-": `+subdomain)
	paths := func(text string) func(i *ingress) {
		return func(i *ingress) { i.Spec.Rules[0].HTTP.Paths = *decode[[]v1.HTTPIngressPath](t, text) }
	}
	create(paths(`
- {pathType: Exact, path: a//b/./c/../d%2f%2F/.., backend: {service: {name: a, port: {name: p}}}}
- {pathType: Prefix, path: /., backend: {service: {name: a, port: {name: p}}}}
- {pathType: ImplementationSpecific, path: x, backend: {service: {name: a, port: {name: p}}}}
- {pathType: ImplementationSpecific, backend: {service: {name: a, port: {name: p}}}}
- {pathType: X, path: x, backend: {service: {name: "", port: {}}}}
- {pathType: Prefix, path: /, backend: {service: {name: A, port: {name: a, number: 1}}}}
- {pathType: Prefix, path: /, backend: {service: {name: a, port: {name: a_}}, resource: {kind: A, name: a}}}
- {pathType: Prefix, path: /, backend: {service: {name: a, port: {name: a_}}}}
- {pathType: Prefix, path: /, backend: {service: {name: a, port: {number: 70000}}}}
- {pathType: Prefix, path: /, backend: {}}
- {pathType: Prefix, path: /, backend: {resource: {apiGroup: "-", kind: "", name: a/b}}}
- {pathType: , backend: {}}
`),
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must be an absolute path`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must not contain '//'`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must not contain '/./'`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must not contain '/../'`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must not contain '%2f'`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": must not contain '%2F'`,
		`spec.rules[0].http.paths[0].path: Invalid value: "a//b/./c/../d%2f%2F/..": cannot end with '/..'`,
		`spec.rules[0].http.paths[1].path: Invalid value: "/.": cannot end with '/.'`,
		`spec.rules[0].http.paths[2].path: Invalid value: "x": must be an absolute path`,
		`spec.rules[0].http.paths[4].pathType: Unsupported value: "X": supported values: "Exact", "ImplementationSpecific", "Prefix"`,
		`spec.rules[0].http.paths[4].backend.service.name: Required value`,
		`spec.rules[0].http.paths[4].backend: Required value: port name or number is required`,
		`spec.rules[0].http.paths[5].backend.service.name: Invalid value: "A": `+label,
		`spec.rules[0].http.paths[5].backend: Invalid value: "": cannot set both port name & port number`,
		`spec.rules[0].http.paths[6].backend: Invalid value: "": cannot set both resource and service backends`,
		`spec.rules[0].http.paths[7].backend.service.port.name: Invalid value: "a_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
		`spec.rules[0].http.paths[8].backend.service.port.number: Invalid value: 70000: must be between 1 and 65535, inclusive`,
		`spec.rules[0].http.paths[9].backend: Invalid value: "": resource or service backend is required`,
		`spec.rules[0].http.paths[10].backend.resource.apiGroup: Invalid value: "-": `+subdomain,
		`spec.rules[0].http.paths[10].backend.resource.kind: Required value`,
		`spec.rules[0].http.paths[10].backend.resource.name: Invalid value: "a/b": may not contain '/'`,
		`spec.rules[0].http.paths[11].pathType: Required value: pathType must be specified`)

	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(i *ingress) {
		i.Annotations = map[string]string{"kubernetes.io/ingress.class": "other"}
		i.Spec.TLS, i.Status.LoadBalancer.Ingress = nil, make([]v1.IngressLoadBalancerIngress, 1)
	}); got.Generation != 2 || len(got.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("got %+v", got)
	}
	old := valid.DeepCopy()
	old.Spec.TLS[0].SecretName = "-"
	old.Spec.Rules = []v1.IngressRule{{Host: "*.a", IngressRuleValue: v1.IngressRuleValue{HTTP: &v1.HTTPIngressRuleValue{}}}}
	kindtest.Stored(t, rules, "", old)(func(i *ingress) { i.Spec.TLS[0].Hosts = nil })

	old.Status.LoadBalancer.Ingress = []v1.IngressLoadBalancerIngress{{IP: "01.2.3.4"}}
	status := kindtest.Stored(t, rules, "status", old)
	if got := status(func(i *ingress) { i.Spec = v1.IngressSpec{} }); len(got.Spec.Rules) != 1 {
		t.Errorf("got %+v", got)
	}
	status(func(i *ingress) {
		i.Status.LoadBalancer.Ingress = []v1.IngressLoadBalancerIngress{{IP: "01.2.3.4"}, {IP: "02.2.3.4"}, {IP: "x"}, {Hostname: "1.2.3.4"}, {Hostname: "-"}}
	},
		`status.loadBalancer.ingress[1].ip: Invalid value: "02.2.3.4": must not have leading 0s`,
		`status.loadBalancer.ingress[2].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		`status.loadBalancer.ingress[3].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`,
		`status.loadBalancer.ingress[4].hostname: Invalid value: "-": `+subdomain)

	old.Spec.IngressClassName, old.Annotations = nil, map[string]string{"kubernetes.io/ingress.class": "a"}
	if got := rules.Main.Warnings(old, nil); len(got) != 1 || len(rules.Main.Warnings(old, old)) != 0 {
		t.Errorf("got warnings %q", got)
	}
	if got := rules.Status.Warnings(old, old); len(got) != 1 {
		t.Errorf("got warnings %q", got)
	}
}

func TestIngressClasses(t *testing.T) {
	t.Parallel()
	type class = v1.IngressClass
	rules := networking.Rules()["ingressclasses"]
	valid := decode[class](t, `{metadata: {name: a}, spec: {controller: a.b/c, parameters: {kind: A, name: a}}}`)
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*class) {}); got.Generation != 1 || *got.Spec.Parameters.Scope != "Cluster" {
		t.Errorf("got %+v", got)
	}
	create(func(c *class) {
		c.Spec = v1.IngressClassSpec{Controller: "a.b/" + strings.Repeat("c", 250), Parameters: &v1.IngressClassParametersReference{Namespace: new("x")}}
	},
		`spec.controller: Too long: may not be more than 250 bytes`,
		`spec.parameters.kind: Required value`,
		`spec.parameters.name: Required value`,
		"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'")
	create(func(c *class) { c.Spec.Controller, c.Spec.Parameters.Scope = "c", new("X") },
		`spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")`,
		`spec.parameters.scope: Unsupported value: "X": supported values: "Cluster", "Namespace"`)
	create(func(c *class) { c.Spec.Parameters.Scope = new("Namespace") }, "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'")
	create(func(c *class) { c.Spec.Parameters.Scope, c.Spec.Parameters.Namespace = new("Namespace"), new("A") }, `spec.parameters.namespace: Invalid value: "A": `+label)
	update := kindtest.Update(t, rules, "", valid)
	update(func(c *class) { c.Spec.Controller = "a.b/d" }, `spec.controller: Invalid value: "a.b/d": field is immutable`)
	if got := update(func(c *class) { c.Spec.Parameters = nil }); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	type policy = v1.NetworkPolicy
	rules := networking.Rules()["networkpolicies"]
	valid := decode[policy](t, `
metadata: {name: a, namespace: b}
spec:
  podSelector: {}
  ingress:
  - {ports: [{port: 80}], from: [{podSelector: {}, namespaceSelector: {}}]}
  egress:
  - {ports: [{port: 80, endPort: 81, protocol: UDP}, {port: http}], to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}
`)
	create := kindtest.Create(t, rules, valid)
	if got := create(func(*policy) {}); got.Generation != 1 || len(got.Spec.PolicyTypes) != 2 || *got.Spec.Ingress[0].Ports[0].Protocol != "TCP" || *got.Spec.Egress[0].Ports[0].Protocol != "UDP" {
		t.Errorf("got %+v", got)
	}
	spec := func(text string) func(*policy) {
		return func(p *policy) { p.Spec = *decode[v1.NetworkPolicySpec](t, text) }
	}
	create(spec(`
podSelector: {matchLabels: {-: a}}
ingress:
- ports: [{protocol: X}, {port: 0, endPort: 0}, {port: 2, endPort: 1}, {port: http, endPort: 1}, {port: a_}, {endPort: 1}]
- from: [{}, {podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: "" }}, {ipBlock: {cidr: x, except: [z]}}, {ipBlock: {cidr: 10.1.0.0/16, except: [z, 10.0.0.0/8, 11.0.0.0/24, 10.1.0.0/16]}}]
egress:
- {ports: [{port: -1}], to: [{namespaceSelector: {matchLabels: {-: a}}}]}
policyTypes: [X, Ingress]
`),
		`spec.podSelector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.ingress[0].ports[0].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"`,
		`spec.ingress[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive`,
		`spec.ingress[0].ports[1].endPort: Invalid value: 0: must be between 1 and 65535, inclusive`,
		"spec.ingress[0].ports[2].endPort: Invalid value: 2: must be greater than or equal to `port`",
		"spec.ingress[0].ports[3].endPort: Invalid value: 1: may not be specified when `port` is non-numeric",
		`spec.ingress[0].ports[4].port: Invalid value: "a_": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`,
		"spec.ingress[0].ports[5].endPort: Invalid value: 1: may not be specified when `port` is not specified",
		`spec.ingress[1].from[0]: Required value: must specify a peer`,
		`spec.ingress[1].from[1]: Forbidden: may not specify both ipBlock and another peer`,
		`spec.ingress[1].from[2].ipBlock.cidr: Required value`,
		`spec.ingress[1].from[3].ipBlock.cidr: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
		`spec.ingress[1].from[4].ipBlock.except[0]: Invalid value: "z": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
		"spec.ingress[1].from[4].ipBlock.except[1]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`",
		"spec.ingress[1].from[4].ipBlock.except[2]: Invalid value: \"11.0.0.0/24\": must be a strict subset of `cidr`",
		"spec.ingress[1].from[4].ipBlock.except[3]: Invalid value: \"10.1.0.0/16\": must be a strict subset of `cidr`",
		`spec.egress[0].ports[0].port: Invalid value: -1: must be between 1 and 65535, inclusive`,
		`spec.egress[0].to[0].namespaceSelector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.policyTypes[0]: Unsupported value: "X": supported values: "Ingress", "Egress"`)
	create(spec(`{podSelector: {}, policyTypes: [Ingress, Egress, Ingress]}`),
		`spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes`)

	update := kindtest.Update(t, rules, "", valid)
	if got := update(func(p *policy) { p.Spec.Egress = nil }); got.Generation != 2 {
		t.Errorf("got %+v", got)
	}
	if got := update(func(p *policy) { p.Labels = map[string]string{"a": "b"} }); got.Generation != 1 {
		t.Errorf("got %+v", got)
	}
	old := valid.DeepCopy()
	old.Spec.Egress[0].To[0].IPBlock = &v1.IPBlock{CIDR: "010.0.0.0/8", Except: []string{"10.1.1.0/16"}}
	spec(`{podSelector: {matchExpressions: [{key: a, operator: In, values: ["-"]}]}}`)(old)
	old.Spec.Egress = []v1.NetworkPolicyEgressRule{{To: []v1.NetworkPolicyPeer{{IPBlock: &v1.IPBlock{CIDR: "010.0.0.0/8", Except: []string{"10.1.1.0/16"}}}}}}
	kindtest.Stored(t, rules, "", old)(func(*policy) {})
	if got := rules.Main.Warnings(old, nil); len(got) != 2 {
		t.Errorf("got warnings %q", got)
	}
}

func TestIPAddresses(t *testing.T) {
	t.Parallel()
	rules := networking.Rules()["ipaddresses"]
	valid := decode[v1.IPAddress](t, `{metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, namespace: a, name: b}}}`)
	create := kindtest.Create(t, rules, valid)
	create(func(a *v1.IPAddress) { a.Name, a.Spec.ParentRef = "2001:DB8::1", nil },
		`metadata.name: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")`,
		`spec.parentRef: Required value`)
	create(func(a *v1.IPAddress) {
		a.Spec.ParentRef = &v1.ParentReference{Group: "-", Name: "a/b", Namespace: "a/b"}
	},
		`spec.parentRef.group: Invalid value: "-": `+subdomain,
		`spec.parentRef.resource: Required value`,
		`spec.parentRef.name: Invalid value: "a/b": may not contain '/'`,
		`spec.parentRef.namespace: Invalid value: "a/b": may not contain '/'`)
	kindtest.Update(t, rules, "", valid)(func(a *v1.IPAddress) { a.Spec.ParentRef.Name = "c" },
		`spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"a","Name":"c"}: field is immutable`)
}

func TestServiceCIDRs(t *testing.T) {
	t.Parallel()
	rules := networking.Rules()["servicecidrs"]
	valid := decode[v1.ServiceCIDR](t, `{metadata: {name: a}, spec: {cidrs: [10.0.0.0/24]}}`)
	create := kindtest.Create(t, rules, valid)
	cidrs := func(list ...string) func(*v1.ServiceCIDR) {
		return func(c *v1.ServiceCIDR) { c.Spec.CIDRs = list }
	}
	const families = `spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`
	create(cidrs(), `spec.cidrs: Required value: at least one CIDR required`)
	create(cidrs("a", "b", "c"), `spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values`)
	create(cidrs("a", "b"),
		`spec.cidrs[0]: Invalid value: "a": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`,
		`spec.cidrs[1]: Invalid value: "b": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`)
	create(cidrs("10.0.0.0/24", "10.1.0.0/24"), families)
	update := kindtest.Update(t, rules, "", valid)
	update(cidrs("10.0.0.0/24", "2001:db8::/64"))
	update(cidrs("10.0.0.0/24", "10.1.0.0/24"), families)
	update(cidrs("10.1.0.0/24"), `spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable`)
	update(cidrs("10.1.0.0/24", "2001:db8::/64"), `spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable`)
	update(cidrs(), `spec.cidrs: Invalid value: null: field is immutable`)
	status := kindtest.Update(t, rules, "status", valid)
	if got := status(func(c *v1.ServiceCIDR) { c.Spec.CIDRs, c.Labels = nil, map[string]string{"a": "b"} }); len(got.Spec.CIDRs) != 1 || len(got.Labels) != 0 {
		t.Errorf("got %+v", got)
	}
}
