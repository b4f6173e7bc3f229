package explain_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/explain"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

const things = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th]}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: false, deprecated: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [mode]
            properties:
              mode: {type: string, enum: [a, b], default: a, description: "How.\nDeprecated: use x."}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string, pattern: "^[a-z]+$"}, number: {type: integer, minimum: 1, maximum: 9}}}
              labels: {type: object, additionalProperties: {type: string, maxLength: 5}}
              byName: {type: object, additionalProperties: {type: object, properties: {size: {type: integer}}}}
              any: {x-kubernetes-preserve-unknown-fields: true}
              size: {x-kubernetes-int-or-string: true}
              raw:
                type: object
                x-kubernetes-preserve-unknown-fields: true
                properties:
                  known: {type: object, properties: {a: {type: string}}}
                  bare: {type: object}
                  list: {type: array, items: {type: object, properties: {a: {type: string}}}}
                  bareList: {type: array, items: {type: object}}
                  map: {type: object, additionalProperties: {type: object}}
                  again: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, properties: {b: {type: object}}}}}
              rawList: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {a: {type: object}}}}
              rawMap: {type: object, x-kubernetes-preserve-unknown-fields: true, additionalProperties: {type: object}}
              embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              "a.b": {type: boolean, nullable: true}
            oneOf:
            - {required: [any]}
            - {properties: {mode: {enum: [b]}}}
            x-kubernetes-validations:
            - {rule: "self.mode == oldSelf.mode", message: never changes, reason: FieldValueForbidden, fieldPath: .mode}
`

func define(t *testing.T, text string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.DecodeLenient(data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(c, crd.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		path string
		// want are parts of the JSON of the field, or of the error.
		want []string
	}{
		{"spec.mode", []string{`"path":"spec.mode"`, `"required":true`, `"enum":["a","b"]`, `"default":"a"`, `"deprecated":"Deprecated: use x."`}},
		{"spec", []string{`"type":"Object"`, `"conditions":["exactly one of: (has any) (mode is b)"]`,
			`"rules":[{"rule":"self.mode == oldSelf.mode","message":"never changes","reason":"FieldValueForbidden","fieldPath":".mode","transition":true}]`,
			`"unknownFields":{"preserved":false,`}},
		{".spec.ports", []string{`"type":"[]Object"`, `"listType":"map"`, `"listMapKeys":["name"]`, `"path":"spec.ports[].number"`}},
		{"spec.ports.number", []string{`"path":"spec.ports[].number"`, `"constraints":{"maximum":9,"minimum":1}`}},
		{"spec.ports[0].name", []string{`"required":true`, `"pattern":"^[a-z]+$"`}},
		{"spec.labels.*", []string{`"path":"spec.labels.*"`, `"maxLength":5`}},
		{"spec.labels", []string{`"type":"map[string]string"`}},
		{"spec.byName.size", []string{`"path":"spec.byName.*.size"`, `"type":"integer"`}},
		{"spec.any", []string{`"type":"any"`, `"preserved":true`}},
		{"spec.size", []string{`"type":"IntOrString"`}},
		{`spec["a.b"]`, []string{`"path":"spec[\"a.b\"]"`, `"nullable":true`}},
		{"spec.raw", []string{`"preserved":true,"because":"x-kubernetes-preserve-unknown-fields is set at spec.raw"`}},
		{"spec.raw.known", []string{`"preserved":false,"because":"pruning resumes at spec.raw.known, which the schema specifies"`}},
		{"spec.raw.bare", []string{`"preserved":true,`, `"semantics":"kep","other":{"preserved":false`}},
		{"spec.embedded", []string{`"embeddedResource":true`, `"path":"spec.embedded.metadata"`, `#types-kinds","required":true`}},
		{"spec.embedded.metadata.labels", []string{`"type":"map[string]string"`, `organize and categorize`}},
		{"metadata.ownerReferences.uid", []string{`"path":"metadata.ownerReferences[].uid"`, `"required":true`}},
		{"kind", []string{`"type":"string"`}},
		{"spec.modes", []string{`there is no field "modes" in spec: did you mean "mode"?`}},
		{"spec.ports.nubmer", []string{`there is no field "nubmer" in spec.ports[]: did you mean "number"?`}},
		{"spec.mode.x", []string{`there is no field "x" in spec.mode, which is of type string`}},
		{"spec.any.x", []string{`there is no field "x" in spec.any, which accepts any field: the schema does not describe them`}},
		{"spec.raw.bare.x", []string{`there is no field "x" in spec.raw.bare, which has no specified fields`}},
		{"zzz", []string{`there is no field "zzz" in the root: there are apiVersion, kind, metadata, spec`}},
		{"spec..mode", []string{`empty field name`}},
		{"spec[0", []string{`unclosed`}},
		{`spec["a`, []string{`unclosed`}},
	} {
		got := ""
		doc, err := explain.Describe(define(t, things, schema.KEP).Version("v1"), c.path, explain.Options{})
		if err != nil {
			got = err.Error()
		} else {
			data, err := json.Marshal(doc.Field)
			if err != nil {
				t.Fatal(err)
			}
			got = string(data)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %s, want something with %s", c.path, got, want)
			}
		}
	}
}

