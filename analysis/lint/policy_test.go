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
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/typecheck"
)

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
		source := analysistest.JSON(t, doc)
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

// TestPolicyOptions lints with less than what the command has: without types, schemas, or checks.
func TestPolicyOptions(t *testing.T) {
	lintWith := func(o lint.PolicyOptions, texts ...string) (lines []string) {
		t.Helper()
		var raws [][]byte
		for _, text := range texts {
			raws = append(raws, analysistest.JSON(t, text))
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
