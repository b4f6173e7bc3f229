package object_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// widgets is a CRD whose objects can cause every kind of finding.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema: &schema
        type: object
        properties:
          status: {type: object, properties: {ready: {type: boolean}}}
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "!has(self.min) || !has(self.max) || self.min <= self.max", message: min is above max}
            - {rule: "!has(oldSelf.name) || self.name == oldSelf.name", message: the name cannot change}
            properties:
              name: {type: string, maxLength: 5}
              min: {type: integer}
              max: {type: integer, default: 10}
              tags: {type: array, items: {type: string}, default: [a]}
              port:
                x-kubernetes-int-or-string: true
              either:
                type: object
                properties: {a: {type: string}, b: {type: string}, c: {type: string}}
                anyOf:
                - required: [a]
                - {required: [b, c]}
              both:
                type: string
                allOf: [{maxLength: 2}, {pattern: "^x"}]
              free:
                type: object
                x-kubernetes-preserve-unknown-fields: true
                properties:
                  some: {type: object}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: *schema}
  - name: v0
    served: false
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: *schema}
`

// skipped is the finding about CEL rules that are skipped because the object is invalid.
const skipped = "info validation/rules-skipped : some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func checker(t testing.TB, document string, sem schema.Semantics, locate func(string) analysis.Location) *object.Checker {
	t.Helper()
	return object.New(definition(t, document, sem), object.Options{Document: func() []byte { return toJSON(t, document) }, Locate: locate})
}

func definition(t testing.TB, document string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	decoded, err := codec.DecodeLenient(toJSON(t, document))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(decoded, crd.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// widget returns a Widget with a name and a spec. It does not parse YAML, which cannot have
// duplicate fields.
func widget(spec string) []byte {
	return []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": ` + spec + `}`)
}

// lines formats findings for comparison, one per line, in order.
func lines(findings []analysis.Finding) (all []string) {
	findings = slices.Clone(findings)
	analysis.Sort(findings)
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, f.Pointer, f.Message))
		for _, d := range f.Detail {
			all = append(all, "  "+d)
		}
		if at := f.Schema; at != nil {
			all = append(all, "  schema: "+strings.TrimSpace(cmp.Or(at.Path, "the root of the schema")+" "+at.Position()))
		}
	}
	return all
}

func expect(t *testing.T, got []analysis.Finding, want ...string) {
	t.Helper()
	if got := lines(got); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheck(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	for _, tt := range []struct {
		name, source string
		fields       object.FieldValidation
		want         []string
	}{
		{name: "valid", source: `{"name": "a", "min": 1}`},
		{name: "unknown", source: `{"nam": "a", "min": 1}`, want: []string{
			`warning unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
			`  schema: .properties[spec]`,
		}},
		{name: "unknown, strict", source: `{"nam": "a"}`, fields: object.Strict, want: []string{
			`error unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
			`  schema: .properties[spec]`,
		}},
		{name: "unknown, ignored", source: `{"nam": "a", "min": 1, "min": 2}`, fields: object.Ignore},
		{name: "duplicate", source: `{"min": 1, "min": 2}`, want: []string{
			`warning duplicate-field /spec/min: duplicate field "spec.min": the last one takes effect`,
		}},
		{name: "keyword", source: `{"name": "too long"}`, want: []string{
			skipped,
			`error validation/max-length /spec/name: Too long: may not be more than 5 bytes`,
			`  schema: .properties[spec].properties[name]`,
		}},
		{name: "CEL rule", source: `{"min": 11}`, want: []string{
			`error validation/rule /spec: Invalid value: min is above max`,
			`  rule: !has(self.min) || !has(self.max) || self.min <= self.max`,
		}},
		{name: "anyOf", source: `{"either": {"b": "x"}}`, want: []string{
			skipped,
			`error validation/any-of /spec/either: Invalid value: "": "spec.either" must validate at least one schema (anyOf)`,
			`  anyOf[0] is the closest match, but fails on:`,
			`    spec.either.a: Required value`,
			`  anyOf[1] fails on:`,
			`    spec.either.c: Required value`,
			`  schema: .properties[spec].properties[either]`,
		}},
		{name: "allOf", source: `{"both": "yes"}`, want: []string{
			skipped,
			`error validation/max-length /spec/both: Too long: may not be more than 2 bytes`,
			`  schema: .properties[spec].properties[both].allOf[0]`,
			`error validation/pattern /spec/both: Invalid value: "yes": spec.both in body should match '^x'`,
			`  schema: .properties[spec].properties[both].allOf[1]`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, c.Check(t.Context(), widget(tt.source), nil, tt.fields), tt.want...)
		})
	}
}

