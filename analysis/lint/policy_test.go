package lint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/typecheck"
)

// shirts is a CRD that policies match.
const shirts = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shirts, singular: shirt, kind: Shirt, shortNames: [sh], listKind: ShirtList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}, size: {type: integer}}}}}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {colour: {type: string}, size: {type: integer}}}}}}`

// lintPolicies lints the policies in a stream of YAML, together with its other objects.
func lintPolicies(t *testing.T, config lint.Config, text string) (found []analysis.Finding) {
	t.Helper()
	checker := object.ForKinds(kindscel.New())
	o := lint.PolicyOptions{Configs: []lint.Config{config}, Types: typecheck.New(),
		Check: func(ctx context.Context, source []byte) []analysis.Finding {
			return checker.Check(ctx, source, nil, object.Strict)
		},
		Builtin: func(gvk runtimeschema.GroupVersionKind) *schema.Structural {
			for _, k := range schemas.Called(gvk.Kind) {
				if d, err := k.Definition(); err == nil && k.Group == gvk.Group && d.Version(gvk.Version) != nil {
					return d.Version(gvk.Version).Structural()
				}
			}
			return nil
		},
	}
	var policies [][]byte
	for _, doc := range strings.Split(text, "\n---\n") {
		source := toJSON(t, doc)
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(source, &head); err != nil {
			t.Fatal(err)
		}
		o.Objects = append(o.Objects, lint.ObjectName{GroupKind: head.GroupVersionKind().GroupKind(), Namespace: head.Namespace, Name: head.Name})
		switch {
		case lint.IsPolicy(head.TypeMeta):
			policies = append(policies, source)
		case head.Kind == "CustomResourceDefinition":
			hub, err := codec.DecodeLenient(source)
			if err != nil {
				t.Fatal(err)
			}
			d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
			if err != nil {
				t.Fatal(err)
			}
			o.Definitions = append(o.Definitions, d)
		}
	}
	all, err := lint.Policies(t.Context(), policies, o)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(all...)
}

// policy returns a ValidatingAdmissionPolicy.
func policy(rule, rest string) string {
	return `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [` + rule + `]
` + rest
}

// rule returns a rule for CREATE.
func rule(group, version, resource string) string {
	return fmt.Sprintf(`{apiGroups: [%q], apiVersions: [%q], operations: [CREATE], resources: [%q]}`, group, version, resource)
}

// validation returns a validation with an expression.
func validation(expression string) string {
	return fmt.Sprintf("  validations: [{expression: %q}]", expression)
}

// TestPolicyRules has a hit and a near miss for each rule about policies.
func TestPolicyRules(t *testing.T) {
	const binding = `
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec:
  validationActions: [Deny]
`
	const mutating = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: m}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: %q}
  - patchType: JSONPatch
    jsonPatch: {expression: %q}`
	const webhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: w.example.com
  clientConfig: {url: "https://example.com"}
  sideEffects: None
  admissionReviewVersions: [v1]
  rules: [%s]
  matchConditions: [{name: a, expression: %q}]`
	const mutatingBinding = `
