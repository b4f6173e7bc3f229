package policies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"espalier.dev/policies"
)

// TestHostile gives an Evaluator wrong and large input: it reports it, and panics never.
func TestHostile(t *testing.T) {
	many := 500
	if testing.Short() {
		many = 50
	}
	t.Run("objects", func(t *testing.T) {
		var list []policies.Object
		for _, text := range []string{"", "null", "[]", "{", `"x"`, `{"kind": 1}`, `{"apiVersion": "admissionregistration.k8s.io/v1"}`,
			`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}`,
			`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": [], "spec": 1}`,
			`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "a"}, "spec": {}}`,
			`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "Nothing", "metadata": {"name": "a"}}`,
			`{"apiVersion": "admissionregistration.k8s.io/v1alpha1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "a"}}`,
			`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": 1}}`} {
			list = append(list, policies.Object{JSON: []byte(text)})
		}
		e, problems, err := policies.New(t.Context(), policies.Config{Objects: list})
		if err != nil || len(problems) < 5 {
			t.Fatal(err, problems)
		}
		for _, p := range problems {
			if p.Code != policies.Rejected || p.Message == "" {
				t.Error(p)
			}
		}
		for _, object := range []string{"", "null", "{}", `{"apiVersion": "v1", "kind": "Nothing"}`, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": 1}`,
			`{"apiVersion": "v1", "kind": "ConfigMap", "data": []}`, `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}`} {
			var undecodable *policies.UndecodableError
			if _, err := e.Evaluate(t.Context(), policies.Request{Object: []byte(object)}); !errors.As(err, &undecodable) {
				t.Error(object, err)
			}
			config := toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
			if _, err := e.Evaluate(t.Context(), policies.Request{Object: config, Old: []byte(object)}); object != "" && !errors.As(err, &undecodable) {
				t.Error("old", object, err)
			}
		}
	})
	t.Run("many policies", func(t *testing.T) {
		text := &strings.Builder{}
		for i := range many {
			fmt.Fprint(text, validatingPolicy(fmt.Sprintf("p%d", i), configMaps+fmt.Sprintf(`, validations: [{expression: "object.metadata.name != 'a%d'"}]`, i), "validationActions: [Deny]"))
			fmt.Fprint(text, mutatingPolicy(fmt.Sprintf("p%d", i), pods+`, reinvocationPolicy: IfNeeded, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/a', value: 1}]"}}]`, only))
		}
		e, problems, err := policies.New(t.Context(), policies.Config{Objects: objects(t, text.String())})
		if err != nil || len(problems) > 0 {
			t.Fatal(err, len(problems))
		}
		r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a49}}")})
		if err != nil || r.Rejected == nil || len(r.Decisions) != 1 || r.Decisions[0].Name != "p49" {
			t.Error(err, r)
		}
	})
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		text := validatingPolicy("a", configMaps+`, validations: [{expression: "true"}]`, "validationActions: [Deny]")
		if _, _, err := policies.New(ctx, policies.Config{Objects: objects(t, strings.Repeat(text, 100))}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("concurrently", func(t *testing.T) {
		e, _, err := policies.New(t.Context(), policies.Config{Objects: objects(t, validatingPolicy("a", configMaps+`, validations: [{expression: "object.metadata.name != 'a'"}]`, "validationActions: [Deny]")+
			mutatingPolicy("b", configMaps+`, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]`, only))})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for range 20 {
					r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")})
					if err != nil || r.Rejected == nil {
						t.Fatal(err, r)
					}
				}
			})
		}
	})
}

// TestCostlyCall evaluates a policy whose call takes minutes for a pod with many arguments.
func TestCostlyCall(t *testing.T) {
	if testing.Short() {
		t.Skip("a costly call")
	}
	e, problems, err := policies.New(t.Context(), policies.Config{Objects: objects(t,
		validatingPolicy("a", pods+`, validations: [{expression: "object.spec.containers.all(c, c.args.distinct().size() > 0)"}]`, "validationActions: [Deny]"))})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	var args strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&args, `,"%d"`, i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pod := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a", "args": [%s]}]}}`, args.String()[1:])
	r, err := e.Evaluate(ctx, policies.Request{Object: []byte(pod)})
	if err != nil || r.Rejected == nil || !strings.Contains(r.Rejected.Error(), "the arguments of distinct are too large") || ctx.Err() != nil {
		t.Errorf("%v %v %v", err, r.Rejected, ctx.Err())
	}
}

// TestUnjudged checks that what asks the authorizer has no verdict.
func TestUnjudged(t *testing.T) {
	const ask = "authorizer.group('').resource('pods').check('create').allowed()"
	e, problems, err := policies.New(t.Context(), policies.Config{Objects: objects(t,
		validatingPolicy("condition", configMaps+`, matchConditions: [{name: a, expression: "`+ask+`"}], validations: [{expression: "false"}]`, "validationActions: [Deny]")+
			validatingPolicy("validation", configMaps+`, validations: [{expression: "`+ask+`"}]`, "validationActions: [Deny]")+
			validatingPolicy("judged", configMaps+`, validations: [{expression: "object.metadata.name == 'a' || `+ask+`"}]`, "validationActions: [Deny]")+
			mutatingPolicy("condition", configMaps+`, reinvocationPolicy: Never, matchConditions: [{name: a, expression: "`+ask+`"}], mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}}]`, only)+
			mutatingPolicy("mutation", configMaps+`, reinvocationPolicy: Never, mutations: [{patchType: JSONPatch, jsonPatch: {expression: "`+ask+` ? [JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}] : [JSONPatch{op: 'add', path: '/data', value: {'a': 'c'}}]"}}]`, only))})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	r, err := e.Evaluate(t.Context(), policies.Request{Object: toJSON(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}}")})
	if err != nil || r.Rejected != nil || len(r.Decisions) > 0 || r.Mutated != nil {
		t.Fatalf("%v %+v", err, r)
	}
	var names []string
	for _, u := range r.Unjudged {
		names = append(names, u.Name)
	}
	if got := strings.Join(names, " "); got != "condition mutation condition validation" {
		t.Error(got)
	}
}
