package impact_test

import (
	"fmt"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/schema"
)

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

// TestRejectedElsewhere checks that an update is reported that only the other semantics rejects.
func TestRejectedElsewhere(t *testing.T) {
	old := crdOf(t, `{type: object, properties: {a: {type: string}}}`)
	new := crdOf(t, `{type: object, properties: {a: {type: string}}, not: {properties: {b: {}}}}`)
	expectLines(t, findingLines(compare(t, old, new, schema.Kubernetes).OtherSemantics(t.Context())...),
		"info semantics  (): with --semantics kep, the API server would reject the update: spec.validation.openAPIV3Schema.properties[spec].properties[x].properties[b]: Required value: because it is defined in "+
			"spec.validation.openAPIV3Schema.properties[spec].properties[x].not.properties[b]")
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

// TestMergeCRDs checks the findings that stand for equal changes in several fields and CRDs.
func TestMergeCRDs(t *testing.T) {
	findings := func(name string) (all []impact.Finding) {
		old, new := crdOf(t, `{type: object, properties: {a: {type: integer, maximum: 5}, b: {type: integer, maximum: 5}}}`), crdOf(t, `{type: object, properties: {a: {type: integer, maximum: 4}, b: {type: integer, maximum: 4}}}`)
		old.Name, new.Name = name, name
		c := compare(t, old, new, schema.Kubernetes)
		for i := range c.Changes {
			all = append(all, c.Finding(&c.Changes[i]))
		}
		return all
	}
	one, two := findings("ones.example.com"), findings("twos.example.com")
	const details = "  clients may break: writes of such values are rejected"
	const lenient = "  stored objects can still be read and deleted; updates are accepted unless they change the field, or a list that it is in"
	pointer := "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/x/properties/a/maximum"
	for _, tt := range []struct {
		findings []impact.Finding
		path     string
		want     []string
	}{
		{one, "", []string{"error invalid " + pointer + " (" + pointer + "): stored objects may become invalid: maximum 5 → 4, in 2 fields", details, lenient}},
		{append(one[:2:2], two...), "", []string{"error invalid " + pointer + " (" + pointer + "): stored objects may become invalid: maximum 5 → 4, in 4 fields of 2 CRDs", details, lenient}},
		{append(one[:1:1], two[0]), "v1: spec.x.a", []string{"error invalid " + pointer + " (" + pointer + "): stored objects may become invalid: maximum 5 → 4, in 2 CRDs", details, "  stored objects can still be read and deleted; updates are accepted unless they change the field, or a list that it is in"}},
		{one[:1], "v1: spec.x.a", []string{"error invalid " + pointer + " (" + pointer + "): stored objects may become invalid: maximum 5 → 4", details, "  stored objects can still be read and deleted; updates are accepted unless they change spec.x.a"}},
	} {
		merged := impact.Merge(tt.findings)
		expectLines(t, findingLines(merged), tt.want...)
		if merged.Path != tt.path {
			t.Errorf("the path is %q, want %q", merged.Path, tt.path)
		}
	}
}

// TestMergeOne checks that a finding stands for itself, even if its path has neither a version nor a field.
func TestMergeOne(t *testing.T) {
	old, new := crdOf(t, `{type: string}`), crdOf(t, `{type: string}`)
	old.Name = "others.example.com"
	names := compare(t, old, new, schema.Kubernetes).Names()
	if len(names) != 1 {
		t.Fatalf("got %q", findingLines(names...))
	}
	if merged := impact.Merge(names); merged.Path != "metadata.name" || merged.Message != names[0].Message {
		t.Errorf("got %q at %q", findingLines(merged), merged.Path)
	}
}
