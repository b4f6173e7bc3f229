package impact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// crdOf returns a CRD with the schema x of spec.x.
func crdOf(t *testing.T, x string) *api.CustomResourceDefinition {
	t.Helper()
	return defined(t, x, "")
}

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

// TestAddedAndRemoved checks CRDs that only one side has: removing one deletes all objects.
func TestAddedAndRemoved(t *testing.T) {
	c := crdOf(t, `{type: string}`)
	removed := impact.Removed(c, impact.Options{})
	objects := removed.Objects(1)
	for i := range 3 {
		if err := objects.Add(t.Context(), fmt.Sprintf("object %d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	expectLines(t, findingLines(objects.ChangeFinding(0)),
		"error loses-data  (): stored objects lose data: CRD removed: deleting it deletes all its objects", "  clients may break", "  affects 3 of 3 objects:", "    object 0", "    and 2 more")
	if removed.Class() != impact.Loses || objects.Tried != 3 || objects.Classes[impact.Loses] != 3 || removed.Names() != nil {
		t.Errorf("the class is %s, %d objects, %v", removed.Class(), objects.Tried, objects.Classes)
	}
	added := impact.Added(c, impact.Options{})
	objects = added.Objects(0)
	if err := objects.Add(t.Context(), "object", nil); err != nil || objects.Tried != 0 || added.Class() != impact.Safe {
		t.Errorf("%v, %d objects, class %s", err, objects.Tried, added.Class())
	}
	expectLines(t, findingLines(objects.ChangeFinding(0)), "info safe  (): safe: CRD added")
	for _, c := range []*impact.Comparison{removed, added} {
		if paths, err := c.Revealed([]byte(`{}`)); paths != nil || err != nil {
			t.Errorf("%v, %v", paths, err)
		}
		if _, err := c.Try(t.Context(), object(t, "a")); err != impact.ErrOtherKind {
			t.Errorf("got %v", err)
		}
	}
}

// TestClassNames checks the words for all classes.
func TestClassNames(t *testing.T) {
	var got []string
	for _, c := range impact.Classes() {
		got = append(got, fmt.Sprintf("%s, %s, %s, %s: %s", c.ID(), c, c.Observed(), c.Severity(), c.Summary()))
	}
	expectLines(t, got,
		"loses-data, stored objects lose data, lose data, error: Stored objects lose data: fields are pruned, or nulls dropped.",
		"invalid, stored objects may become invalid, invalid, error: Stored objects may become invalid: validation is new or stricter.",
		"defaulted, newly defaulted, newly defaulted, warning: Objects get new defaults, or different ones.",
		"unknown-fields, unknown fields may become invalid, invalid unknown fields, warning: Unknown fields that were kept are now validated.",
		"clients-break, clients may break, no longer defaulted, warning: Clients may break: requests are rejected, or responses have new values.",
		"safe, safe, unaffected, info: None of these effects.")
}

// TestCovers checks which paths of objects an effect explains.
func TestCovers(t *testing.T) {
	field := func(name string) schema.SchemaStep {
		return schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: name}
	}
	items, values := schema.SchemaStep{Keyword: "items"}, schema.SchemaStep{Keyword: "additionalProperties"}
	key := func(name string) schema.Step { return schema.Step{Key: name} }
	index := schema.Step{Index: 1, Kind: schema.Index}
	for _, tt := range []struct {
		effect schema.SchemaPath
		at     schema.Path
		want   bool
	}{
		{nil, nil, true}, {nil, schema.Path{key("a")}, true}, {schema.SchemaPath{field("a")}, nil, false},
		{schema.SchemaPath{field("a")}, schema.Path{key("a"), key("b")}, true}, {schema.SchemaPath{field("a")}, schema.Path{key("b")}, false},
		{schema.SchemaPath{field("")}, schema.Path{index}, false},
		{schema.SchemaPath{items}, schema.Path{index}, true}, {schema.SchemaPath{items}, schema.Path{key("a")}, false},
		{schema.SchemaPath{values}, schema.Path{key("a")}, true}, {schema.SchemaPath{values}, schema.Path{index}, false},
		{schema.SchemaPath{field("a"), items}, schema.Path{key("a"), index}, true}, {schema.SchemaPath{field("a"), items}, schema.Path{key("a")}, false},
	} {
		e := impact.Effect{Path: tt.effect}
		if got := e.Covers(tt.at); got != tt.want {
			t.Errorf("%v at %v: got %t", tt.effect, tt.at, got)
		}
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

// TestOrder checks that groups are ordered by severity, by whether objects are affected, and by class.
func TestOrder(t *testing.T) {
	finding := func(rule string, class impact.Class, severity analysis.Severity, affected int) impact.Finding {
		return impact.Finding{Finding: analysis.Finding{Rule: rule, Severity: severity}, Class: class, Affected: affected}
	}
	var got []string
	for _, group := range impact.Group([]impact.Finding{
		finding("safe", impact.Safe, analysis.Info, 0), finding("clients-break", impact.Clients, analysis.Warning, 0), finding(impact.RuleRevealed, impact.Safe, analysis.Warning, 0),
		finding("defaulted", impact.Defaulted, analysis.Warning, 0), finding("loses-data", impact.Loses, analysis.Error, 0), finding(impact.RuleRefused, impact.Safe, analysis.Error, 0),
		finding("invalid", impact.Invalid, analysis.Error, 1),
	}) {
		for _, f := range group {
			got = append(got, f.Rule)
		}
	}
	expectLines(t, got, "invalid", "update-refused", "loses-data", "defaulted", "revealed", "clients-break", "safe")
}

// unevaluated returns the finding about an object on which a new rule is not evaluated.
func unevaluated(t *testing.T, config impact.Config) []impact.Finding {
	t.Helper()
	c, err := impact.Compare(t.Context(), crdOf(t, `{type: integer}`), crdOf(t, `{type: integer, x-kubernetes-validations: [{rule: self > 1}]}`),
		impact.Options{Semantics: schema.KEP, Rules: cel.Checker{}, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	o := c.Objects(0)
	if got := o.Unevaluated(); got != nil {
		t.Errorf("without objects: %q", findingLines(got...))
	}
	if err := o.Add(t.Context(), "a", object(t, "text")); err != nil {
		t.Fatal(err)
	}
	return o.Unevaluated()
}

// allFindings returns the findings about all changes.
func allFindings(c *impact.Comparison) (all []impact.Finding) {
	o := c.Objects(0)
	for i := range c.Changes {
		all = append(all, o.ChangeFinding(i))
	}
	return all
}

// mergedLines returns the groups of findings that are not safe.
func mergedLines(findings []impact.Finding) (lines []string) {
	for _, group := range impact.Group(findings) {
		if f := impact.Merge(group); f.Class != impact.Safe {
			lines = append(lines, fmt.Sprintf("%d %s: %s", len(group), f.Path, f.Message))
		}
	}
	return lines
}

// TestGroupCRDs checks that equal changes of several CRDs are one finding, unless they may affect
// the objects of a CRD as a whole.
func TestGroupCRDs(t *testing.T) {
	var findings []impact.Finding
	for _, name := range []string{"things", "others"} {
		old := crdOf(t, `{type: object, properties: {a: {type: string}, b: {type: integer}, c: {type: integer}}}`)
		new := crdOf(t, `{type: object, properties: {a: {type: string, maxLength: 5}, b: {type: integer, maximum: 4}, c: {type: integer, maximum: 4}}}`)
		old.Name, new.Name = name+".example.com", name+".example.com"
		old.Spec.Names.Categories = []string{"all"}
		new.Spec.Scope = "Cluster"
		c := compare(t, old, new, schema.KEP)
		findings = append(findings, allFindings(c)...)
		findings = append(findings, c.Rejections()...)
		findings = append(findings, allFindings(impact.Removed(old, impact.Options{}))...)
	}
	expectLines(t, mergedLines(slices.DeleteFunc(slices.Clone(findings), func(f impact.Finding) bool { return f.Rule == impact.RuleRefused })),
		"1 : stored objects lose data: scope Namespaced → Cluster",
		"1 : stored objects lose data: CRD removed: deleting it deletes all its objects",
		"1 : stored objects lose data: scope Namespaced → Cluster",
		"1 : stored objects lose data: CRD removed: deleting it deletes all its objects",
		"2 v1: spec.x.a: stored objects may become invalid: maxLength none → 5, in 2 CRDs",
		"4 : stored objects may become invalid: maximum none → 4, in 4 fields of 2 CRDs",
		"2 : clients may break: category all removed, in 2 CRDs",
	)
	first := impact.Merge(impact.Group(findings)[0])
	expectLines(t, []string{first.Path, first.Message}, "spec.scope",
		`the API server would reject the update: Invalid value: "Cluster": field is immutable, in 2 CRDs`)
}

// TestGroupAffected checks that changes that affect objects come first and are grouped only in
// several versions of a field, and that their verdict can be the effect on the objects.
func TestGroupAffected(t *testing.T) {
	fields := func(length, others string) string {
		return fmt.Sprintf(`{type: object, properties: {a: {type: string%[1]s}, b: {type: string%[1]s}, c: {type: string%[1]s}, d: {type: object, properties: {e: {type: string%[2]s}}}}}`, length, others)
	}
	version := func(name, storage, x string) string {
		return `{name: ` + name + `, served: true, storage: ` + storage + `, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: ` + x + `}}}}}}`
	}
	after := fields(", maxLength: 5", ", default: x, maxLength: 2")
	old := crdOf(t, fields("", ""))
	new := defined(t, "", "{versions: ["+version("v1", "false", after)+", "+version("v2", "true", after)+"]}")
	o := compare(t, old, new, schema.KEP).Objects(0)
	for name, spec := range map[string]string{"p": `{"a": "too long", "c": "too long", "d": {}}`, "q": `{"a": "short"}`} {
		if err := o.Add(t.Context(), name, object(t, spec)); err != nil {
			t.Fatal(err)
		}
	}
	var all, affected []impact.Finding
	for i := range o.Changes {
		all = append(all, o.ChangeFinding(i))
		if f, ok := o.AffectedFinding(i); ok {
			affected = append(affected, f)
		}
	}
	expectLines(t, mergedLines(all),
		"2 v1, v1 → v2: spec.x.a: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.c: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.b: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.d.e: stored objects may become invalid: maxLength none → 2",
		"2 v1, v1 → v2: spec.x.d.e: newly defaulted: default x added",
	)
	expectLines(t, mergedLines(affected),
		"2 v1, v1 → v2: spec.x.a: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.c: stored objects may become invalid: maxLength none → 5",
		"2 v1, v1 → v2: spec.x.d.e: newly defaulted: default x added",
	)
	if got := impact.Merge(impact.Group(all)[0]).Detail; slices.Contains(got, "affects none of 2 objects") || !slices.Contains(got, "affects 1 of 2 objects:") {
		t.Errorf("got %q", got)
	}
}

// TestAffectedFinding checks that a change that may do worse gets the verdict of what it does.
func TestAffectedFinding(t *testing.T) {
	crd := func(b string) *api.CustomResourceDefinition {
		return crdOf(t, `{type: object, properties: {b: `+b+`, c: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.b) || self.b != 'x' || has(self.c)"}]}`)
	}
	o := compare(t, crd(`{type: string}`), crd(`{type: string, default: x}`), schema.KEP).Objects(0)
	add := func(name, x string) {
		if err := o.Add(t.Context(), name, object(t, x)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(class impact.Class, severity analysis.Severity, details ...string) {
		t.Helper()
		if f := o.ChangeFinding(0); f.Class != impact.Invalid || f.Severity != analysis.Error {
			t.Errorf("the verdict is %s", f.Class)
		}
		f, ok := o.AffectedFinding(0)
		if ok != (class != impact.Safe) || f.Class != class || f.Severity != severity || ok && f.Rule != class.ID() {
			t.Errorf("got %t, %+v", ok, f)
		}
		expectLines(t, f.Detail, details...)
	}
	expect(impact.Safe, "")
	add("unaffected", `{"b": "y"}`)
	expect(impact.Safe, "")
	add("p", `{"c": "y"}`)
	expect(impact.Defaulted, analysis.Warning, "affects 1 of 2 objects:", "  p: spec.x.b is defaulted")
	add("q", `{}`)
	const reason = "stored objects may become invalid: rule !has(self.b) || self.b != 'x' || has(self.c) of spec.x may no longer hold"
	expect(impact.Invalid, analysis.Error, reason, "newly defaulted",
		"stored objects can still be read and deleted; updates are accepted unless they change spec.x",
		"affects 1 of 3 objects:", "  q: spec.x: Invalid value: failed rule: !has(self.b) || self.b != 'x' || has(self.c); spec.x.b is defaulted",
		"newly defaulted: 1 of 3 objects:", "  p: spec.x.b is defaulted")
}

// TestMergeOne checks that a finding stands for itself, even if its path has neither a version nor a field.
func TestMergeOne(t *testing.T) {
	names := compare(t, crdOf(t, `{type: string}`), defined(t, `{type: string}`, "{metadata: {name: others.example.com}}"), schema.Kubernetes).Names()
	if len(names) != 1 {
		t.Fatalf("got %q", findingLines(names...))
	}
	if merged := impact.Merge(names); merged.Path != "metadata.name" || merged.Message != names[0].Message {
		t.Errorf("got %q at %q", findingLines(merged), merged.Path)
	}
}
