package admissionregistration_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/kind"
	"espalier.dev/kinds/kind/kindtest"
)

const webhooks = `
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {service: {namespace: ns, name: svc}}
  rules:
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  sideEffects: None
  admissionReviewVersions: [v1]
  matchConditions:
  - {name: c, expression: 'object.metadata.name == "x"'}
`

func decode[T any](t *testing.T, text string) *T {
	t.Helper()
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestMutatingWebhooks(t *testing.T) {
	t.Parallel()
	type config = v1.MutatingWebhookConfiguration
	hook := func(f func(*v1.MutatingWebhook)) func(*config) {
		return func(c *config) { f(&c.Webhooks[0]) }
	}
	rule := func(f func(*v1.RuleWithOperations)) func(*config) {
		return func(c *config) { f(&c.Webhooks[0].Rules[0]) }
	}
	rules := admissionregistration.Rules(cel.New())["mutatingwebhookconfigurations"]
	valid := decode[config](t, webhooks)
	create := kindtest.Create(t, rules, valid)
	update := kindtest.Update(t, rules, "", valid)

	c := create(func(*config) {})
	w := c.Webhooks[0]
	got := fmt.Sprint(*w.FailurePolicy, *w.MatchPolicy, *w.TimeoutSeconds, *w.ReinvocationPolicy, *w.ClientConfig.Service.Port, *w.Rules[0].Scope,
		w.NamespaceSelector != nil, w.ObjectSelector != nil, c.Generation)
	if want := "FailEquivalent10Never443*true true 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	create(func(c *config) { c.Name = "A" },
		`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	create(hook(func(w *v1.MutatingWebhook) { w.Name = "a" }),
		`webhooks[0].name: Invalid value: "a": should be a domain with at least three segments separated by dots`)
	create(hook(func(w *v1.MutatingWebhook) {
		w.FailurePolicy, w.MatchPolicy, w.SideEffects, w.ReinvocationPolicy = new(v1.FailurePolicyType("A")), new(v1.MatchPolicyType("B")), new(v1.SideEffectClass("C")), new(v1.ReinvocationPolicyType("D"))
	}),
		`webhooks[0].failurePolicy: Unsupported value: "A": supported values: "Fail", "Ignore"`,
		`webhooks[0].matchPolicy: Unsupported value: "B": supported values: "Equivalent", "Exact"`,
		`webhooks[0].sideEffects: Unsupported value: "C": supported values: "None", "NoneOnDryRun"`,
		`webhooks[0].reinvocationPolicy: Unsupported value: "D": supported values: "IfNeeded", "Never"`)
	create(hook(func(w *v1.MutatingWebhook) {
		w.SideEffects, w.AdmissionReviewVersions, w.ClientConfig = nil, nil, v1.WebhookClientConfig{}
	}),
		`webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun`,
		`webhooks[0].clientConfig: Required value: exactly one of url or service is required`,
		`webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1`)
	create(hook(func(w *v1.MutatingWebhook) { w.TimeoutSeconds = new(int32(31)) }),
		`webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds`)
	create(hook(func(w *v1.MutatingWebhook) { w.ClientConfig = v1.WebhookClientConfig{URL: new("http://x")} }),
		`webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`)
	create(hook(func(w *v1.MutatingWebhook) { w.ClientConfig.Service.Name = "" }),
		`webhooks[0].clientConfig.service.namespace: Required value`)
	create(hook(func(w *v1.MutatingWebhook) { w.AdmissionReviewVersions = []string{"v2", "v2", "V"} }),
		`webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version`,
		`webhooks[0].admissionReviewVersions[2]: Invalid value: "V": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
		`webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2","V"]: must include at least one of v1, v1beta1`)
	create(hook(func(w *v1.MutatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
		w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "X"}}}
	}),
		`webhooks[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `+"`operator` is 'In' or 'NotIn'",
		`webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: "X": not a valid selector operator`)
	create(func(c *config) { c.Webhooks = append(c.Webhooks, c.Webhooks[0]) },
		`webhooks[1].name: Duplicate value: "a.example.com"`)
	create(rule(func(r *v1.RuleWithOperations) { *r = v1.RuleWithOperations{} }),
		`webhooks[0].rules[0].operations: Required value`,
		`webhooks[0].rules[0].apiGroups: Required value`,
		`webhooks[0].rules[0].apiVersions: Required value`,
		`webhooks[0].rules[0].resources: Required value`)
	create(rule(func(r *v1.RuleWithOperations) {
		r.Operations, r.APIGroups, r.APIVersions = []v1.OperationType{"*", "CREATE"}, []string{"*", ""}, []string{"*", ""}
		r.Resources = []string{"*/*", "a/*", "a/b", "*/c", "d/c", "", "*", "e"}
		r.Scope = new(v1.ScopeType("X"))
	}),
		`webhooks[0].rules[0].operations: Invalid value: ["*","CREATE"]: if '*' is present, must not specify other operations`,
		`webhooks[0].rules[0].apiGroups: Invalid value: ["*",""]: if '*' is present, must not specify other API groups`,
		`webhooks[0].rules[0].apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions`,
		`webhooks[0].rules[0].apiVersions[1]: Required value`,
		`webhooks[0].rules[0].resources[1]: Invalid value: "a/*": if '*/*' is present, must not specify a/*`,
		`webhooks[0].rules[0].resources[2]: Invalid value: "a/b": if 'a/*' is present, must not specify a/b`,
		`webhooks[0].rules[0].resources[3]: Invalid value: "*/c": if '*/*' is present, must not specify */c`,
		`webhooks[0].rules[0].resources[4]: Invalid value: "d/c": if '*/c' is present, must not specify d/c`,
		`webhooks[0].rules[0].resources[5]: Required value`,
		`webhooks[0].rules[0].resources: Invalid value: ["*/*","a/*","a/b","*/c","d/c","","*","e"]: if '*/*' is present, must not specify other resources`,
		`webhooks[0].rules[0].resources: Invalid value: ["*/*","a/*","a/b","*/c","d/c","","*","e"]: if '*' is present, must not specify other resources without subresources`,
		`webhooks[0].rules[0].scope: Unsupported value: "X": supported values: "*", "Cluster", "Namespaced"`)
	create(rule(func(r *v1.RuleWithOperations) { r.Operations[0] = "X" }),
		`webhooks[0].rules[0].operations[0]: Unsupported value: "X": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"`)
	create(hook(func(w *v1.MutatingWebhook) {
		w.MatchConditions = []v1.MatchCondition{{Name: "a", Expression: "nothing"}, {Name: "a", Expression: " "}, {Expression: "1"}, {Name: "-", Expression: "params == null"}}
	}),
		"webhooks[0].matchConditions[0].expression: Invalid value: \"nothing\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^",
		`webhooks[0].matchConditions[1].expression: Required value`,
		`webhooks[0].matchConditions[1].name: Duplicate value: "a"`,
		`webhooks[0].matchConditions[2].expression: Invalid value: "1": must evaluate to bool but got int`,
		`webhooks[0].matchConditions[2].name: Required value`,
		"webhooks[0].matchConditions[3].expression: Invalid value: \"params == null\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params == null\n | ^",
		`webhooks[0].matchConditions[3].name: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`)
	create(hook(func(w *v1.MutatingWebhook) {
		w.MatchConditions = nil
		for i := range 65 {
			w.MatchConditions = append(w.MatchConditions, v1.MatchCondition{Name: fmt.Sprint(i), Expression: "true"})
		}
	}), `webhooks[0].matchConditions: Too many: 65: must have at most 64 items`)

	// Stored webhooks keep what was valid once.
	old := valid.DeepCopy()
	rules.Default(old)
	w = old.Webhooks[0]
	w.SideEffects, w.AdmissionReviewVersions = new(v1.SideEffectClassSome), []string{"v2"}
	w.MatchConditions = []v1.MatchCondition{{Name: "a", Expression: "nothing"}}
	w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"-"}}}}
	old.Webhooks = []v1.MutatingWebhook{w, w}
	stored := kindtest.Stored(t, rules, "", old)
	if got := stored(func(c *config) { c.Labels = map[string]string{"a": "b"} }); got.Generation != 0 {
		t.Errorf("labels change the generation to %d", got.Generation)
	}
	const undeclared = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^"
	stored(hook(func(w *v1.MutatingWebhook) { w.MatchConditions[0].Name = "other" }),
		`webhooks[0].matchConditions[0].expression: Invalid value: "nothing": `+undeclared,
		`webhooks[1].matchConditions[0].expression: Invalid value: "nothing": `+undeclared)
	if got := update(hook(func(w *v1.MutatingWebhook) { w.Name = "b.example.com" })); got.Generation != 2 {
		t.Errorf("got generation %d", got.Generation)
	}
}

