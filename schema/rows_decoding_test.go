package schema_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/schema"
)

// TestExample4 covers example 4 of the document of 2018: types and properties are checked
// when an object is decoded, pattern and format when it is validated.
func TestExample4(t *testing.T) {
	const text = `{type: object, properties: {a: {type: string, pattern: '^[0-9.]*$', format: ipv4}, b: {type: object, properties: {x: {type: string}, y: {type: string}}}}}`
	t.Run("K-08", func(t *testing.T) {
		decode := func(sem schema.Semantics, object string) (string, []schema.ViolationKind) {
			p := compile(t, text, schema.WithSemantics(sem))
			obj, report, err := p.Decode([]byte(object), schema.DecodeOptions{Report: true})
			var contradiction *schema.ContradictionError
			if errors.As(err, &contradiction) {
				return "contradiction at " + contradiction.Contradictions[0].Path.String(), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			var kinds []schema.ViolationKind
			for _, v := range p.Validate(context.Background(), obj, nil) {
				kinds = append(kinds, v.Kind)
			}
			var dropped []string
			for _, c := range report.Changes {
				dropped = append(dropped, c.Path.String())
			}
			return "dropped " + strings.Join(dropped, ", "), kinds
		}
		for _, tc := range []struct {
			object, kep, kubernetes string
			kinds                   []schema.ViolationKind // with kube-apiserver's, if decoding succeeds in kep
		}{
			{`{"a":5}`, "contradiction at a", "dropped ", []schema.ViolationKind{schema.WrongFormat}},
			{`{"b":[]}`, "contradiction at b", "dropped ", []schema.ViolationKind{schema.WrongType}},
			{`{"b":{"x":5}}`, "contradiction at b.x", "dropped ", []schema.ViolationKind{schema.WrongType}},
			{`{"a":"x","b":{"z":5},"c":1}`, "dropped b.z, c", "dropped b.z, c", []schema.ViolationKind{schema.Pattern, schema.WrongFormat}},
			{`{"a":"127.0.0"}`, "dropped ", "dropped ", []schema.ViolationKind{schema.WrongFormat}},
			{`{"a":"127.0.0.1"}`, "dropped ", "dropped ", nil},
		} {
			result, kinds := decode(schema.KEP, tc.object)
			want := tc.kinds
			if strings.HasPrefix(tc.kep, "contradiction") {
				want = nil
			}
			if result != tc.kep || !slices.Equal(kinds, want) {
				t.Errorf("kep: %s: got %s, violations %v", tc.object, result, kinds)
			}
			if result, kinds = decode(schema.Kubernetes, tc.object); result != tc.kubernetes || !slices.Equal(kinds, tc.kinds) {
				t.Errorf("kubernetes: %s: got %s, violations %v", tc.object, result, kinds)
			}
		}
	})
}

// TestEmptySchemas compares {}, true and an absent schema wherever they are allowed.
func TestEmptySchemas(t *testing.T) {
	objects := []string{`{}`, `{"a":null}`, `{"a":1}`, `{"a":"x"}`, `{"a":{}}`, `{"a":{"b":{"c":[1,{"d":null}]}}}`, `{"a":[]}`, `{"a":[1,"x",{"b":[]},null,true]}`}
	t.Run("P-25", func(t *testing.T) {
		for _, place := range []struct {
			name, schema string
			draft4       bool
		}{
			{name: "additionalProperties", schema: `{properties: {a: {%s}}}`},
			{name: "additionalProperties in a logical operator", schema: `{properties: {a: {allOf: [{%s}]}}}`},
			{name: "additionalProperties", schema: `{properties: {a: {%s}}}`, draft4: true},
			{name: "additionalProperties of the root", schema: `{%s}`, draft4: true},
			{name: "additionalItems", schema: `{properties: {a: {items: [{}], %s}}}`, draft4: true},
		} {
			keyword, _, _ := strings.Cut(place.name, " ")
			for _, sem := range both {
				for _, spelling := range []string{keyword + ": {}", keyword + ": true", ""} {
					s := props(t, fmt.Sprintf(place.schema, spelling))
					var p *schema.Program
					var err error
					if place.draft4 {
						p, err = schema.CompileJSONSchema(s, schema.WithSemantics(sem), schema.WithPreserveUnknownFields())
					} else {
						p = compile(t, fmt.Sprintf(place.schema, spelling), schema.WithSemantics(sem))
					}
					if err != nil {
						t.Fatal(err)
					}
					for _, o := range objects {
						if got := errorsOf(p, object(t, o), nil); len(got) > 0 {
							t.Errorf("%s, %s: %q rejects %s: %s", place.name, sem, spelling, o, got)
						}
					}
				}
			}
		}
		// An absent schema of a map keeps nothing (P-01). The other two keep the same.
		for _, sem := range both {
			for _, spelling := range []string{"{}", "true"} {
				p := compile(t, `{type: object, properties: {a: {type: object, additionalProperties: `+spelling+`}}}`, schema.WithSemantics(sem))
				obj, _, err := p.Decode([]byte(`{"a":{"b":{"c":1},"d":2},"e":3}`), schema.DecodeOptions{})
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, obj, `{"a":{"b":{},"d":2}}`)
			}
		}
		for place, schemas := range map[string][]string{
			"properties":        {`{properties: {a: {}}}`, `{}`},
			"items":             {`{properties: {a: {items: {}}}}`, `{}`},
			"patternProperties": {`{patternProperties: {a: {}}}`, `{}`},
			"dependencies":      {`{dependencies: {a: {}}}`, `{}`},
			"definitions":       {`{properties: {a: {$ref: "#/definitions/x"}}, definitions: {x: {}}}`, `{}`},
			"allOf":             {`{properties: {a: {allOf: [{}]}}}`, `{}`},
			"anyOf":             {`{properties: {a: {anyOf: [{}]}}}`, `{}`},
			"oneOf":             {`{properties: {a: {oneOf: [{}]}}}`, `{}`},
		} {
			for _, s := range schemas {
				p, err := schema.CompileJSONSchema(props(t, s), schema.WithSemantics(schema.KEP), schema.WithPreserveUnknownFields())
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					if got := errorsOf(p, object(t, o), nil); len(got) > 0 {
						t.Errorf("%s: %s rejects %s: %s", place, s, o, got)
					}
				}
			}
		}
	})
}