// TestDraft4 explains a draft-4 schema, and one whose references would expand endlessly.
func TestDraft4(t *testing.T) {
	const head = `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: noxus.example.com}
spec:
  group: example.com
  version: v1
  names: {kind: Noxu, plural: noxus}
  scope: Namespaced
  validation: {jsonSchema: `
	v := define(t, head+`{type: object, properties: {a: {$ref: "#/definitions/d"}, b: {type: [string, integer]}, c: {type: array, items: [{type: integer}]}}, definitions: {d: {type: string, description: The d.}}}}`, schema.KEP).Version("v1")
	for path, want := range map[string]string{"a": "The d.", "b": `"type":"string"`, "c": `"type":"[]integer"`} {
		doc, err := explain.Describe(v, path, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if data, _ := json.Marshal(doc.Field); !strings.Contains(string(data), want) {
			t.Errorf("%s: got %s, want something with %s", path, data, want)
		}
	}
	v = define(t, head+`{properties: {a: {$ref: "#/definitions/d"}}, definitions: {d: {properties: {x: {$ref: "#/definitions/d"}, z: {$ref: "#/definitions/d"}}}}}}`, schema.KEP).Version("v1")
	if _, err := explain.Describe(v, "a.x.z", explain.Options{Recursive: true}); err != nil {
		t.Error(err)
	}
}

// TestUnknownFields checks the descriptions of unknown fields: it adds an unknown field
// everywhere, which must be preserved or pruned as described.
func TestUnknownFields(t *testing.T) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		checked := 0
		check := func(v *crd.Version) {
			doc, err := explain.Describe(v, "spec", explain.Options{Recursive: true})
			if err != nil {
				return
			}
			p, err := v.Program()
			if err != nil {
				return
			}
			probe(t, p, doc.Field, func(value any) map[string]any { return map[string]any{"spec": value} }, &checked)
		}
		check(define(t, things, sem).Version("v1"))
		own := checked
		for _, file := range corpusFiles(t) {
			d := define(t, readFile(t, file), sem)
			check(d.Versions()[0])
		}
		t.Logf("%s: %d places, %d of them of the corpus", sem, checked, checked-own)
	}
}

// probe adds an unknown field to the value of f, which wrap puts into an object.
func probe(t *testing.T, p *schema.Program, f *explain.Field, wrap func(any) map[string]any, checked *int) {
	if f.UnknownFields != nil && (f.Type == "Object" || f.Type == "any") {
		*checked++
		value := map[string]any{"zzUnknown": "x"}
		if f.Embedded {
			value["apiVersion"], value["kind"] = "v1", "X"
		}
		obj := wrap(value)
		obj["apiVersion"], obj["kind"] = "example.com/v1", "Thing"
		if _, err := p.Normalize(obj, schema.DecodeOptions{FromStorage: true}); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		if _, kept := value["zzUnknown"]; kept != f.UnknownFields.Preserved {
			t.Errorf("%s in %s: kept is %v, but it is said to be %v", f.Path, f.UnknownFields.Semantics, kept, f.UnknownFields.Preserved)
		}
	}
	for _, child := range f.Fields {
		if f.Embedded && child.Name == "metadata" {
			continue
		}
		probe(t, p, child, func(v any) map[string]any { return wrap(map[string]any{child.Name: v}) }, checked)
	}
	if f.Items != nil {
		probe(t, p, f.Items, func(v any) map[string]any { return wrap([]any{v}) }, checked)
	}
	if f.Values != nil {
		probe(t, p, f.Values, func(v any) map[string]any { return wrap(map[string]any{"key": v}) }, checked)
	}
}

// TestCorpus explains CRDs of the corpus.
func TestCorpus(t *testing.T) {
	files := corpusFiles(t)
	if len(files) == 0 {
		t.Skip("no corpus: set ESPALIER_CORPUS to its directory")
	}
	versions := 0
	for _, file := range files {
		d := define(t, readFile(t, file), schema.Kubernetes)
		for _, v := range d.Versions() {
			versions++
			doc, err := explain.Describe(v, "", explain.Options{Recursive: true})
			if err != nil {
				t.Fatalf("%s %s: %v", file, v.Name(), err)
			}
			var short, tree bytes.Buffer
			if err := doc.WriteText(&tree, explain.TextOptions{Recursive: true}); err != nil {
				t.Fatal(err)
			}
			if err := doc.WriteText(&short, explain.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(doc); err != nil {
				t.Fatalf("%s %s: %v", file, v.Name(), err)
			}
		}
	}
	t.Logf("%d versions", versions)
}

func corpusFiles(t testing.TB) []string {
	t.Helper()
	root := testcase.Corpus(t)
	files, _ := filepath.Glob(filepath.Join(root, "v1*", "*", "*.yaml"))
	return testcase.Part(files)
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