// TestValidatingWebhooks checks that the rules of mutating webhooks apply to validating ones.
func TestValidatingWebhooks(t *testing.T) {
	t.Parallel()
	rules := admissionregistration.Rules(cel.New())["validatingwebhookconfigurations"]
	valid := decode[v1.ValidatingWebhookConfiguration](t, webhooks)
	kindtest.Update(t, rules, "", valid)(func(*v1.ValidatingWebhookConfiguration) {})
	create := kindtest.Create(t, rules, valid)
	create(func(c *v1.ValidatingWebhookConfiguration) {
		w := &c.Webhooks[0]
		bad := &metav1.LabelSelector{MatchLabels: map[string]string{"-": ""}}
		*w = v1.ValidatingWebhook{Name: "x.y.z", Rules: make([]v1.RuleWithOperations, 1), FailurePolicy: new(v1.FailurePolicyType("")), MatchPolicy: new(v1.MatchPolicyType("")),
			NamespaceSelector: bad, ObjectSelector: bad, SideEffects: new(v1.SideEffectClass("")), TimeoutSeconds: new(int32(0)), AdmissionReviewVersions: []string{"x"},
			MatchConditions: make([]v1.MatchCondition, 1), ClientConfig: v1.WebhookClientConfig{URL: new("https://")}}
	},
		`webhooks[0].rules[0].operations: Required value`,
		`webhooks[0].rules[0].apiGroups: Required value`,
		`webhooks[0].rules[0].apiVersions: Required value`,
		`webhooks[0].rules[0].resources: Required value`,
		`webhooks[0].failurePolicy: Unsupported value: "": supported values: "Fail", "Ignore"`,
		`webhooks[0].matchPolicy: Unsupported value: "": supported values: "Equivalent", "Exact"`,
		`webhooks[0].sideEffects: Unsupported value: "": supported values: "None", "NoneOnDryRun"`,
		`webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds`,
		`webhooks[0].namespaceSelector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`webhooks[0].objectSelector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]`,
		`webhooks[0].matchConditions[0].expression: Required value`,
		`webhooks[0].matchConditions[0].name: Required value`,
		`webhooks[0].admissionReviewVersions: Invalid value: ["x"]: must include at least one of v1, v1beta1`)
}

const policy = `
metadata: {name: policy}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  variables:
  - {name: replicas, expression: object.spec.replicas}
  validations:
  - {expression: variables.replicas < 5, messageExpression: '"too many: " + string(variables.replicas)'}
  auditAnnotations:
  - {key: replicas, valueExpression: string(variables.replicas)}
`

func TestValidatingPolicy(t *testing.T) {
	t.Parallel()
	type policies = v1.ValidatingAdmissionPolicy
	spec := func(f func(*v1.ValidatingAdmissionPolicySpec)) func(*policies) {
		return func(p *policies) { f(&p.Spec) }
	}
	rules := admissionregistration.Rules(cel.New())["validatingadmissionpolicies"]
	undeclared := func(path, expression, name string) string {
		return fmt.Sprintf("%s: Invalid value: %q: compilation failed: ERROR: <input>:1:1: undeclared reference to '%s' (in container '')\n | %s\n | ^", path, expression, name, expression)
	}
	valid := decode[policies](t, policy)
	create := kindtest.Create(t, rules, valid)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) { *s = v1.ValidatingAdmissionPolicySpec{} }),
		`spec.matchConstraints: Required value`,
		`spec.validations: Required value: validations or auditAnnotations must contain at least one item`,
		`spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item`)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) {
		s.FailurePolicy = new(v1.FailurePolicyType("X"))
		s.MatchConstraints = &v1.MatchResources{MatchPolicy: new(v1.MatchPolicyType("X")), ExcludeResourceRules: []v1.NamedRuleWithOperations{{ResourceNames: []string{"a", "a", "b/c"}}}}
	}),
		`spec.failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore"`,
		`spec.matchConstraints.matchPolicy: Unsupported value: "X": supported values: "Equivalent", "Exact"`,
		`spec.matchConstraints.excludeResourceRules[0].resourceNames[1]: Duplicate value: "a"`,
		`spec.matchConstraints.excludeResourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'`,
		`spec.matchConstraints.excludeResourceRules[0].operations: Required value`,
		`spec.matchConstraints.excludeResourceRules[0].apiGroups: Required value`,
		`spec.matchConstraints.excludeResourceRules[0].apiVersions: Required value`,
		`spec.matchConstraints.excludeResourceRules[0].resources: Required value`,
		`spec.matchConstraints.resourceRules: Required value`)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) {
		s.ParamKind = &v1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
		s.MatchConditions = []v1.MatchCondition{{Name: "a", Expression: "params != null"}}
		s.Validations = append(s.Validations, v1.Validation{Expression: "params.x == 1", MessageExpression: "string(params.y)"})
	}))
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) { s.ParamKind = &v1.ParamKind{APIVersion: "a/b/c"} }),
		`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, `spec.paramKind.kind: Required value`)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) { s.ParamKind = &v1.ParamKind{APIVersion: "a/", Kind: "-"} }),
		`spec.paramKind.apiVersion: Invalid value: "a/": version must be specified`,
		`spec.paramKind.kind: Invalid value: "-": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) {
		s.Variables = []v1.Variable{{}, {Name: "if", Expression: "1"}}
		s.Validations = []v1.Validation{{MessageExpression: " ", Message: " ", Reason: new(metav1.StatusReason("X"))}, {Expression: "true", Message: "a\nb"}}
		s.AuditAnnotations = []v1.AuditAnnotation{{Key: "a"}, {Key: "a", ValueExpression: "'b'"}, {Key: "-", ValueExpression: "1"}}
	}),
		`spec.variables[0].name: Required value: name is not specified`,
		`spec.variables[0].expression: Required value: expression is not specified`,
		`spec.variables[1].name: Invalid value: "if": must be a valid CEL identifier`,
		`spec.validations[0].expression: Required value: expression is not specified`,
		`spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified`,
		`spec.validations[0].message: Invalid value: " ": must be non-empty if specified`,
		`spec.validations[0].reason: Unsupported value: "X": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`,
		`spec.validations[1].message: Invalid value: "a\nb": must not contain line breaks`,
		`spec.auditAnnotations[0].valueExpression: Required value: valueExpression is not specified`,
		`spec.auditAnnotations[1].key: Duplicate value: "a"`,
		`spec.auditAnnotations[2].key: Invalid value: "policy/-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		`spec.auditAnnotations[2].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int`)
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) {
		s.Variables = append(s.Variables, v1.Variable{Name: "b", Expression: "nothing"})
		s.Validations = []v1.Validation{{Expression: "nothing", MessageExpression: "authorizer"}}
		s.AuditAnnotations = nil
	}),
		undeclared("spec.variables[1].expression", "nothing", "nothing"),
		undeclared("spec.validations[0].expression", "nothing", "nothing"),
		undeclared("spec.validations[0].messageExpression", "authorizer", "authorizer"))
	create(spec(func(s *v1.ValidatingAdmissionPolicySpec) {
		s.AuditAnnotations = nil
		for i := range 21 {
			s.AuditAnnotations = append(s.AuditAnnotations, v1.AuditAnnotation{Key: fmt.Sprint("a", i), ValueExpression: "''"})
		}
	}), `spec.auditAnnotations: Invalid value: `+annotations(21)+`: must not have more than 20 auditAnnotations`)

	old := create(func(*policies) {})
	old.Status.ObservedGeneration = 1
	old.Spec.MatchConditions = []v1.MatchCondition{{Name: "a", Expression: "nothing"}}
	got := kindtest.Stored(t, rules, "", old)(func(p *policies) {
		p.Status.ObservedGeneration = 2
		p.Spec.FailurePolicy = new(v1.Ignore)
	})
	if got.Status.ObservedGeneration != 1 || got.Generation != 2 {
		t.Errorf("got generation %d and status %+v", got.Generation, got.Status)
	}
	status := kindtest.Update(t, rules, "status", valid)
	status(func(p *policies) {
		p.Status.TypeChecking = &v1.TypeChecking{ExpressionWarnings: []v1.ExpressionWarning{{}, {Warning: "w", FieldRef: "a["}}}
		p.Status.Conditions = []metav1.Condition{{}}
	},
		`status.typeChecking.expressionWarnings[0].warning: Required value`,
		`status.typeChecking.expressionWarnings[0].fieldRef: Required value`,
		`status.typeChecking.expressionWarnings[1].fieldRef: Invalid value: "a[": invalid JSONPath: unterminated array`,
		`status.conditions[0].type: Required value: is required`,
		`status.conditions[0].status: Required value`,
		`status.conditions[0].lastTransitionTime: Required value`,
		`status.conditions[0].reason: Required value`)
	got = status(func(p *policies) {
		p.Spec.Validations = nil
		p.Status.ObservedGeneration = 3
	})
	if len(got.Spec.Validations) != 1 || got.Status.ObservedGeneration != 3 {
		t.Errorf("got %+v", got)
	}
}

// annotations returns the bad value of an error about n audit annotations.
func annotations(n int) string {
	s := ""
	for i := range n {
		s += fmt.Sprintf(`,{"Key":"a%d","ValueExpression":"''"}`, i)
	}
	return "[" + s[1:] + "]"
}

func TestMutatingPolicy(t *testing.T) {
	t.Parallel()
	const policy = `