apiVersion: admissionregistration.k8s.io/%s
kind: MutatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: m, paramRef: {name: limits, namespace: default}}`
	deployments := rule("apps", "v1", "deployments")
	const workloads = `{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets]}`
	fine := validation("object.metadata.name != 'a'")
	valid := policy(deployments, fine)
	withParams := policy(deployments, "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+validation("params.data.max != ''"))
	const maps = "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: default}"
	const spaces = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: production}"
	var all sheet
	for _, test := range []struct {
		rule, name string
		text       string
		want       []string
		says       []string
	}{
		{"invalid-policy", "not a boolean", policy(deployments, validation("object.spec.replicas")), []string{"error spec.validations[0].expression"}, []string{"must evaluate to bool but got dyn"}},
		{"invalid-policy", "unknown field", policy(deployments, fine+"\n  matchCondition: []"), []string{"error spec.matchCondition"}, nil},
		{"invalid-policy", "a binding", valid + binding + "  policyName: p\n  paramRef: {parameterNotFoundAction: Deny}", []string{"error spec.paramRef"}, nil},
		{"invalid-policy", "a webhook", fmt.Sprintf(webhook, deployments, "object.spec"), []string{"error webhooks[0].matchConditions[0].expression"}, []string{"must evaluate to bool"}},
		{"invalid-policy", "an old version", strings.Replace(valid, "k8s.io/v1", "k8s.io/v1beta1", 1), []string{"warning apiVersion"}, []string{"does not serve it any more: use admissionregistration.k8s.io/v1"}},
		{"invalid-policy", "a version that can be enabled", strings.Replace(fmt.Sprintf(mutating, "Object{}", "[JSONPatch{}]"), "k8s.io/v1", "k8s.io/v1alpha1", 1),
			[]string{"warning apiVersion"}, []string{"only if it is enabled"}},
		{"invalid-policy", "a default of v1alpha1", fmt.Sprintf(mutatingBinding, "v1alpha1"), []string{"warning apiVersion"}, nil},
		{"invalid-policy", "no default in v1beta1", fmt.Sprintf(mutatingBinding, "v1beta1"), []string{"warning apiVersion", "error spec.paramRef.parameterNotFoundAction"}, nil},
		{"invalid-policy", "right", valid, nil, nil},

		{"policy-type", "unknown field", policy(deployments, validation("object.spec.replcas < 5")), []string{"warning spec.validations[0].expression"},
			[]string{`for apps/v1 Deployment: undefined field 'replcas': did you mean "replicas"?`, "line 1, column 12 of the expression: object.spec.replcas < 5"}},
		{"policy-type", "each version of a CRD", policy(`{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: [shirts, shirts/status]}`,
			validation("object.spec.color != oldObject.spec.color")) + "\n---\n" + shirts,
			[]string{"warning spec.validations[0].expression"}, []string{`for example.com/v2 Shirt: undefined field 'color': did you mean "colour"?`, "column 12 ", "column 36 "}},
		{"policy-type", "everywhere", policy(deployments, `  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConditions: [{name: a, expression: object.a == 1}]
  variables: [{name: v, expression: object.b}]
  validations: [{expression: variables.v == 1 && params.dat.x == '', messageExpression: "'' + string(oldObject.c)"}]
  auditAnnotations: [{key: a, valueExpression: "string(oldObject.d)"}]`), []string{"warning spec.auditAnnotations[0].valueExpression", "warning spec.matchConditions[0].expression",
			"warning spec.validations[0].expression", "warning spec.validations[0].messageExpression", "warning spec.variables[0].expression"}, nil},
		{"policy-type", "some kinds", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets, statefulsets, replicasets]}`,
			validation("object.spec.replicas < 5 && object.spec.minReadySeconds < '5'")), []string{"warning spec.validations[0].expression", "warning spec.validations[0].expression"},
			[]string{"for apps/v1 DaemonSet, apps/v1 Deployment, apps/v1 ReplicaSet, and 1 more: found no matching overload", "the kinds are apps/v1 DaemonSet, apps/v1 Deployment, apps/v1 ReplicaSet, apps/v1 StatefulSet"}},
		{"policy-type", "guarded", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets]}`,
			validation("!has(object.spec.replicas) || object.spec.replicas < 5")), nil, nil},
		{"policy-type", "guarded by a condition", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets]}`,
			"  matchConditions: [{name: a, expression: request.resource.resource != 'daemonsets'}]\n"+validation("object.spec.replicas < 5")), nil, nil},
		{"policy-type", "a mutation", fmt.Sprintf(mutating, "Object{spec: Object.spec{replica: 1}}", "[JSONPatch{op: 'add', path: '/spec/replicas', value: object.spec.replica}]"),
			[]string{"warning spec.mutations[0].applyConfiguration.expression", "warning spec.mutations[1].jsonPatch.expression"}, []string{`did you mean "replicas"?`}},
		{"policy-type", "a right mutation", fmt.Sprintf(mutating, "Object{spec: Object.spec{replicas: 1}}", "[JSONPatch{op: 'add', path: '/spec/replicas', value: object.spec.replicas}]"), nil, nil},
		{"policy-type", "a webhook", fmt.Sprintf(webhook, deployments, "object.spec.replica < 1"), []string{"warning webhooks[0].matchConditions[0].expression"}, nil},
		{"policy-type", "a right webhook", fmt.Sprintf(webhook, deployments, "object.spec.replicas < 1"), nil, nil},
		{"policy-type", "wrong for all kinds", policy(rule("*", "*", "*"), validation("object.metadata.lables['a'] == ''")), []string{"warning spec.validations[0].expression"}, []string{`for all kinds: undefined field 'lables': did you mean "labels"?`}},
		{"policy-type", "right for one of all kinds", policy(rule("*", "*", "*"), validation("object.spec.replicas < 1")), nil, nil},
		{"policy-type", "unknown kinds", policy(rule("other.org", "v1", "things"), "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+validation("object.a.b == params.dat.c")), []string{"warning spec.validations[0].expression"}, []string{`undefined field 'dat': did you mean "data"?`}},
		{"policy-type", "a test of a field that no kind has", policy(workloads, validation("!has(object.spec.template.spec.hostNetwrk) || object.spec.template.spec.hostNetwrk == false")),
			[]string{"warning spec.validations[0].expression"}, []string{`for apps/v1 DaemonSet, apps/v1 Deployment: undefined field 'hostNetwrk', which is never set: did you mean "hostNetwork"?`, "column 5 "}},
		{"policy-type", "an optional field that no kind has", policy(workloads, validation("!object.spec.template.spec.?hostNetwrk.orValue(false)")),
			[]string{"warning spec.validations[0].expression"}, []string{`did you mean "hostNetwork"?`}},
		{"policy-type", "a condition about a field that no kind has", policy(workloads, "  matchConditions: [{name: a, expression: has(object.spec.template.spec.hostNetwrk)}]\n"+fine),
			[]string{"warning spec.matchConditions[0].expression"}, []string{`did you mean "hostNetwork"?`}},
		{"policy-type", "a test of a field that another kind has", policy(`{apiGroups: [example.com], apiVersions: ["*"], operations: [CREATE], resources: [shirts]}`, validation("has(object.spec.color)")) + "\n---\n" + shirts, nil, nil},
		{"policy-type", "a test of a field that is like none", policy(deployments, validation("!has(object.spec.jobTemplate) && !has(object.spec.template.spec.userNamespaces)")), nil, nil},
		{"policy-type", "a test of a field that an unknown kind may have", policy(deployments+", "+rule("other.org", "v1", "things"), validation("!has(object.spec.replica)")), nil, nil},
		{"policy-type", "oldObject of a CREATE request", policy(workloads, validation("object.spec.selector == oldObject.spec.selector")),
			[]string{"warning spec.validations[0].expression"}, []string{"for apps/v1 DaemonSet, apps/v1 Deployment: oldObject is null in CREATE requests", "column 34 "}},
		{"policy-type", "object of a DELETE request", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [DELETE], resources: [deployments]}`, validation("object.spec.replicas == 0")),
			[]string{"warning spec.validations[0].expression"}, []string{"object is null in DELETE requests"}},
		{"policy-type", "oldObject in a variable", policy(deployments, "  variables: [{name: old, expression: oldObject.spec.replicas}]\n"+validation("variables.old == 1")),
			[]string{"warning spec.validations[0].expression"}, []string{"variables.old reads a field, but oldObject is null in CREATE requests"}},
		{"policy-type", "oldObject with a guard", policy(deployments, "  variables: [{name: old, expression: oldObject.spec.replicas}]\n"+
			validation("(oldObject == null || oldObject.spec.replicas == 1 || variables.old == 1) && (null != oldObject ? oldObject.spec.paused : true) && (!has(oldObject.spec) || oldObject.spec.paused) && (request.operation != 'UPDATE' || oldObject.spec.paused) && oldObject.?spec.paused.orValue(true)")), nil, nil},
		{"policy-type", "oldObject of other requests", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}`, validation("object.spec.selector == oldObject.spec.selector")), nil, nil},
		{"policy-type", "oldObject of other rules", policy(deployments+`, {apiGroups: ["*"], apiVersions: [v1], operations: [DELETE], resources: ["*"]}`, validation("oldObject.spec.paused")), nil, nil},
		{"policy-type", "a subresource", policy(strings.Replace(rule("", "v1", "pods/status"), "CREATE", "UPDATE", 1), validation("object.spec.nodeNam == ''")), []string{"warning spec.validations[0].expression"}, []string{`for v1 Pod: undefined field 'nodeNam'`}},
		{"policy-type", "null in either request", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, DELETE], resources: [deployments]}`, validation("object.spec.replicas == oldObject.spec.replicas")), nil, nil},
		{"policy-type", "a test of a field that one kind does not have", policy(deployments, validation("!has(object.spec.replica)")), []string{"warning spec.validations[0].expression"}, []string{`did you mean "replicas"?`}},
		{"policy-type", "a test of a parameter, and no kinds", policy(rule("apps", "v1", "nothing"), "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+validation("!has(params.dat)")), nil, nil},
		{"policy-type", "guarded by the first condition", policy(workloads, "  matchConditions: [{name: a, expression: request.resource.resource != 'daemonsets'}, {name: b, expression: request.operation == 'CREATE'}]\n"+validation("object.spec.replicas < 5")), nil, nil},
		{"policy-type", "reported as invalid", policy(deployments, validation("object.spec.replicas < 1 && request.naem == ''")), nil, nil},

		{"policy-type-status", "guarded", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, daemonsets]}`,
			validation("!has(object.spec.replicas) || object.spec.replicas < 5")), []string{"info spec.validations[0].expression"}, []string{"for apps/v1 DaemonSet: undefined field 'replicas'"}},
		{"policy-type-status", "right", valid, nil, nil},
		{"policy-type-status", "of a mutation", fmt.Sprintf(mutating, "Object{spec: Object.spec{replica: 1}}", "[]"), nil, nil},
		{"policy-type-status", "what the status does not have", policy(deployments, "  matchConditions: [{name: a, expression: object.a == 1}]\n  variables: [{name: v, expression: object.b}]\n"+validation("variables.v == 1 && !has(object.spec.replica)")),
			[]string{"info spec.validations[0].expression"}, []string{"undefined field 'replica'"}},

		{"policy-param", "no such kind", policy(deployments, "  paramKind: {apiVersion: v1, kind: ConfigMaps}\n"+fine), []string{"warning spec.paramKind.kind"}, []string{`did you mean "ConfigMap"?`}},
		{"policy-param", "no such version", policy(deployments, "  paramKind: {apiVersion: example.com/v3, kind: Shirt}\n"+fine) + "\n---\n" + shirts, []string{"warning spec.paramKind.apiVersion"}, []string{"Shirt.example.com has no version v3", "there are v1, v2"}},
		{"policy-param", "a kind of subresources", policy(deployments, "  paramKind: {apiVersion: autoscaling/v1, kind: Scale}\n"+fine), []string{"warning spec.paramKind.kind"}, []string{"there is no kind Scale in autoscaling"}},
		{"policy-param", "found without a namespace", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}" + strings.Replace(maps, ", namespace: default", "", 1), nil, nil},
		{"policy-param", "not in another namespace", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: other, parameterNotFoundAction: Deny}" + strings.Replace(maps, ", namespace: default", "", 1), []string{"warning spec.paramRef.name"}, nil},
		{"policy-param", "unknown group", policy(deployments, "  paramKind: {apiVersion: other.org/v1, kind: Limit}\n"+fine), []string{"info spec.paramKind"}, []string{"no CRD in the input defines Limit.other.org"}},
		{"policy-param", "a CRD", policy(deployments, "  paramKind: {apiVersion: example.com/v1, kind: Shirt}\n"+fine) + "\n---\n" + shirts, nil, nil},
		{"policy-param", "no paramRef", withParams + binding + "  policyName: p", []string{"warning spec"}, []string{"params is null"}},
		{"policy-param", "no paramKind", valid + binding + "  policyName: p\n  paramRef: {name: limits, parameterNotFoundAction: Deny}", []string{"warning spec.paramRef"}, []string{"the policy has no paramKind"}},
		{"policy-param", "several policies of the same name", valid + "\n---\n" + withParams + binding + "  policyName: p", nil, nil},
		{"policy-param", "another object", withParams + binding + "  policyName: p\n  paramRef: {name: limit, namespace: default, parameterNotFoundAction: Allow}" + maps, []string{"warning spec.paramRef.name"}, []string{"there is no ConfigMap default/limit in the input"}},
		{"policy-param", "another namespace", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: other, parameterNotFoundAction: Allow}" + maps, []string{"warning spec.paramRef.name"}, nil},
		{"policy-param", "no object", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}", []string{"info spec.paramRef.name"}, []string{"all requests are denied"}},
		{"policy-param", "no object, and a default of v1alpha1", strings.Replace(fmt.Sprintf(mutating, "Object{}", "[JSONPatch{}]"), "spec:", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}", 1) +
			"\n---\n" + fmt.Sprintf(mutatingBinding, "v1alpha1"), []string{"info spec.paramRef.name"}, []string{"all requests are denied"}},
		{"policy-param", "may be missing", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Allow}", nil, nil},
		{"policy-param", "found", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}" + maps, nil, nil},
		{"policy-param", "found in the namespace of the request", withParams + binding + "  policyName: p\n  paramRef: {name: limits, parameterNotFoundAction: Deny}" + maps, nil, nil},
		{"policy-param", "a selector", withParams + binding + "  policyName: p\n  paramRef: {selector: {}, parameterNotFoundAction: Deny}" + maps, nil, nil},
		{"policy-param", "cluster-scoped parameters", policy(deployments, "  paramKind: {apiVersion: v1, kind: Namespace}\n"+fine) + binding + "  policyName: p\n  paramRef: {name: a, namespace: b, parameterNotFoundAction: Deny}", []string{"warning spec.paramRef.namespace"}, []string{"Namespace is cluster-scoped"}},
		{"policy-param", "cluster-scoped objects", policy(rule("", "v1", "nodes"), "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+fine) + binding + "  policyName: p\n  paramRef: {name: limits, parameterNotFoundAction: Deny}" + maps, []string{"warning spec.paramRef"}, []string{"matches nodes, which are cluster-scoped"}},

		{"policy-binding", "no policy", valid + binding + "  policyName: q-p", []string{"info metadata.name", "warning spec.policyName"}, nil},
		{"policy-binding", "misspelled", strings.Replace(valid, "name: p", "name: replicas", 1) + binding + "  policyName: replcas", []string{"info metadata.name", "warning spec.policyName"}, nil},
		{"policy-binding", "no policies at all", strings.TrimPrefix(binding, "\n---\n") + "  policyName: p", []string{"info spec.policyName"}, []string{"there is no ValidatingAdmissionPolicy p in the input"}},
		{"policy-binding", "another kind", fmt.Sprintf(mutating, "Object{}", "[]") + binding + "  policyName: m", []string{"info metadata.name", "warning spec.policyName"}, nil},
		{"policy-binding", "bound", valid + binding + "  policyName: p", nil, nil},

		{"policy-namespace", "misspelled", valid + binding + "  policyName: p\n  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: prodction}}}" + spaces,
			[]string{"warning spec.matchResources.namespaceSelector.matchLabels[kubernetes.io/metadata.name]"}, []string{`did you mean "production"?`}},
		{"policy-namespace", "of parameters", withParams + binding + "  policyName: p\n  paramRef: {name: limits, namespace: other, parameterNotFoundAction: Deny}" + spaces, []string{"warning spec.paramRef.namespace"}, nil},
		{"policy-namespace", "in a list", valid + binding + "  policyName: p\n  matchResources: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [production, a]}]}}" + spaces,
			[]string{"warning spec.matchResources.namespaceSelector.matchExpressions[0].values[1]"}, nil},
		{"policy-namespace", "there, or always there, or not selected", valid + binding + "  policyName: p\n  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: production}, matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [kube-system]}, {key: kubernetes.io/metadata.name, operator: NotIn, values: [a]}]}}" + spaces, nil, nil},
		{"policy-namespace", "no namespaces", valid + binding + "  policyName: p\n  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: a}}}", nil, nil},

		{"policy-match", "another group", policy(rule("", "v1", "deployments"), fine), []string{"warning spec.matchConstraints.resourceRules[0]"}, []string{"the rule matches nothing: the core group has no resource deployments: it belongs to apps"}},
		{"policy-match", "singular", policy(rule("apps", "v1", "deployment"), fine), []string{"warning spec.matchConstraints.resourceRules[0]"}, []string{`did you mean "deployments"?`}},
		{"policy-match", "misspelled", policy(rule("apps", "v1", "deploymnts/scale"), fine), []string{"warning spec.matchConstraints.resourceRules[0]"}, []string{`did you mean "deployments/scale"?`}},
		{"policy-match", "misspelled group", policy(rule("exmple.com", "v1", "shirts"), fine) + "\n---\n" + shirts, []string{"warning spec.matchConstraints.resourceRules[0].apiGroups[0]"}, []string{`did you mean "example.com"?`}},
		{"policy-match", "version", policy(rule("batch", "v1beta1", "cronjobs"), fine), []string{"warning spec.matchConstraints.resourceRules[0]"}, []string{"cronjobs.batch has no version v1beta1"}},
		{"policy-match", "parts", policy(`{apiGroups: [apps, batch], apiVersions: [v1, v1beta1], operations: [CREATE, CONNECT], resources: [deployments, replicationcontrollers]}`, fine),
			[]string{"info spec.matchConstraints.resourceRules[0].apiGroups[1]", "info spec.matchConstraints.resourceRules[0].apiVersions[1]", "info spec.matchConstraints.resourceRules[0].operations[1]", "warning spec.matchConstraints.resourceRules[0].resources[1]"}, nil},
		{"policy-match", "unknown group", policy(rule("other.org", "v1", "things"), fine), []string{"info spec.matchConstraints.resourceRules[0].apiGroups[0]"}, []string{"other.org is not a group of Kubernetes"}},
		{"policy-match", "subresource of a CRD", policy(rule("example.com", "v2", "shirts/status"), fine) + "\n---\n" + shirts, []string{"warning spec.matchConstraints.resourceRules[0]"}, []string{"shirts.example.com has no version v2"}},
		{"policy-match", "scope", policy(`{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments], scope: Cluster}`, fine), []string{"warning spec.matchConstraints.resourceRules[0].scope"}, []string{"deployments.apps is namespaced"}},
		{"policy-match", "operation", policy(rule("", "v1", "pods/status"), fine), []string{"warning spec.matchConstraints.resourceRules[0].operations[0]"}, []string{"there are no CREATE requests for pods/status: the rule matches nothing"}},
		{"policy-match", "exempt", policy(rule("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"), fine), []string{"warning spec.matchConstraints.resourceRules[0].resources"}, []string{"policies never apply to"}},
		{"policy-match", "excluded", policy(deployments, "    excludeResourceRules: [{apiGroups: [\"*\"], apiVersions: [\"*\"], operations: [\"*\"], resources: [deployments]}]\n"+fine), []string{"warning spec.matchConstraints.excludeResourceRules"}, nil},
		{"policy-match", "not all excluded", policy(deployments, "    excludeResourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}, {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments], resourceNames: [a]}]\n"+fine), nil, nil},
		{"policy-match", "a binding that does not meet its policy", valid + binding + "  policyName: p\n  matchResources: {resourceRules: [" + rule("", "v1", "pods") + "]}", []string{"warning spec.matchResources.resourceRules"}, []string{"the binding matches nothing"}},
		{"policy-match", "a binding that may meet its policy", policy(deployments+", "+rule("other.org", "v1", "things"), fine) + binding + "  policyName: p\n  matchResources: {resourceRules: [" + rule("", "v1", "pods") + "]}", []string{"info spec.matchConstraints.resourceRules[1].apiGroups[0]"}, nil},
		{"policy-match", "a binding for another operation", valid + binding + "  policyName: p\n  matchResources: {resourceRules: [" + strings.Replace(deployments, "CREATE", "UPDATE", 1) + "]}", []string{"warning spec.matchResources.resourceRules"}, nil},
		{"policy-match", "a binding for a subresource", policy(strings.Replace(deployments, "CREATE", "UPDATE", 1), fine) + binding + "  policyName: p\n  matchResources: {resourceRules: [" + strings.Replace(rule("apps", "v1", "deployments/status"), "CREATE", "UPDATE", 1) + "]}", []string{"warning spec.matchResources.resourceRules"}, nil},
		{"policy-match", "all groups and another", policy(`{apiGroups: ["*", other.org], apiVersions: [v1], operations: [CREATE], resources: [deployments]}`, fine), nil, nil},
		{"policy-match", "excluded as far as it is known", policy(rule("*", "*", "deployments"), "    excludeResourceRules: [{apiGroups: [apps], apiVersions: [\"*\"], operations: [\"*\"], resources: [\"*\"]}]\n"+fine), nil, nil},
		{"policy-match", "excluded everywhere", policy(rule("*", "*", "deployments"), "    excludeResourceRules: [{apiGroups: [\"*\"], apiVersions: [\"*\"], operations: [CREATE], resources: [\"*\"]}]\n"+fine), []string{"warning spec.matchConstraints.excludeResourceRules"}, nil},
		{"policy-match", "a binding that meets its policy", valid + binding + "  policyName: p\n  matchResources: {resourceRules: [" + rule("*", "*", "*") + "]}", nil, nil},
		{"policy-match", "a webhook", fmt.Sprintf(webhook, rule("apps", "v1", "pods"), "true"), []string{"warning webhooks[0].rules[0]"}, nil},
		{"policy-match", "exempt of webhooks", fmt.Sprintf(webhook, rule("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"), "true"), []string{"warning webhooks[0].rules[0].resources"}, []string{"webhooks never apply to"}},
		{"policy-match", "exempt of webhooks only", policy(rule("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"), fine), nil, nil},
		{"policy-match", "exempt of policies only", fmt.Sprintf(webhook, rule("authorization.k8s.io", "v1", "subjectaccessreviews"), "true"), nil, nil},
		{"policy-match", "wildcards, subresources and connections", policy(`{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}, {apiGroups: [""], apiVersions: [v1], operations: [CONNECT], resources: [pods/exec, pods/attach, services/proxy]},
			{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/eviction, pods/binding, serviceaccounts/token]}, {apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: ["*/scale", deployments/*]},
			{apiGroups: [apiextensions.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [customresourcedefinitions]}, {apiGroups: [example.com], apiVersions: [v1, v2], operations: [DELETE], resources: [shirts]}`, fine) + "\n---\n" + shirts, nil, nil},
	} {
		t.Run(test.rule+"/"+test.name, func(t *testing.T) {
			found := lintPolicies(t, only(test.rule), strings.TrimPrefix(test.text, "\n---\n"))
			all.add(test.rule+"/"+test.name, found)
			expect(t, found, test.want...)
			if len(found) == len(test.want) && len(found) > 0 {
				says(t, found[0], test.says...)
			}
		})
	}
	all.compare(t, "policy-rules.txt")
}

