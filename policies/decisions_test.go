package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/policies"
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

// TestDecisions checks which policy is named for what happens to a request, and its expression.
func TestDecisions(t *testing.T) {
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"
	const remove = "op: 'remove', path: '/metadata/annotations/none'"
	const typed = "op: 'add', path: '/data', value: 'text'"
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
	} {
		t.Run(c.name, func(t *testing.T) {
			e, _, err := policies.New(t.Context(), policies.Config{Objects: objects(t, c.setup)})
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
