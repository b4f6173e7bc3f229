package object_test

import (
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestBrokenDefinition checks what is said about objects of a CRD whose schemas cannot be compiled:
// here, they have rules, and there is no RuleChecker.
func TestBrokenDefinition(t *testing.T) {
	decoded, err := codec.DecodeLenient(toJSON(t, widgets))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	c := object.New(d, object.Options{})
	problem := schema.ErrRules.Error()
	for _, version := range []string{"v1", "v2"} {
		source := []byte(strings.Replace(string(widget(`{}`)), "/v1", "/"+version, 1))
		if found := c.Check(t.Context(), source, nil, object.Warn); len(found) == 0 || found[0].Rule != object.RuleDecode || found[0].Message != problem {
			t.Errorf("%s: %q", version, lines(found))
		}
		p := c.Prune(source)
		expect(t, p.Failures, "error invalid-definition : "+problem)
		if _, err := p.Edits(); p.Object != nil || p.Reasons() != nil || p.Difference() != nil || err == nil || err.Error() != "the object cannot be decoded" {
			t.Errorf("%s: %v, %v", version, p, err)
		}
	}
}

// TestConverts checks with which old objects an object can be compared.
func TestConverts(t *testing.T) {
	with := func(strategy api.ConversionStrategyType) *object.Checker {
		decoded, err := codec.DecodeLenient(toJSON(t, peers))
		if err != nil {
			t.Fatal(err)
		}
		decoded.Spec.Conversion = nil // as in a CRD that was not read from a file
		if strategy != "" {
			decoded.Spec.Conversion = &api.CustomResourceConversion{Strategy: strategy}
		}
		d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
		if err != nil {
			t.Fatal(err)
		}
		return object.New(d, object.Options{})
	}
	old := func(version string) schema.Object {
		return schema.Object{"apiVersion": "example.com/" + version, "kind": "Peer", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"peerPort": "text"}}
	}
	invalid := []string{
		`error validation/wrong-type /spec/peerPort: Invalid value: "string": spec.peerPort in body must be of type integer: "string"`,
		`  schema: .properties[spec].properties[peerPort]`,
	}
	tolerated := []string{
		`info ratcheted /spec/peerPort: Invalid value: "string": spec.peerPort in body must be of type integer: "string"; ` +
			`tolerated in an update that does not change the value (ratcheting)`,
		`  schema: .properties[spec].properties[peerPort]`,
	}
	source := peer("v1", `{"peerPort": "text"}`)
	for _, tt := range []struct {
		strategy api.ConversionStrategyType
		version  string
		converts bool
		want     []string
	}{
		// An unchanged value that is invalid is accepted.
		{"", "v1", true, tolerated},
		{"", "v2", true, tolerated},
		{api.NoneConverter, "v1", true, tolerated},
		{api.NoneConverter, "v2", true, tolerated},
		{api.NoneConverter, "v0", true, tolerated},
		{api.WebhookConverter, "v1", true, tolerated},
		{api.WebhookConverter, "v2", false, invalid},
	} {
		c := with(tt.strategy)
		if got := c.Converts(old(tt.version), source); got != tt.converts {
			t.Errorf("%s %s: %t", tt.strategy, tt.version, got)
		}
		if !c.Converts(old(tt.version), []byte(`{`)) {
			t.Errorf("%s %s: an object that cannot be read is not compared", tt.strategy, tt.version)
		}
		before := old(tt.version)
		if !tt.converts {
			before = nil // callers then check the object as one that is created
		}
		expect(t, c.Check(t.Context(), source, before, object.Warn), tt.want...)
	}
}

// TestRest checks what is said about an object that cannot be decoded, besides the reason for it.
func TestRest(t *testing.T) {
	c := checker(t, widgets, schema.KEP, nil)
	source := []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "labels": 7, "uid": {}},
		"spec": {"min": 1, "min": 2, "nam": 3}, "status": {"ready": "yes", "other": 1}}`)
	expect(t, c.Check(t.Context(), source, nil, object.Warn),
		skipped,
		`error decode /metadata/labels: must be an object, is an integer`,
		`error decode /metadata/uid: must be a string, is an object`,
		`warning duplicate-field /spec/min: duplicate field "spec.min": the last one takes effect`,
		`warning unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
		`  schema: .properties[spec]`,
		`warning unknown-field /status/other: unknown field "status.other": the API server drops it`,
		`  schema: .properties[status]`,
	)
	embedded := checker(t, thingsWith(`{type: object, properties: {pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`), schema.KEP, nil)
	expect(t, embedded.Check(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "labels": 7},
		"pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": 1}, "finalizers": [2]}}}`), nil, object.Warn),
		`error decode /metadata/labels: must be an object, is an integer`,
		`error decode /pod/metadata/finalizers/0: must be a string, is an integer`,
		`error decode /pod/metadata/labels/a: must be a string, is an integer`,
	)
}

// TestSecondIdentity checks an object with two apiVersions, of which the second takes effect.
func TestSecondIdentity(t *testing.T) {
	c := checker(t, widgets, schema.KEP, nil)
	for _, second := range []string{"apps/v1", "example.com/v9"} {
		source := []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"nam": 3}, "apiVersion": "` + second + `"}`)
		expect(t, c.Check(t.Context(), source, nil, object.Warn),
			`error validation/metadata /apiVersion: Invalid value: "`+second+`": must be example.com/v1`,
			`warning duplicate-field /apiVersion: duplicate field "apiVersion": the last one takes effect`,
			`warning unknown-field /spec/nam: unknown field "spec.nam": the API server drops it; did you mean "name"?`,
			`  schema: .properties[spec]`,
		)
	}
}

