package lint

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// verdictsOf returns the errors of a CRD in both semantics, as Differences compares them.
func verdictsOf(t *testing.T, c *api.CustomResourceDefinition) (kep, kubernetes sets.Set[string]) {
	t.Helper()
	d, err := of(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(sem schema.Semantics) sets.Set[string] {
		all := sets.Set[string]{}
		for _, e := range d.validate(context.Background(), crd.Options{Semantics: sem, IgnoreRules: true}) {
			all.Insert(e.Field + " " + string(e.Type))
		}
		return all
	}
	return ids(schema.KEP), ids(schema.Kubernetes)
}

func withSchema(t *testing.T, props string) *api.CustomResourceDefinition {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example.com},
spec: {group: example.com, scope: Namespaced, names: {plural: a, kind: A}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: ` + props + `}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAcceptedAlike checks that CRDs that are assumed to have the same errors in both semantics
// have them.
func TestAcceptedAlike(t *testing.T) {
	field := func(s string) string { return `{type: object, properties: {f: ` + s + `}}` }
	tests := []struct {
		name, props string
		want        bool
	}{
		{"plain", field(`{type: string, pattern: a}`), true},
		{"wrong in both", field(`{type: string, minLength: 1, x-kubernetes-list-type: set}`), true},
		{"int-or-string", field(`{x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}], default: 25%}`), true},
		{"oneOf of int-or-string", field(`{x-kubernetes-int-or-string: true, oneOf: [{type: integer}, {type: string}]}`), false},
		{"deep incompleteness", field(`{type: object, properties: {c: {type: string}}, not: {properties: {b: {}}}}`), false},
		{"additionalProperties under anyOf", field(`{type: object, properties: {b: {type: string}}, anyOf: [{additionalProperties: false}]}`), false},
		{"embedded resource", field(`{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}`), false},
		{"unions", `{type: object, properties: {a: {type: string}, t: {type: string}}, x-kubernetes-unions: [{discriminator: t, fields: {a: A}}]}`, false},
		{"default", field(`{type: string, enum: [a, b], default: a}`), true},
		{"default of an integer", field(`{type: integer, format: int32, minimum: 1, maximum: 3, default: 3}`), true},
		{"default out of bounds", field(`{type: integer, minimum: 1, exclusiveMinimum: true, default: 1}`), false},
		{"default in open bounds", field(`{type: integer, minimum: 1, exclusiveMinimum: true, maximum: 5, exclusiveMaximum: true, default: 3}`), true},
		{"default at the bounds", field(`{type: integer, format: int64, minimum: 3, maximum: 3, default: 3}`), true},
		{"default above the bounds", field(`{type: integer, maximum: 2, default: 3}`), false},
		{"default at an open bound", field(`{type: integer, maximum: 3, exclusiveMaximum: true, default: 3}`), false},
		{"default below the bounds", field(`{type: integer, minimum: 4, default: 3}`), false},
		{"largest default", field(`{type: integer, default: 2147483647}`), true},
		{"default that is too large", field(`{type: integer, default: 2147483648}`), false},
		{"smallest default", field(`{type: integer, default: -2147483648}`), true},
		{"default that is too small", field(`{type: integer, default: -2147483649}`), false},
		{"integer of int-or-string", field(`{x-kubernetes-int-or-string: true, default: 5}`), true},
		{"string of any type", field(`{x-kubernetes-preserve-unknown-fields: true, default: a}`), false},
		{"integer of any type", field(`{x-kubernetes-preserve-unknown-fields: true, default: 5}`), false},
		{"default of a number", field(`{type: number, default: 1.5}`), false},
		{"default of a list", field(`{type: array, items: {type: string}, default: []}`), false},
		{"default of a boolean", field(`{type: boolean, default: true}`), true},
		{"default of a string with a length", field(`{type: string, minLength: 1, default: a}`), false},
		{"default of a boolean in an enum", field(`{type: boolean, enum: [true], default: true}`), true},
		{"default of another type", field(`{type: integer, default: a}`), false},
		{"default not in the enum", field(`{type: string, enum: [b], default: a}`), false},
		{"default with an unknown format", field(`{type: integer, format: x, default: 1}`), false},
		{"default of an object", field(`{type: object, properties: {a: {type: string}}, default: {a: b}}`), false},
		{"default of an empty object", field(`{type: object, properties: {a: {type: string, default: b}}, default: {}}`), true},
		{"default that lacks a required field", field(`{type: object, required: [a], properties: {a: {type: string}}, default: {}}`), false},
		{"default under anyOf", field(`{x-kubernetes-int-or-string: true, anyOf: [{pattern: b}, {minimum: 1}], default: a}`), false},
		{"default in metadata", `{type: object, properties: {metadata: {type: object, properties: {name: {type: string, default: a}}}}}`, false},
		{"default at the root", `{type: object, default: {}, properties: {f: {type: string}}}`, false},
		{"default that is null", field(`{type: string, minLength: 1, nullable: true, default: null}`), true},
		{"default of a string that is an empty object", field(`{type: string, default: {}}`), false},
		{"default of a string that is a boolean", field(`{type: string, default: true}`), false},
		{"default of an excluded boolean", field(`{type: boolean, not: {enum: [true]}, default: true}`), false},
		{"default of a string that is an integer", field(`{type: string, default: 5}`), false},
		{"not structural", field(`{}`), false},
		{"not convertible", field(`{type: object, patternProperties: {a: {type: string}}}`), false},
		{"benchmark", string(testcase.Medium().Schema), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := withSchema(t, tt.props)
			if got := decoded(c).acceptedAlike(); got != tt.want {
				t.Fatalf("got %v", got)
			}
			if kep, kubernetes := verdictsOf(t, c); tt.want && !kep.Equal(kubernetes) {
				t.Errorf("kep: %v\nkubernetes: %v", kep, kubernetes)
			}
		})
	}
	c := withSchema(t, `{type: object}`)
	for name, change := range map[string]func(*api.CustomResourceDefinition){
		"preserveUnknownFields": func(c *api.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true },
		"no schema":             func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Schema = nil },
		"jsonSchema": func(c *api.CustomResourceDefinition) {
			c.Annotations = map[string]string{api.JSONSchemaAnnotation: "{}"}
		},
	} {
		changed := c.DeepCopy()
		change(changed)
		if decoded(changed).acceptedAlike() {
			t.Errorf("%s: got true", name)
		}
	}
}

