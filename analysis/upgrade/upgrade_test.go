package upgrade_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/upgrade"
	"espalier.dev/api"
	"espalier.dev/api/codec"
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
	text, err := yaml.YAMLToJSON([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.DecodeLenient(text)
	if err != nil {
		t.Fatal(err)
	}
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

func withShortName(c *api.CustomResourceDefinition, name string) *api.CustomResourceDefinition {
	c.Spec.Names.ShortNames = []string{name}
	return c
}

// lines returns effects as text.
func lines(effects []upgrade.Effect) (all []string) {
	for _, e := range effects {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.Action.ID(), e.Severity, e.Rule, e.Path)))
	}
	return all
}

// TestPair expects the effects on CRDs, and the steps that they need without objects.
func TestPair(t *testing.T) {
	t.Parallel()
	v1, v2 := version("v1", both, "k: {type: integer}"), version("v2", both, "k: {type: integer}")
	old1, old2 := version("v1", "served", "k: {type: integer}"), version("v2", "served", "k: {type: integer}")
	for _, tt := range []struct {
		name     string
		old, new *api.CustomResourceDefinition
		effects  []string
		steps    string
	}{
		{"the same", definition(t, "", v1), definition(t, "", v1), nil, ""},
		{"another schema", definition(t, "", v1), definition(t, "", version("v1", both, "n: {type: string}")), nil, "apply"},
		{"added", nil, definition(t, "", v1), nil, "apply"},
		{"removed", definition(t, "", v1), nil, []string{"save warning object-deleted"}, "save"},
		{"a wrong name", definition(t, "", v1), withShortName(definition(t, "", v1), "X"), []string{"correct-new error update-refused spec.names.shortNames[0]"}, "correct-new apply"},
		{"added and invalid", nil, definition(t, "", v1, v2), []string{"correct-new error update-refused"}, "correct-new apply"},
		{"invalid", definition(t, "", v1), definition(t, "", version("v1", both, "k: {type: integer, default: x}")),
			[]string{"correct-new error update-refused spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[k].default"}, "correct-new apply"},
		{"the storage version changes", definition(t, "", v1, old2), definition(t, "", old1, v2),
			[]string{"migrate warning needs-migration status.storedVersions"}, "apply migrate"},
		{"an old version goes, which may be stored", definition(t, "", old1, v2), definition(t, "", v2),
			[]string{"rewrite warning needs-migration status.storedVersions"}, "rewrite apply"},
		{"an old version goes, which is not stored", definition(t, fmt.Sprintf(status, "v2"), old1, v2), definition(t, "", v2), nil, "apply"},
		{"an old version goes, which is stored", definition(t, fmt.Sprintf(status, "v1, v2"), old1, v2), definition(t, "", v2),
			[]string{"rewrite error update-refused status.storedVersions"}, "rewrite apply"},
		{"the storage version goes", definition(t, fmt.Sprintf(status, "v1"), v1, old2), definition(t, "", v2),
			[]string{"rewrite error update-refused status.storedVersions", "switch-storage error needs-migration spec.versions"}, "switch-storage rewrite apply"},
		{"no version in common", definition(t, "", v1), definition(t, "", v2),
			[]string{"intermediate-release error update-refused status.storedVersions"}, "intermediate-release apply"},
		{"no version in common, of several", definition(t, "", version("v0", "served", "k: {type: integer}"), v1), definition(t, "", v2),
			[]string{"intermediate-release error update-refused status.storedVersions"}, "intermediate-release apply"},
		{"scope", definition(t, "", v1), withScope(definition(t, "", v1), api.ClusterScoped), []string{"delete error update-refused spec.scope"}, "save delete apply recreate"},
		{"None to Webhook", definition(t, "", v1, old2), withWebhook(definition(t, "", v1, old2)),
			[]string{"start-webhook warning conversion-webhook spec.conversion"}, "start-webhook apply"},
		{"Webhook to None", withWebhook(definition(t, "", v1, old2)), definition(t, "", v1, old2),
			[]string{"check warning conversion-webhook spec.conversion"}, "apply check"},
		{"None to Webhook with one version", definition(t, "", v1), withWebhook(definition(t, "", v1)), nil, "apply"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				p, err := upgrade.NewPair(t.Context(), tt.old, tt.new, upgrade.Options{Semantics: sem, Rules: cel.Checker{}})
				if err != nil {
					t.Fatal(err)
				}
				plan := upgrade.NewPlan(upgrade.PlanOptions{})
				if got := lines(plan.AddPair(p)); fmt.Sprint(got) != fmt.Sprint(tt.effects) {
					t.Errorf("%v: the effects are %q, want %q", sem, got, tt.effects)
				}
				steps := func(p *upgrade.Plan) string {
					var ids []string
					for _, s := range p.Steps() {
						ids = append(ids, s.Action.ID())
					}
					return strings.Join(ids, " ")
				}
				if got := steps(plan); got != tt.steps {
					t.Errorf("%v: the steps are %q, want %q", sem, got, tt.steps)
				}
			}
		})
	}
}