metadata: {name: policy}
spec:
  matchConstraints:
    resourceRules:
    - {operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  variables:
  - {name: one, expression: '1'}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: 'Object{spec: Object.spec{replicas: variables.one}}'}
  - patchType: JSONPatch
    jsonPatch: {expression: '[JSONPatch{op: "remove", path: "/spec/x"}]'}
`
	type policies = v1.MutatingAdmissionPolicy
	rules := admissionregistration.Rules(cel.New())["mutatingadmissionpolicies"]
	valid := decode[policies](t, policy)
	kindtest.Update(t, rules, "", valid)(func(*policies) {})
	create := kindtest.Create(t, rules, valid)
	create(func(p *policies) { p.Spec = v1.MutatingAdmissionPolicySpec{} },
		`spec.matchConstraints: Required value`, `spec.mutations: Required value: mutations must contain at least one item`, `spec.reinvocationPolicy: Required value`)
	create(func(p *policies) {
		p.Spec.MatchConstraints.ResourceRules[0].Operations = []v1.OperationType{v1.Delete}
		p.Spec.ReinvocationPolicy = "X"
	},
		`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`,
		`spec.reinvocationPolicy: Unsupported value: "X": supported values: "IfNeeded", "Never"`)
	create(func(p *policies) {
		apply, json := p.Spec.Mutations[0].ApplyConfiguration, p.Spec.Mutations[1].JSONPatch
		p.Spec.Mutations = []v1.Mutation{{}, {PatchType: "X"}, {PatchType: "JSONPatch", ApplyConfiguration: apply}, {PatchType: "ApplyConfiguration", JSONPatch: json},
			{PatchType: "JSONPatch", JSONPatch: &v1.JSONPatch{}}, {PatchType: "ApplyConfiguration", ApplyConfiguration: &v1.ApplyConfiguration{Expression: " 1 "}}}
	},
		`spec.mutations[0].patchType: Required value`,
		`spec.mutations[1].patchType: Unsupported value: "X": supported values: "ApplyConfiguration", "JSONPatch"`,
		`spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch`,
		`spec.mutations[2].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`,
		`spec.mutations[3].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration`,
		`spec.mutations[3].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`,
		`spec.mutations[4].jsonPatch.expression: Required value`,
		`spec.mutations[5].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int`)
}

func TestBindings(t *testing.T) {
	t.Parallel()
	const binding = `