// TestSpecifiesNothing checks fields below schemas that specify no fields.
func TestSpecifiesNothing(t *testing.T) {
	c := checker(t, thingsWith(`{type: object, properties: {l: {type: array}, m: {type: object, additionalProperties: true},
		deep: {type: array, items: {type: object, additionalProperties: {type: object, properties: {l: {type: array}}}}}}}`), schema.Kubernetes, nil)
	source := thing(`"l": [{"x": 1}], "m": {"a": {"b": 1}}, "deep": [{"k": {"l": [{"y": 1}]}}], "z": 1`)
	expect(t, c.Check(t.Context(), source, nil, object.Warn),
		`warning unknown-field /deep/0/k/l/0/y: unknown field "deep[0].k.l[0].y": the API server drops it`,
		`  the schema specifies no fields`,
		`  schema: .properties[deep].items.additionalProperties.properties[l]`,
		`warning unknown-field /l/0/x: unknown field "l[0].x": the API server drops it`,
		`  the schema specifies no fields`,
		`  schema: .properties[l]`,
		`warning unknown-field /m/a/b: unknown field "m.a.b": the API server drops it`,
		`  the schema specifies no fields`,
		`  schema: .properties[m].additionalProperties`,
		`warning unknown-field /z: unknown field "z": the API server drops it`,
		`  schema: the root of the schema`,
	)
	expect(t, c.Prune(source).Reasons(),
		`warning unknown-field /deep/0/k/l/0/y: pruned: the schema specifies no fields`,
		`  schema: .properties[deep].items.additionalProperties.properties[l]`,
		`warning unknown-field /l/0/x: pruned: the schema specifies no fields`,
		`  schema: .properties[l]`,
		`warning unknown-field /m/a/b: pruned: the schema specifies no fields`,
		`  schema: .properties[m].additionalProperties`,
		`warning unknown-field /z: pruned: not specified by the schema`,
		`  schema: the root of the schema`,
	)
	root := checker(t, thingsWith(`{type: object, additionalProperties: true}`), schema.Kubernetes, nil)
	expect(t, root.Check(t.Context(), thing(`"a": {"b": 1}`), nil, object.Warn),
		`warning unknown-field /a/b: unknown field "a.b": the API server drops it`,
		`  the schema specifies no fields`,
		`  schema: .additionalProperties`,
	)
}

// TestPreviewKeywords checks which keywords of a draft-4 schema affect the preview.
func TestPreviewKeywords(t *testing.T) {
	document := `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, singular: thing, kind: Thing, listKind: ThingList}
  versions: [{name: v1, served: true, storage: true}]
  validation:
    jsonSchema:
      properties:
        kept: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}
        maybe: {type: string, nullable: true}
        int: {x-kubernetes-int-or-string: true}
        list: {type: array, items: {type: object, properties: {d: {type: string, default: x}}}}
        map: {type: object, additionalProperties: {type: object, properties: {d: {type: string, default: x}}}}
        names: {type: object, patternProperties: {"^a": {type: object}}}
        tuple: {type: array, items: [{type: object, properties: {a: {type: string}}}]}
        rest: {type: array, items: {type: object, properties: {d: {type: string, default: x}}}, additionalItems: {type: object}}
        dangling: {$ref: "#/definitions/none"}
        conflict: {type: object, properties: {a: {type: string}}, additionalProperties: {type: string}}
        reference: {$ref: "#/definitions/thing"}
        either: {oneOf: [{properties: {b: {type: string}}}]}
      definitions: {thing: {type: object, properties: {a: {type: string, default: x}}}}
`
	c := checker(t, document, schema.KEP, nil)
	for fields, want := range map[string]string{
		`"kept": {"a": "1", "b": 2}`:              `{"kept":{"a":"1","b":2}}`,
		`"maybe": null`:                           `{"maybe":null}`,
		`"list": [{"x": 1}]`:                      `{"list":[{"d":"x"}]}`,
		`"map": {"k": {"x": 1}}`:                  `{"map":{"k":{"d":"x"}}}`,
		`"names": {"abc": {"x": 1}}`:              `{"names":{"abc":{"x":1}}}`,
		`"tuple": [{"a": "1", "b": 2}, {"c": 3}]`: `{"tuple":[{"a":"1","b":2},{"c":3}]}`,
		`"rest": [{"x": 1}]`:                      `{"rest":[{"d":"x"}]}`,
		`"dangling": {"a": {"b": 2}}`:             `{"dangling":{"a":{"b":2}}}`,
		`"reference": {"a": "1", "b": 2}`:         `{"reference":{"a":"1"}}`,
		`"either": {"b": "1", "c": 2}`:            `{"either":{"b":"1"}}`,
		`"unknown": 1`:                            `{}`,
	} {
		p := c.Prune(thing(fields))
		if p.Preview == nil {
			t.Fatalf("%s: no preview: %q", fields, lines(p.Failures))
		}
		obj := p.Object
		delete(obj, "metadata")
		delete(obj, "apiVersion")
		delete(obj, "kind")
		if got := text(t, obj); got != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
		if p.Difference() != nil {
			t.Errorf("%s: a preview differs", fields)
		}
	}
	f := c.Prune(thing(`"a": 1`)).Preview.Finding
	if f.Pointer != "/spec/validation/jsonSchema" || !slices.Contains(f.Detail, "not structural: spec.validation.jsonSchema: a schema in the dialect of 2017 is never structural") {
		t.Errorf("%+v", f)
	}
	if last := f.Detail[len(f.Detail)-1]; !strings.HasPrefix(last, "cannot be pruned: conflict: properties and additionalProperties are specified for the same path") {
		t.Errorf("%q", f.Detail)
	}
}
