package object_test

import (
	"slices"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestOtherSemanticsFails checks objects of a CRD that only one of the semantics reads: the other knows
// the annotation with a schema, which is none. There is nothing to compare with.
func TestOtherSemanticsFails(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}, count: {type: integer}}}`,
		`{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {count: {type: integer}}}`,
	} {
		document := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
metadata: {name: things.example.com, annotations: {espalier.dev/json-schema: text}},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: ` + spec + `}}]}}`
		c := checker(t, document, schema.Kubernetes, nil)
		for fields, want := range map[string][]string{
			`"count": 1`: nil,
			`"count": ""`: {`error validation/wrong-type /count: Invalid value: "string": count in body must be of type integer: "string"`,
				`  schema: .properties[count]`},
		} {
			expect(t, c.Check(t.Context(), thing(fields), nil, object.Warn), want...)
			p := c.Prune(thing(fields))
			expect(t, p.Failures)
			expect(t, p.Difference())
		}
	}
}

// TestEmbeddedNames checks that all values of a wrong type are reported, also in embedded resources.
func TestEmbeddedNames(t *testing.T) {
	t.Parallel()
	c := checker(t, thingsWith(`{type: object, properties: {e: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`), schema.KEP, nil)
	expect(t, c.Check(t.Context(), []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": 1.5},
		"e": {"apiVersion": 1, "kind": null, "metadata": {"name": true, "labels": {"a": {}}}}}`), nil, object.Warn),
		`error decode /e/apiVersion: must be a string, is an integer`,
		`error decode /e/kind: must be a string, is null`,
		`error decode /e/metadata/labels/a: must be a string, is an object`,
		`error decode /e/metadata/name: must be a string, is a boolean`,
		`error decode /metadata/name: must be a string, is a number`,
	)
}

// TestOriginalSchema checks which schema is that of a version.
func TestOriginalSchema(t *testing.T) {
	t.Parallel()
	c := definition(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [
{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {description: one}}},
{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {description: two}}},
{name: v3, served: true, storage: false}]}}`, schema.Kubernetes).CRD()
	for version, want := range map[string]string{"v1": "one", "v2": "two", "v3": "", "v4": ""} {
		if s := object.OriginalSchema(c, version); (s == nil) != (want == "") || s != nil && s.Description != want {
			t.Errorf("%s: %v", version, s)
		}
	}
	if err := api.SetLegacySchema(c, &api.JSONSchemaProps{Description: "legacy"}); err != nil {
		t.Fatal(err)
	}
	if s := object.OriginalSchema(c, "v2"); s == nil || s.Description != "legacy" {
		t.Errorf("with a draft-4 schema: %v", s)
	}
	c.Annotations[api.JSONSchemaAnnotation] = "text"
	if s := object.OriginalSchema(c, "v2"); s == nil || s.Description != "two" {
		t.Errorf("with an annotation that is no schema: %v", s)
	}
}

// TestForgotten checks that the preview of a version uses the text of the CRD if the Definition does not keep
// the schemas, even if only a part of the text can be read.
func TestForgotten(t *testing.T) {
	t.Parallel()
	document := func(more string) string {
		return `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, preserveUnknownFields: false, ` + more + `names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true}],
validation: {openAPIV3Schema: {properties: {a: {type: string}}, anyOf: [{properties: {b: {type: string}}}]}}}}`
	}
	decoded, err := codec.DecodeLenient(toJSON(t, document("")))
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		text, want string
	}{
		"readable":  {document(""), `{"a":"x","b":"y"}`},
		"malformed": {document("prune: text, "), `{"a":"x","b":"y"}`},
		"no CRD":    {`[]`, `{}`},
	} {
		d, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true, Forget: true})
		if err != nil {
			t.Fatal(err)
		}
		p := object.New(d, object.Options{Document: func() []byte { return toJSON(t, tt.text) }}).Prune(thing(`"a": "x", "b": "y", "c": "z"`))
		if p.Preview == nil {
			t.Fatalf("%s: no preview: %q", name, lines(p.Failures))
		}
		for _, k := range []string{"apiVersion", "kind", "metadata"} {
			delete(p.Object, k)
		}
		if got := text(t, p.Object); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// TestNoStorageVersion checks objects of a CRD without a storage version: they are not converted.
func TestNoStorageVersion(t *testing.T) {
	t.Parallel()
	c := checker(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: false,
schema: {openAPIV3Schema: {type: object}}}]}}`, schema.Kubernetes, nil)
	expect(t, c.Check(t.Context(), thing(`"a": 1`), nil, object.Warn),
		`warning unknown-field /a: unknown field "a": the API server drops it`, `  schema: the root of the schema`)
	expect(t, c.PruneStored(thing(`"a": 1`)).Failures)
}

// TestStrayValidation checks that schemas are located by the version of the CRD, not by fields that v1 does not
// have.
func TestStrayValidation(t *testing.T) {
	t.Parallel()
	c := checker(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, validation: {openAPIV3Schema: {type: object}},
versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}`, schema.Kubernetes, func(pointer string) analysis.Location {
		return analysis.Location{Pointer: pointer, File: pointer, Line: 1, Column: 1}
	})
	expect(t, c.Check(t.Context(), thing(`"a": 1`), nil, object.Warn),
		`warning unknown-field /a: unknown field "a": the API server drops it`,
		`  schema: the root of the schema /spec/versions/0/schema/openAPIV3Schema:1:1`)
}

// TestDifferingKeywords checks that objects are compared with the other semantics for each keyword that
// the two define differently.
func TestDifferingKeywords(t *testing.T) {
	t.Parallel()
	const rejected, accepted = `info semantics : under kep semantics it would be rejected`, `info semantics : under kep semantics it would be accepted`
	for _, tt := range []struct{ schema, fields, want string }{
		{`{type: object, properties: {a: {type: string}}, additionalProperties: false}`, `"a": "x"`, accepted},
		{`{type: object, properties: {u: {type: object, properties: {a: {type: string}, b: {type: string}},
			x-kubernetes-unions: [{fields: {a: A, b: B}}]}}}`, `"u": {"a": "x", "b": "y"}`, rejected},
		{`{type: object, properties: {l: {type: array, items: {type: object, additionalProperties: {type: object, properties: {a: {type: string}, b: {type: string}},
			x-kubernetes-unions: [{fields: {a: A, b: B}}]}}}}}`, `"l": [{"k": {"a": "x", "b": "y"}}]`, rejected},
	} {
		found := slices.DeleteFunc(checker(t, thingsWith(tt.schema), schema.Kubernetes, nil).Check(t.Context(), thing(tt.fields), nil, object.Warn),
			func(f analysis.Finding) bool { return f.Rule != object.RuleSemantics })
		if got := lines(found); len(got) == 0 || got[0] != tt.want {
			t.Errorf("%s: %q", tt.schema, got)
		}
	}
}

// TestDifferingStatus checks that an object is compared with the other semantics because of its status alone: one
// drops it before it checks the types.
func TestDifferingStatus(t *testing.T) {
	t.Parallel()
	c := checker(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, subresources: {status: {}},
schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {ready: {type: boolean}}}}}}}]}}`, schema.Kubernetes, nil)
	expect(t, c.Check(t.Context(), thing(`"status": {"ready": true}`), nil, object.Warn))
	expect(t, c.Check(t.Context(), thing(`"status": {"ready": "yes"}`), nil, object.Warn),
		`info semantics : under kep semantics it would be rejected`,
		`  status.ready in body must be of type boolean: "string"`)
}