metadata: {name: binding}
spec:
  policyName: policy
  validationActions: [Deny]
  paramRef: {name: a, parameterNotFoundAction: Deny}
  matchResources:
    resourceRules:
    - {operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
`
	type validating = v1.ValidatingAdmissionPolicyBinding
	ref := func(f func(*v1.ParamRef)) func(*validating) {
		return func(b *validating) { f(b.Spec.ParamRef) }
	}
	rules := admissionregistration.Rules(cel.New())["validatingadmissionpolicybindings"]
	valid := decode[validating](t, binding)
	create := kindtest.Create(t, rules, valid)
	b := create(func(*validating) {})
	m := b.Spec.MatchResources
	if *m.MatchPolicy != v1.Equivalent || m.NamespaceSelector == nil || m.ObjectSelector == nil || *m.ResourceRules[0].Scope != v1.AllScopes || b.Generation != 1 {
		t.Errorf("got %+v", b)
	}
	create(func(b *validating) { b.Spec = v1.ValidatingAdmissionPolicyBindingSpec{} },
		`spec.policyName: Required value`, `spec.validationActions: Required value: at least one validation action is required`)
	create(func(b *validating) { b.Spec.PolicyName = "A" },
		`spec.policyName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`)
	create(func(b *validating) { b.Spec.ValidationActions = []v1.ValidationAction{"Deny", "Warn", "Deny", "X"} },
		`spec.validationActions[2]: Duplicate value: "Deny"`,
		`spec.validationActions[3]: Unsupported value: "X": supported values: "Audit", "Deny", "Warn"`,
		`spec.validationActions: Invalid value: ["Deny","Warn","Deny","X"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`)
	create(ref(func(r *v1.ParamRef) {
		r.Name, r.Selector, r.ParameterNotFoundAction = "a/b", &metav1.LabelSelector{}, nil
	}),
		`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`,
		`spec.paramRef.name: Forbidden: name and selector are mutually exclusive`,
		`spec.paramRef.selector: Forbidden: name and selector are mutually exclusive`,
		`spec.paramRef.parameterNotFoundAction: Required value`)
	create(ref(func(r *v1.ParamRef) { r.Name, r.ParameterNotFoundAction = "", new(v1.ParameterNotFoundActionType("X")) }),
		`spec.paramRef: Required value: one of name or selector must be specified`,
		`spec.paramRef.parameterNotFoundAction: Unsupported value: "X": supported values: "Deny", "Allow"`)

	rules = admissionregistration.Rules(cel.New())["mutatingadmissionpolicybindings"]
	var mutating v1.MutatingAdmissionPolicyBinding
	if err := yaml.Unmarshal([]byte(binding), &mutating); err != nil {
		t.Fatal(err)
	}
	rules.Default(&mutating)
	if errs := rules.Main.Validate(&mutating, nil); len(errs) != 0 {
		t.Error(errs)
	}
	mutating.Spec.MatchResources.ResourceRules[0].Operations[0] = v1.Delete
	const want = `spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`
	if errs := rules.Main.Validate(&mutating, nil); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("got %v, want %s", errs, want)
	}
}

func TestReservedName(t *testing.T) {
	t.Parallel()
	for resource, r := range admissionregistration.Rules(cel.New()) {
		obj := kind.Object(&v1.ValidatingAdmissionPolicy{})
		obj.SetName("a.static.k8s.io")
		if len(r.Main.Warnings(obj, nil)) != 1 {
			t.Errorf("no warning for the name of %s", resource)
		}
		obj.SetName("a.k8s.io")
		if len(r.Main.Warnings(obj, nil)) != 0 {
			t.Errorf("warning for the name of %s", resource)
		}
	}
}