// TestCheckParts checks which part of a field a finding is about.
func TestCheckParts(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	want := map[string]analysis.Part{
		object.RuleUnknownField:   analysis.FieldName,
		object.RuleDuplicateField: analysis.RepeatedName,
		"validation/max-length":   analysis.FieldValue,
	}
	seen := 0
	for _, f := range c.Check(t.Context(), widget(`{"name": "too long", "nam": "a", "min": 1, "min": 2}`), nil, object.Warn) {
		if part, ok := want[f.Rule]; ok {
			seen++
			if f.Part != part {
				t.Errorf("%s is about part %d", f.Rule, f.Part)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d findings", seen)
	}
}

// TestCheckRejected checks that Check continues where an API server stops.
func TestCheckRejected(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	source := []byte(`{"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": {"name": "w", "labels": {"a": 1}, "generation": "x"}, "spec": {"name": "too long", "nam": 1}}`)
	expect(t, c.Check(t.Context(), source, nil, object.Warn),
		skipped,
		`error decode /metadata/generation: must be an integer, is the string "x"`,
		`error decode /metadata/labels/a: must be a string, is an integer`,
		`warning unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
		`  schema: .properties[spec]`,
		`error validation/max-length /spec/name: Too long: may not be more than 5 bytes`,
		`  schema: .properties[spec].properties[name]`,
	)
	for _, source := range []string{
		`{"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "w"}}`,
		`{"apiVersion": "example.com/v0", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"nam": 1}}`,
		`{"apiVersion": "example.com/v1"`,
		`[]`,
	} {
		found := c.Check(t.Context(), []byte(source), nil, object.Warn)
		if len(found) != 1 || found[0].Rule != object.RuleDecode || found[0].Severity != analysis.Error {
			t.Errorf("%s: got %q", source, lines(found))
		}
		if stored := c.Prune([]byte(source)); stored.Object != nil || len(stored.Failures) != 1 || stored.Reasons() != nil || stored.Difference() != nil {
			t.Errorf("%s: stored as %v, %q", source, stored.Object, lines(stored.Failures))
		}
	}
}

// TestCheckUpdate compares with the old object, which may be of another version.
func TestCheckUpdate(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	for _, version := range []string{"v1", "v2"} {
		tree, err := jsonx.Parse(widget(`{"name": "too long"}`))
		if err != nil {
			t.Fatal(err)
		}
		old := tree.(map[string]any)
		old["apiVersion"] = "example.com/" + version
		// Ratcheting accepts unchanged values that were already invalid.
		expect(t, c.Check(t.Context(), widget(`{"name": "too long", "min": 1}`), old, object.Warn),
			`info ratcheted /spec/name: Too long: may not be more than 5 bytes; tolerated in an update that does not change the value (ratcheting)`,
			`  schema: .properties[spec].properties[name]`,
		)
		expect(t, c.Check(t.Context(), widget(`{"name": "other"}`), old, object.Warn),
			`error validation/rule /spec: Invalid value: the name cannot change`,
			`  rule: !has(oldSelf.name) || self.name == oldSelf.name`,
		)
		if old["apiVersion"] != "example.com/"+version {
			t.Errorf("the old object was changed to %v", old["apiVersion"])
		}
	}
}

// TestSemantics checks the reported differences between the semantics, from either side.
func TestSemantics(t *testing.T) {
	source := widget(`{"free": {"some": {"extra": 1}, "other": 2}}`)
	for _, tt := range []struct {
		sem  schema.Semantics
		want []string
	}{
		{schema.KEP, []string{
			`info semantics : under kubernetes semantics it would be stored differently`,
			`  spec.free.some.extra is pruned under kubernetes semantics only`,
		}},
		{schema.Kubernetes, []string{
			`info semantics : under kep semantics it would be stored differently`,
			`  spec.free.some.extra is pruned under kubernetes semantics only`,
		}},
	} {
		c := checker(t, widgets, tt.sem, nil)
		expect(t, c.Check(t.Context(), source, nil, object.Ignore), tt.want...)
		expect(t, c.Prune(source).Difference(), tt.want...)
		if same := widget(`{"free": {"other": 2}}`); c.Check(t.Context(), same, nil, object.Warn) != nil || c.Prune(same).Difference() != nil {
			t.Errorf("%s: a difference where there is none", tt.sem)
		}
	}
}

// TestPosition checks the positions of schemas in the text of the CRD, in v1 and v1beta1.
func TestPosition(t *testing.T) {
	beta := `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  preserveUnknownFields: false
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true}]
  validation:
    openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {name: {type: string, maxLength: 5}}}}}
`
	for document, want := range map[string]string{
		widgets: "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
		beta:    "/spec/validation/openAPIV3Schema/properties/spec",
	} {
		c := checker(t, document, schema.Kubernetes, func(pointer string) analysis.Location {
			return analysis.Location{Pointer: pointer, File: "crd.yaml at " + pointer, Line: 1, Column: 2}
		})
		expect(t, c.Check(t.Context(), widget(`{"nam": "a"}`), nil, object.Warn),
			`warning unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
			`  schema: .properties[spec] crd.yaml at `+want+`:1:2`,
		)
	}
}

func TestPrune(t *testing.T) {
	c := checker(t, widgets, schema.Kubernetes, nil)
	source := widget(`{"nam": "a", "max": null, "name": null, "port": "http"}`)
	stored := c.Prune(source)
	expect(t, stored.Reasons(),
		`info defaulted /spec/max: null is not allowed: defaulted to 10`,
		`  schema: .properties[spec].properties[max]`,
		`warning unknown-field /spec/nam: pruned: not specified by the schema; did you mean "name"?`,
		`  schema: .properties[spec]`,
		`info null-dropped /spec/name: removed: null is not allowed`,
		`  schema: .properties[spec].properties[name]`,
		`info defaulted /spec/tags: defaulted to ["a"]`,
		`  schema: .properties[spec].properties[tags]`,
	)
	// The edits turn the text into the stored object.
	edits, err := stored.Edits()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := yamlx.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	edited, err := yamledit.Apply(doc, edits...)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := jsonx.Parse(edited); err != nil || !reflect.DeepEqual(got, any(stored.Object)) {
		t.Errorf("got %s, %v", edited, err)
	}
	// Edits cannot remove a duplicate field.
	if _, err := c.Prune(widget(`{"min": 1, "min": 2}`)).Edits(); err == nil {
		t.Error("edits for a text that has a field twice")
	}
}

// TestPreview checks what remains of objects once a schema is structural.
func TestPreview(t *testing.T) {
	document := `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true}]
  validation:
    openAPIV3Schema:
      properties:
        spec:
          properties: {a: {type: string, default: x}}
          anyOf: [{properties: {b: {type: string}}}]
`
	c := checker(t, document, schema.Kubernetes, nil)
	stored := c.Prune(widget(`{"b": "1", "c": "2"}`))
	if stored.Preview == nil {
		t.Fatal("no preview")
	}
	if f := stored.Preview.Finding; f.Rule != object.RuleNotStructural || f.Pointer != "/spec/validation/openAPIV3Schema" || len(f.Detail) < 2 {
		t.Errorf("got %q", lines([]analysis.Finding{f}))
	}
	if got, _ := json.Marshal(stored.Object["spec"]); string(got) != `{"a":"x","b":"1"}` {
		t.Errorf("stored as %s", got)
	}
	if c.Prune(widget(`{}`)).Preview != stored.Preview {
		t.Error("another object has another preview")
	}
	if structural := checker(t, widgets, schema.Kubernetes, nil).Prune(widget(`{}`)); structural.Preview != nil {
		t.Errorf("a preview by a structural schema: %+v", structural.Preview.Finding)
	}
}

// TestParseFieldValidation parses valid and invalid values.
func TestParseFieldValidation(t *testing.T) {
	for text, want := range map[string]object.FieldValidation{"Warn": object.Warn, "ignore": object.Ignore, "STRICT": object.Strict} {
		if got, err := object.ParseFieldValidation(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	if _, err := object.ParseFieldValidation("true"); err == nil {
		t.Error("true is no field validation")
	}
}

// TestConcurrent uses one Checker from several goroutines.
func TestConcurrent(t *testing.T) {
	c := checker(t, widgets, schema.KEP, nil)
	source := widget(`{"free": {"some": {"extra": 1}}, "nam": 1}`)
	want := lines(checker(t, widgets, schema.KEP, nil).Check(t.Context(), source, nil, object.Warn))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := lines(c.Check(t.Context(), source, nil, object.Warn)); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			c.Prune(source).Difference()
		})
	}
	wg.Wait()
}