// TestPolicyOptions lints with less than what the command has: without types, schemas, or checks.
func TestPolicyOptions(t *testing.T) {
	lintWith := func(o lint.PolicyOptions, texts ...string) (lines []string) {
		t.Helper()
		var raws [][]byte
		for _, text := range texts {
			raws = append(raws, toJSON(t, text))
		}
		found, err := lint.Policies(t.Context(), raws, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range slices.Concat(found...) {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, f.Path, f.Message))
		}
		return lines
	}
	check := func(context.Context, []byte) []analysis.Finding {
		return []analysis.Finding{{Severity: analysis.Error, Path: "spec", Pointer: "/spec", Message: "wrong"}}
	}
	types := only("policy-type", "policy-type-status")
	misspelled := validation("object.spec.replcas < 5 && !has(object.spec.replica)")
	const unbound = "info policy-binding metadata.name: no binding in the input binds the policy: without one, it has no effect"
	for _, c := range []struct {
		name string
		o    lint.PolicyOptions
		text string
		want []string
	}{
		{"no types", lint.PolicyOptions{}, policy(rule("apps", "v1", "deployments"), misspelled), []string{unbound}},
		{"no schemas", lint.PolicyOptions{Types: typecheck.New(), Configs: []lint.Config{types}}, policy(rule("apps", "v1", "deployments"), misspelled), nil},
		{"no schemas of all kinds", lint.PolicyOptions{Types: typecheck.New(), Configs: []lint.Config{types}}, policy(rule("apps", "v1", "*"), misspelled), nil},
		{"a check", lint.PolicyOptions{Check: check, Configs: []lint.Config{only("invalid-policy")}}, policy(rule("apps", "v1", "deployments"), misspelled), []string{"error invalid-policy spec: wrong"}},
		{"another severity", lint.PolicyOptions{Check: check, Configs: []lint.Config{{Disable: []string{lint.All}, Enable: []string{"invalid-policy"}, Severity: map[string]analysis.Severity{"invalid-policy": "info"}}}},
			policy(rule("apps", "v1", "deployments"), misspelled), []string{"info invalid-policy spec: wrong"}},
		{"a check of another rule", lint.PolicyOptions{Check: check, Configs: []lint.Config{only("policy-type")}}, policy(rule("apps", "v1", "deployments"), misspelled), nil},
		{"no version", lint.PolicyOptions{Check: check, Configs: []lint.Config{only("invalid-policy")}}, "kind: ValidatingAdmissionPolicy", []string{"error invalid-policy spec: wrong"}},
		{"no metadata", lint.PolicyOptions{Check: check, Configs: []lint.Config{{}}}, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: []", []string{"error invalid-policy spec: wrong"}},
		{"no name", lint.PolicyOptions{}, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy", nil},
		{"no object", lint.PolicyOptions{Check: check}, "[]", []string{"error invalid-policy spec: wrong"}},
		{"a webhook without conditions", lint.PolicyOptions{Types: typecheck.New()}, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: [{name: w, rules: [" + rule("apps", "v1", "deployments") + "]}]", nil},
		{"webhooks that are none", lint.PolicyOptions{}, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}\nwebhooks: 7", nil},
		{"a binding that is none", lint.PolicyOptions{}, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: w}\nspec: 7", nil},
	} {
		if got := lintWith(c.o, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n  %s\nwant\n  %s", c.name, strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
		}
	}
	// Objects that are not in the input may exist.
	bound := []string{policy(rule("apps", "v1", "deployments"), "  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+validation("true")), `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny], paramRef: {name: limits, namespace: default, parameterNotFoundAction: Deny}}`}
	if got := lintWith(lint.PolicyOptions{Incomplete: true}, bound...); got != nil {
		t.Errorf("an incomplete input: got %q", got)
	}
	// The API server rejects a binding that does not say what to do without the object.
	if got := lintWith(lint.PolicyOptions{}, bound[0], strings.Replace(bound[1], ", parameterNotFoundAction: Deny", "", 1)); got != nil {
		t.Errorf("no action: got %q", got)
	}
	want := []string{"info policy-param spec.paramRef.name: there is no ConfigMap default/limits in the input"}
	if got := lintWith(lint.PolicyOptions{}, bound...); !slices.Equal(got, want) {
		t.Errorf("a complete input: got %q", got)
	}
	for meta, want := range map[metav1.TypeMeta]bool{
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicy"}:            true,
		{APIVersion: "admissionregistration.k8s.io/v1beta1", Kind: "MutatingAdmissionPolicyBinding"}:  true,
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration"}:         true,
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingAdmissionPolicyBindingList"}: false,
		{APIVersion: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:               false,
		{APIVersion: "example.com/v1", Kind: "ValidatingAdmissionPolicy"}:                             false,
	} {
		if got := lint.IsPolicy(meta); got != want {
			t.Errorf("%v: got %t", meta, got)
		}
	}
}

// TestPolicyBounds checks that a policy with many expressions that matches everything is checked within
// a bound.
func TestPolicyBounds(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "  - expression: object.metadata.lables%d == ''\n", i)
	}
	all := `{apiGroups: ["", apps, batch, networking.k8s.io, rbac.authorization.k8s.io, storage.k8s.io], apiVersions: ["*"], operations: ["*"], resources: [pods, services, secrets, configmaps, deployments, statefulsets, daemonsets, jobs, ingresses, roles, clusterroles]}`
	found := lintPolicies(t, only("policy-type"), policy(all, "  validations:\n"+strings.TrimSuffix(text.String(), "\n")))
	if len(found) < 400 || len(found) > 2000 {
		t.Errorf("there are %d findings", len(found))
	}
}
