package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/policies"
	"espalier.dev/schema"
)

const (
	denies   = "validationActions: [Deny]"
	everyone = "matchResources: {}"
	// asks asks the authorizer.
	asks = "authorizer.group('').resource('pods').check('create').allowed()"
)

// patch returns the mutations of a policy that applies a JSON patch.
func patch(operation string) string {
	return `, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{` + operation + `}]"}}]`
}

// ponds matches the ponds of a version, and equivalent ones.
func ponds(version string) string {
	return `matchConstraints: {resourceRules: [{apiGroups: [water.example.com], apiVersions: [` + version + `], operations: [CREATE], resources: [ponds]}]}`
}

func definitionOf(t *testing.T, text string) *crd.Definition {
	t.Helper()
	hub, err := codec.DecodeLenient(toJSON(t, text))
	if err != nil {
		t.Fatal(err)
	}
	crd.PrepareCreate(hub)
	d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDecisions checks which policy is named for what happens to a request, and its expression.
func TestDecisions(t *testing.T) {
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
	const remove = "op: 'remove', path: '/metadata/annotations/none'"
	const typed = "op: 'add', path: '/data', value: 'text'"
	pond := definitionOf(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: ponds.water.example.com}, spec: {
		group: water.example.com, scope: Namespaced, names: {plural: ponds, kind: Pond},
		conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://example.com"}}}, versions: [
		{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}},
		{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]}}`)
	for _, c := range []struct {
		name, setup, object string
		// decisions are actions with the name of the policy and the path of the expression, and
		// unjudged are names of policies with reasons.
		decisions, unjudged []string
	}{
		{"a mutation that fails", mutatingPolicy("fails", configMaps+patch(remove), everyone), configMap,
			[]string{"deny fails spec.mutations[0].jsonPatch.expression"}, nil},
		{"a mutation that fails and is ignored", mutatingPolicy("fails", configMaps+", failurePolicy: Ignore"+patch(remove), everyone), configMap, nil, nil},
		{"a mutation to the wrong type", mutatingPolicy("typed", configMaps+patch(typed), everyone), configMap,
			[]string{"deny typed spec.mutations[0].jsonPatch.expression"}, nil},
		{"a mutation to the wrong type is not ignored", mutatingPolicy("typed", configMaps+", failurePolicy: Ignore"+patch(typed), everyone), configMap,
			[]string{"deny typed spec.mutations[0].jsonPatch.expression"}, nil},
		{"policies in the order of their names, with one that cannot be decoded",
			validatingPolicy("b", configMaps+`, validations: [{expression: "false"}]`, denies) +
				"\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: broken}, spec: 1}" +
				validatingPolicy("a", configMaps+`, validations: [{expression: "false"}]`, denies), configMap,
			[]string{"deny a spec.validations[0].expression", "deny b spec.validations[0].expression"}, nil},
		{"a match condition that fails",
			validatingPolicy("conditions", configMaps+`, matchConditions: [{name: a, expression: "object.data.a == 'b'"}], validations: [{expression: "false"}]`, denies), configMap,
			[]string{"deny conditions "}, nil},
		{"a validation that fails",
			validatingPolicy("validations", configMaps+`, matchConditions: [{name: a, expression: "true"}], validations: [{expression: "object.data.a == 'b'"}]`, denies), configMap,
			[]string{"deny validations spec.validations[0].expression"}, nil},
		{"certain denials beside the authorizer",
			validatingPolicy("asks", configMaps+`, variables: [{name: may, expression: "`+asks+`"}, {name: both, expression: "variables.may && true"}],
				validations: [{expression: "variables.both"}, {expression: "object.metadata.name != 'a'"}, {expression: "`+asks+`"}]`, denies), configMap,
			[]string{"deny asks spec.validations[1].expression"}, []string{"asks asks-binding asks the authorizer"}},
		{"no denial behind a match condition that asks the authorizer",
			validatingPolicy("asks", configMaps+`, matchConditions: [{name: a, expression: "`+asks+`"}], validations: [{expression: "false"}]`, denies), configMap,
			nil, []string{"asks asks-binding asks the authorizer"}},
		{"a version to which a webhook converts",
			validatingPolicy("v1", ponds("v1")+`, validations: [{expression: "false"}]`, denies) +
				validatingPolicy("ignored", ponds("v1")+`, failurePolicy: Ignore, validations: [{expression: "false"}]`, denies) +
				validatingPolicy("v2", ponds("v2")+`, validations: [{expression: "false"}]`, denies) +
				validatingPolicy("elsewhere", ponds("v1")+`, validations: [{expression: "false"}]`, "validationActions: [Deny], "+only) +
				mutatingPolicy("v1", ponds("v1")+patch("op: 'add', path: '/spec', value: {}"), everyone),
			"{apiVersion: water.example.com/v2, kind: Pond, metadata: {name: a}}",
			[]string{"deny v2 spec.validations[0].expression"},
			[]string{"v1 v1-binding needs the object in water.example.com/v1, and a webhook converts it",
				"ignored ignored-binding needs the object in water.example.com/v1, and a webhook converts it",
				"v1 v1-binding needs the object in water.example.com/v1, and a webhook converts it"}},
		{"a version to which a webhook converts, in a match condition of a webhook", `
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: hooks}, webhooks: [{name: hook.example.com, admissionReviewVersions: [v1], sideEffects: None,
  clientConfig: {url: "https://example.com"}, rules: [{apiGroups: [water.example.com], apiVersions: [v1], operations: [CREATE], resources: [ponds]}], matchConditions: [{name: a, expression: "true"}]}]}`,
			"{apiVersion: water.example.com/v2, kind: Pond, metadata: {name: a}}",
			nil, []string{"hooks  needs the object in water.example.com/v1, and a webhook converts it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _, err := policies.New(t.Context(), policies.Config{Objects: objects(t, c.setup),
				Definition: func(gvk runtimeschema.GroupVersionKind) *crd.Definition {
					if gvk.Group != pond.Group() {
						return nil
					}
					return pond
				}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, c.object)})
			if err != nil {
				t.Fatal(err)
			}
			var decisions, unjudged []string
			for _, d := range r.Decisions {
				decisions = append(decisions, fmt.Sprintf("%s %s %s", d.Action, d.Name, d.Policy.Path))
			}
			for _, u := range r.Unjudged {
				unjudged = append(unjudged, fmt.Sprintf("%s %s %s", u.Name, u.Binding, u.Reason))
			}
			if !slices.Equal(decisions, c.decisions) || !slices.Equal(unjudged, c.unjudged) {
				t.Errorf("%q %q, not %q %q", decisions, unjudged, c.decisions, c.unjudged)
			}
			if text := inconsistent(r); text != "" {
				t.Error(text)
			}
		})
	}
}

// inconsistent returns why a result contradicts itself, or nothing: a request is rejected if and only
// if a decision or a webhook denies it.
func inconsistent(r *policies.Result) string {
	denied := slices.ContainsFunc(r.Decisions, func(d policies.Decision) bool { return d.Action == policies.Deny }) ||
		slices.ContainsFunc(r.Webhooks, func(w policies.Webhook) bool { return w.Err != nil })
	if denied != (r.Rejected != nil) {
		return fmt.Sprintf("rejected: %v, decisions: %+v, webhooks: %+v", r.Rejected, r.Decisions, r.Webhooks)
	}
	return ""
}

// TestUsers checks the groups of users.
func TestUsers(t *testing.T) {
	e, _, err := policies.New(t.Context(), policies.Config{Objects: objects(t,
		validatingPolicy("groups", configMaps+`, validations: [{expression: "false", messageExpression: "request.userInfo.groups.join(' ')"}]`, denies))})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		groups []string
		want   string
	}{
		{"jane", nil, "system:authenticated"},
		{"jane", []string{"gardeners"}, "gardeners system:authenticated"},
		{"jane", []string{"system:unauthenticated"}, "system:unauthenticated"},
		{"system:anonymous", nil, "system:unauthenticated"},
		{"system:serviceaccount:ci:deployer", nil, "system:serviceaccounts system:serviceaccounts:ci system:authenticated"},
		{"system:serviceaccount:ci:deployer", []string{"gardeners"}, "gardeners system:authenticated"},
		{"system:serviceaccount:ci", nil, "system:authenticated"},
	} {
		r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"),
			User: &policies.User{Name: c.name, Groups: c.groups}})
		if err != nil || len(r.Decisions) != 1 || !strings.HasSuffix(r.Decisions[0].Message, "denied request: "+c.want) {
			t.Errorf("%s %q: %v %+v", c.name, c.groups, err, r.Decisions)
		}
	}
}

// TestAssumedNamespace checks when a namespace matters that is not among the objects.
func TestAssumedNamespace(t *testing.T) {
	for _, c := range []struct {
		name, setup string
		matters     bool
	}{
		{"nothing", validatingPolicy("a", configMaps+`, validations: [{expression: "true"}]`, denies), false},
		{"labels", validatingPolicy("a", configMaps+`, validations: [{expression: "namespaceObject.metadata.labels.a == 'b'"}]`, denies), true},
		{"the name", validatingPolicy("a", configMaps+`, validations: [{expression: "namespaceObject.metadata.name == 'b'"}]`, denies), false},
		{"a variable", validatingPolicy("a", configMaps+`, variables: [{name: ns, expression: namespaceObject}], validations: [{expression: "variables.ns.metadata.labels.a == 'b'"}]`, denies), true},
		{"an audit annotation", validatingPolicy("a", configMaps+`, auditAnnotations: [{key: a, valueExpression: "string(namespaceObject.metadata.labels.a)"}]`, denies), true},
		{"no binding", validatingPolicy("a", configMaps+`, validations: [{expression: "namespaceObject.metadata.labels.a == 'b'"}]`, "") +
			mutatingPolicy("a", configMaps+patch("op: 'add', path: '/data', value: {'a': string(namespaceObject.metadata.labels.a)}"), ""), false},
	} {
		e, problems, err := policies.New(t.Context(), policies.Config{Objects: objects(t, c.setup)})
		if err != nil || len(problems) > 0 {
			t.Fatal(c.name, err, problems)
		}
		r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: elsewhere}}")})
		if err != nil || (r.AssumedNamespace != "") != c.matters {
			t.Errorf("%s: %v %q", c.name, err, r.AssumedNamespace)
		}
	}
}