// differencesOfText returns the differences in a CRD that both semantics accept, encoded and
// decoded again.
func differencesOfText(t *testing.T, in *api.CustomResourceDefinition) []analysis.Finding {
	t.Helper()
	c := newCheck(defaultSelection(), schema.KEP)
	var err error
	if c.d, err = of(in); err != nil {
		t.Fatal(err)
	}
	c.differences(verdicts{})
	analysis.Sort(c.findings)
	return c.findings
}

// TestAcceptedAlikeCorpus does the same with real CRDs, and checks that Differences does not
// change them.
func TestAcceptedAlikeCorpus(t *testing.T) {
	dir := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(dir, "v1*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no corpus at %s; set ESPALIER_CORPUS to where it is", dir)
	}
	files = testcase.Part(files)
	alike := 0
	for i, file := range files {
		if testing.Short() && i%4 > 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			continue
		}
		c, err := codec.Decode(data)
		if err != nil || !decoded(c).acceptedAlike() {
			continue
		}
		alike++
		before := c.DeepCopy()
		got, err := Differences(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		if want := differencesOfText(t, c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", file, got, want)
		}
		if !reflect.DeepEqual(c, before) {
			t.Errorf("%s: changed", file)
		}
		if kep, kubernetes := verdictsOf(t, c); !kep.Equal(kubernetes) {
			t.Errorf("%s\nkep: %v\nkubernetes: %v", file, kep, kubernetes)
		}
	}
	if alike == 0 {
		t.Error("no CRD is accepted alike")
	}
	t.Logf("%d of %d CRDs", alike, len(files))
}