// TestJudge expects the effects on objects.
func TestJudge(t *testing.T) {
	t.Parallel()
	const n = "k: {type: integer}"
	ruled := strings.Replace(version("v2", "served", n), "{type: object, properties: {spec", "{type: object, x-kubernetes-validations: [{rule: 'self.spec.k < 5'}], properties: {spec", 1)
	one := func(spec string) *api.CustomResourceDefinition { return definition(t, "", version("v1", both, spec)) }
	for _, tt := range []struct {
		name     string
		old, new *api.CustomResourceDefinition
		form     upgrade.Form
		object   string
		want     []string
		message  string
	}{
		{"nothing", one(n), one(n + ", m: {type: string}"), upgrade.Stored, "{k: 1}", nil, ""},
		{"a field goes", one(n + ", m: {type: string}"), one(n), upgrade.Stored, "{k: 1, m: x}", []string{"save error loses-data spec.m"}, "hidden, and dropped with the next write"},
		{"a field goes that is not set", one(n + ", m: {type: string}"), one(n), upgrade.Stored, "{k: 1}", nil, ""},
		{"a field that was hidden before", one(n), one(n), upgrade.Stored, "{k: 1, m: x}", nil, ""},
		{"hidden data is served", one(n), one(n + ", m: {type: string}"), upgrade.Stored, "{k: 1, m: x}", []string{"rewrite warning revealed spec.m"}, ""},
		{"hidden data of a manifest", one(n), one(n + ", m: {type: string}"), upgrade.Manifest, "{k: 1, m: x}", nil, ""},
		{"null is dropped", one("m: {type: string, nullable: true}"), one("m: {type: string}"), upgrade.Stored, "{m: null}",
			[]string{"save error loses-data spec.m"}, "does not allow null"},
		{"invalid, with ratcheting", one(n), one("k: {type: integer, maximum: 3}"), upgrade.Stored, "{k: 7}",
			[]string{"correct error invalid spec.k"}, "creating the object is rejected, updates of other fields pass"},
		{"invalid before", one("k: {type: integer, maximum: 5}"), one("k: {type: integer, maximum: 5}, m: {type: string}"), upgrade.Stored, "{k: 7}", nil, ""},
		{"a required field", one(n), definition(t, "", strings.Replace(version("v1", both, n+", m: {type: string}"), "spec: {type: object", "spec: {type: object, required: [m]", 1)),
			upgrade.Stored, "{k: 7}", []string{"correct error invalid spec.m"}, "updates of other fields pass"},
		{"a rule of the root", one(n), definition(t, "", strings.Replace(version("v1", both, n), "{type: object, properties: {spec", "{type: object, x-kubernetes-validations: [{rule: 'self.spec.k < 5'}], properties: {spec", 1)),
			upgrade.Stored, "{k: 7}", []string{"correct error invalid"}, "every update of the object is rejected"},
		{"a default is new", one(n), one(n + ", m: {type: string, default: x}"), upgrade.Stored, "{k: 1}", []string{"check info defaulted spec.m"}, `gets the default "x"`},
		{"a default changes", one(n + ", m: {type: string, default: x}"), one(n + ", m: {type: string, default: z}"), upgrade.Stored, "{k: 1}",
			[]string{"check warning defaulted spec.m"}, `the default "x" → "z"`},
		{"a default changes, and the field is set", one(n + ", m: {type: string, default: x}"), one(n + ", m: {type: string, default: z}"), upgrade.Stored, "{k: 1, m: x}", nil, ""},
		{"a default changes, in a manifest", one(n + ", m: {type: string, default: x}"), one(n + ", m: {type: string, default: z}"), upgrade.Manifest, "{k: 1}", nil, ""},
		{"a default goes", one(n + ", m: {type: string, default: x}"), one(n + ", m: {type: string}"), upgrade.Stored, "{k: 1}",
			[]string{"check warning defaulted spec.m"}, "no longer gets"},
		{"a transition rule", one(n), one("k: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}"), upgrade.Stored, "{k: 7}",
			[]string{"check info transition-rule spec.k"}, "self == oldSelf"},
		{"a transition rule about another field", one(n + ", m: {type: integer}"), one(n + ", m: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}"), upgrade.Stored, "{k: 7}", nil, ""},
		{"removed", one(n), nil, upgrade.Stored, "{k: 1}", []string{"save error object-deleted"}, ""},
		{"scope, and the object is invalid", one("k: {type: integer, maximum: 3}"), withScope(one("k: {type: integer, maximum: 3}"), api.ClusterScoped), upgrade.Stored, "{k: 7}",
			[]string{"save error object-deleted", "recreate error invalid spec.k"}, "creating the object again is rejected"},
		{"scope", one(n), withScope(one(n), api.ClusterScoped), upgrade.Stored, "{k: 1}", []string{"save error object-deleted"}, "deleted and created again"},
		{"the storage version changes", one(n), definition(t, "", version("v1", "served", n), version("v2", both, n)), upgrade.Stored, "{k: 1}",
			[]string{"migrate warning needs-migration"}, "the storage version of the new CRD is v2"},
		{"the storage version changes, and a field goes with it", one(n + ", m: {type: string}"),
			definition(t, "", version("v1", "served", n+", m: {type: string}"), version("v2", both, n)), upgrade.Stored, "{k: 1, m: x}",
			[]string{"migrate warning needs-migration", "save error loses-data spec.m"}, ""},
		{"the stored version goes", definition(t, "", version("v1", both, n), version("v2", "served", n)), definition(t, "", version("v2", both, n)), upgrade.Stored, "{k: 1}",
			[]string{"rewrite error needs-migration"}, "which the new CRD does not have"},
		{"the stored version goes, and a field with it", definition(t, "", version("v1", both, n+", m: {type: string}"), version("v2", "served", n)),
			definition(t, "", version("v2", both, n)), upgrade.Served, "{k: 1, m: x}", []string{"save error loses-data spec.m"}, "dropped when the object is stored in version v2"},
		{"the stored version goes, and the object is invalid in the other one", definition(t, "", version("v1", both, n), version("v2", "served", "k: {type: integer, maximum: 3}")),
			definition(t, "", version("v2", both, "k: {type: integer, maximum: 3}")), upgrade.Served, "{k: 7}", []string{"correct error invalid spec.k"}, "updates of other fields pass"},
		{"the stored version goes, and the other version has a rule", definition(t, "", version("v1", both, n), ruled), definition(t, "", strings.Replace(ruled, "storage: false", "storage: true", 1)),
			upgrade.Served, "{k: 7}", []string{"correct error invalid"}, "storing the object in version v2 is rejected"},
		{"a field goes that holds its default", one(n + ", m: {type: string, default: x}"), one(n), upgrade.Stored, "{k: 1, m: x}",
			[]string{"save warning loses-data spec.m"}, `holds its default "x"`},
		{"a field goes that begins like its default", one(n + ", m: {type: string, default: " + strings.Repeat("x", 90) + "}"), one(n), upgrade.Stored,
			"{k: 1, m: " + strings.Repeat("x", 91) + "}", []string{"save error loses-data spec.m"}, "hidden"},
		{"a field goes that has a default", one(n + ", m: {type: string, default: x}"), one(n), upgrade.Stored, "{k: 1, m: z}",
			[]string{"save error loses-data spec.m"}, "hidden"},
		{"a field goes that only its default sets", one(n + ", m: {type: string, default: x}"), one(n), upgrade.Manifest, "{k: 1}",
			[]string{"check warning defaulted spec.m"}, "no longer gets"},
		{"a version of a manifest goes", definition(t, "", version("v1", "served", n), version("v2", both, n)), definition(t, "", version("v2", both, n)), upgrade.Manifest, "{k: 1}",
			[]string{"change-version error version-not-served"}, "change it to v2"},
		{"a version of a manifest is not served, and the new one is new", one(n), definition(t, "", version("v1", "", n), version("v2", both, n)), upgrade.Manifest, "{k: 1}",
			[]string{"change-version-after error version-not-served"}, "change it to v2"},
		{"a webhook converts", one(n), withWebhook(definition(t, "", version("v1", "served", n), version("v2", both, n))), upgrade.Served, "{k: 1}",
			[]string{"check info not-judged"}, "judged in version v1 only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				p, err := upgrade.NewPair(t.Context(), tt.old, tt.new, upgrade.Options{Semantics: sem, Rules: cel.Checker{}})
				if err != nil {
					t.Fatal(err)
				}
				src, err := yaml.YAMLToJSON([]byte("{apiVersion: example.com/v1, kind: Job, metadata: {name: a, namespace: default}, spec: " + tt.object + "}"))
				if err != nil {
					t.Fatal(err)
				}
				effects, err := p.Judge(t.Context(), src, tt.form)
				if err != nil {
					t.Fatal(err)
				}
				if got := lines(effects); fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Fatalf("%v: the effects are %q, want %q", sem, effects, tt.want)
				}
				if n := len(effects); n > 0 && !strings.Contains(effects[n-1].Message, tt.message) {
					t.Errorf("%v: the message is %q, want %q", sem, effects[n-1].Message, tt.message)
				}
			}
		})
	}
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
