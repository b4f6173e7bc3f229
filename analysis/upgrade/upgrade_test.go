package upgrade_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/upgrade"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// version returns a version of a CRD with a schema of the spec, in YAML. Flags are served and storage.
func version(name, flags, spec string) string {
	return fmt.Sprintf("{name: %s, served: %t, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}}",
		name, strings.Contains(flags, "served"), strings.Contains(flags, "storage"), spec)
}

// definition returns a CRD.
func definition(t *testing.T, rest string, versions ...string) *api.CustomResourceDefinition {
	t.Helper()
	src := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: jobs.example.com}, spec: {group: example.com, " +
		"names: {kind: Job, plural: jobs, singular: job, listKind: JobList}, scope: Namespaced, versions: [" + strings.Join(versions, ",") + "]}" + rest + "}"
	c := analysistest.CRD(t, src)
	c.Spec.Conversion = nil // as in a CRD that was not read from a file
	return c
}

const (
	both   = "served storage"
	status = ", status: {conditions: [{type: Established, status: 'True'}], acceptedNames: {plural: jobs, kind: Job}, storedVersions: [%s]}"
)

func withWebhook(c *api.CustomResourceDefinition) *api.CustomResourceDefinition {
	url := "https://127.0.0.1/"
	c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: &api.WebhookConversion{
		ClientConfig: &api.WebhookClientConfig{URL: &url}, ConversionReviewVersions: []string{"v1"}}}
	return c
}

func withScope(c *api.CustomResourceDefinition, scope api.ResourceScope) *api.CustomResourceDefinition {
	c.Spec.Scope = scope
	return c
}

// TestManagers expects the clients that write a version that is not served any more.
func TestManagers(t *testing.T) {
	t.Parallel()
	old := definition(t, "", version("v1", "served", "k: {type: integer}"), version("v2", both, "k: {type: integer}"))
	p, err := upgrade.NewPair(t.Context(), old, definition(t, "", version("v2", both, "k: {type: integer}")), upgrade.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	effects, err := p.Judge(t.Context(), []byte(`{"apiVersion":"example.com/v2","kind":"Job","metadata":{"name":"a","namespace":"b","managedFields":[
		{"manager":"helm","apiVersion":"example.com/v1"},{"manager":"helm","apiVersion":"example.com/v1","subresource":"status"},{"manager":"operator","apiVersion":"example.com/v2"}]},"spec":{}}`), upgrade.Stored)
	if err != nil || len(effects) != 1 || effects[0].Message != "helm writes version v1, which the new CRD does not serve" {
		t.Errorf("%v, %v", effects, err)
	}
}

// TestPlan adds many objects: groups name some of them, and their number is limited.
func TestPlan(t *testing.T) {
	t.Parallel()
	p, err := upgrade.NewPair(t.Context(), definition(t, "", version("v1", both, "m: {type: object, x-kubernetes-preserve-unknown-fields: true}")),
		definition(t, "", version("v1", both, "m: {type: object}")), upgrade.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	plan := upgrade.NewPlan(upgrade.PlanOptions{Examples: 2, Groups: 3, ClusterFlags: " --context c"})
	plan.AddPair(p)
	for i := range 10 {
		src := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a%d","namespace":"b"},"spec":{"m":{"all":1,"f%d":1}}}`, i, i)
		effects, err := p.Judge(t.Context(), []byte(src), upgrade.Stored)
		if err != nil {
			t.Fatal(err)
		}
		plan.Add(p, audit.Object{Namespace: "b", Name: fmt.Sprintf("a%d", i)}, effects)
	}
	var got []string
	for _, g := range plan.Groups(upgrade.Save) {
		got = append(got, fmt.Sprintf("%s %d %d", g.Pattern, g.Objects, len(g.Examples)))
	}
	if want := "[spec.m.all 10 2 … 8 2 spec.m.f0 1 1 spec.m.f1 1 1]"; fmt.Sprint(got) != want {
		t.Errorf("the groups are %v, want %s", got, want)
	}
	steps := plan.Steps()
	if len(steps) != 3 || steps[0].Objects != 10 || steps[0].Commands[0] != "kubectl --context c get jobs.v1.example.com -A -o yaml > jobs.example.com.yaml" {
		t.Errorf("the steps are %v", steps)
	}
	if plan.Objects != 10 || plan.Affected != 10 {
		t.Errorf("%d objects, %d affected", plan.Objects, plan.Affected)
	}
}

// TestQuotedNames expects names in commands that a shell does not interpret.
func TestQuotedNames(t *testing.T) {
	t.Parallel()
	old := definition(t, "", version("v1", both, "k: {type: integer}"))
	new := withScope(old.DeepCopy(), api.ClusterScoped)
	old.Name, new.Name = "$(id).example.com", "$(id).example.com"
	p, err := upgrade.NewPair(t.Context(), withWebhook(old), new, upgrade.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	plan := upgrade.NewPlan(upgrade.PlanOptions{Manifests: true})
	plan.AddPair(p)
	for _, s := range plan.Steps() {
		for _, command := range s.Commands {
			if strings.Contains(command, "$(id)") && !strings.Contains(command, "'$(id)") || strings.Contains(command, "patch") {
				t.Errorf("%s: %s", s.Title(), command)
			}
		}
	}
}

// TestRules makes sure that each rule of an effect is declared.
func TestRules(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range upgrade.Rules() {
		if seen[r.ID] || r.Summary == "" || r.Severity == "" {
			t.Errorf("the rule %q is declared twice or not described", r.ID)
		}
		seen[r.ID] = true
	}
}

// errRules is the error of rulesFail.
var errRules = errors.New("rules are not supported")

// rulesFail compiles no schema with rules.
type rulesFail struct{ cel.Checker }

func (rulesFail) Compile(s *schema.Structural) (schema.Rules, error) {
	if len(s.Properties["spec"].Properties["k"].XValidations) > 0 {
		return nil, errRules
	}
	return nil, nil
}

// TestNotCompiled judges objects of CRDs with a schema that cannot be compiled.
func TestNotCompiled(t *testing.T) {
	t.Parallel()
	const plain, ruled = "k: {type: integer}", "k: {type: integer, x-kubernetes-validations: [{rule: self > 0}]}"
	for name, tt := range map[string]struct{ old, new *api.CustomResourceDefinition }{
		"installed": {definition(t, "", version("v1", both, ruled)), definition(t, "", version("v1", both, plain))},
		"prepared": {definition(t, fmt.Sprintf(status, "v1"), version("v1", both, plain), version("v2", "served", ruled)),
			definition(t, "", version("v2", both, plain))},
		"new": {definition(t, "", version("v1", both, plain)), definition(t, "", version("v1", both, ruled))},
		"revealing": {definition(t, "", version("v1", both, plain)),
			definition(t, "", version("v1", both, plain+", l: {type: integer}"), version("v2", "served", ruled))},
	} {
		p, err := upgrade.NewPair(t.Context(), tt.old, tt.new, upgrade.Options{Rules: rulesFail{}})
		if err != nil {
			t.Fatal(err)
		}
		src := []byte(`{"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "b"}, "spec": {"k": 1, "l": 2}}`)
		if _, err := p.Judge(t.Context(), src, upgrade.Stored); !errors.Is(err, errRules) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
