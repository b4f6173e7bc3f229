package impact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

func compare(t *testing.T, old, new *api.CustomResourceDefinition, sem schema.Semantics) *impact.Comparison {
	t.Helper()
	c, err := impact.Compare(t.Context(), old, new, impact.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func findingLines(findings ...impact.Finding) (lines []string) {
	for _, f := range findings {
		lines = append(lines, fmt.Sprintf("%s %s %s (%s): %s", f.Severity, f.Rule, f.Pointer, f.OldPointer, f.Message))
		for _, d := range f.Detail {
			lines = append(lines, "  "+d)
		}
	}
	return lines
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestChangeFinding checks that the message has the verdict, and the details the other effects.
func TestChangeFinding(t *testing.T) {
	c := compare(t, crdOf(t, `{type: integer, maximum: 5}`), crdOf(t, `{type: integer, maximum: 4}`), schema.Kubernetes)
	if len(c.Changes) != 1 {
		t.Fatalf("%d changes", len(c.Changes))
	}
	at := "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x/maximum"
	expectLines(t, findingLines(c.Finding(&c.Changes[0])),
		"error invalid "+at+" ("+at+"): stored objects may become invalid: maximum 5 → 4",
		"  clients may break: writes of such values are rejected",
		"  stored objects can still be read and deleted; updates are accepted unless they change spec.x",
	)
}

// TestRuleFinding checks that a finding points to the rule, not to the list of rules.
func TestRuleFinding(t *testing.T) {
	new := crdOf(t, `{type: integer, x-kubernetes-validations: [{rule: "true"}, {rule: "self > 1"}]}`)
	c := compare(t, crdOf(t, `{type: integer, x-kubernetes-validations: [{rule: "true"}]}`), new, schema.Kubernetes)
	if len(c.Changes) != 1 {
		t.Fatalf("%d changes", len(c.Changes))
	}
	if got, want := c.Finding(&c.Changes[0]).Pointer, "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x/x-kubernetes-validations/1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestReasonsAreFew checks that a finding lists only a few reasons, without duplicates.
func TestReasonsAreFew(t *testing.T) {
	for n, last := range map[int]string{5: "newly defaulted: reason 4", 6: "newly defaulted: 1 more reason", 8: "newly defaulted: 3 more reasons"} {
		var c impact.Change
		for i := range n {
			for range 2 {
				c.Effects = append(c.Effects, impact.Effect{Class: impact.Defaulted, Reason: fmt.Sprintf("reason %d", i)})
			}
		}
		if got := (&impact.Comparison{}).Finding(&c).Detail; len(got) != min(n, 6) || got[len(got)-1] != last {
			t.Errorf("%d reasons: got %q", n, got)
		}
	}
}

// TestRejections checks that findings name the fields of v1.
func TestRejections(t *testing.T) {
	old, new := crdOf(t, `{type: string}`), crdOf(t, `{type: string, pattern: "("}`)
	new.Spec.Scope = api.ClusterScoped
	at := "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x/pattern"
	expectLines(t, findingLines(compare(t, old, new, schema.Kubernetes).Rejections()...),
		"error update-refused "+at+" ("+at+"): the API server would reject the update: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
		`error update-refused /spec/scope (/spec/scope): the API server would reject the update: Invalid value: "Cluster": field is immutable`,
	)
	stored, manifest := crdOf(t, `{type: string}`), crdOf(t, `{type: string}`)
	deleted := metav1.Unix(2, 0)
	stored.UID, stored.Generation, stored.CreationTimestamp, stored.DeletionTimestamp = "u", 2, metav1.Unix(1, 0), &deleted
	expectLines(t, findingLines(compare(t, stored, manifest, schema.Kubernetes).Rejections()...))
	manifest.UID = "other"
	expectLines(t, findingLines(compare(t, stored, manifest, schema.Kubernetes).Rejections()...),
		`error update-refused /metadata/uid (/metadata/uid): the API server would reject the update: Invalid value: "other": field is immutable`)
}

// TestOtherSemantics checks that only worse verdicts are reported.
func TestOtherSemantics(t *testing.T) {
	old := crdOf(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {f: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	new := crdOf(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {f: {type: object}}}`)
	at := "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x/properties/f/x-kubernetes-preserve-unknown-fields"
	expectLines(t, findingLines(compare(t, old, new, schema.KEP).OtherSemantics(t.Context())...),
		"info semantics "+at+" ("+at+"): with --semantics kubernetes, stored objects lose data: unknown fields were preserved and are now pruned",
	)
	expectLines(t, findingLines(compare(t, old, new, schema.Kubernetes).OtherSemantics(t.Context())...))
	if got := impact.Removed(old, impact.Options{}).OtherSemantics(t.Context()); got != nil {
		t.Errorf("got %q", findingLines(got...))
	}
}

// TestClassRules checks that every class has a rule with its severity.
func TestClassRules(t *testing.T) {
	severity := map[string]analysis.Severity{}
	for _, r := range impact.Rules() {
		severity[r.ID] = r.Severity
	}
	for class, want := range map[impact.Class]analysis.Severity{
		impact.Loses: analysis.Error, impact.Invalid: analysis.Error, impact.Defaulted: analysis.Warning, impact.Unknown: analysis.Warning, impact.Clients: analysis.Warning, impact.Safe: analysis.Info,
	} {
		if severity[class.ID()] != want {
			t.Errorf("%s is of severity %q", class, severity[class.ID()])
		}
	}
}
