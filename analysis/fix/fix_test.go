package fix

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// fixText fixes a CRD in YAML and returns the new text, which must be that of the new CRD.
func fixText(t *testing.T, text string, o Options) (string, *Result) {
	t.Helper()
	doc, err := yamlx.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := doc.JSON()
	if err != nil {
		t.Fatal(err)
	}
	result, err := Definition(context.Background(), raw, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Edits) == 0 {
		return text, result
	}
	fixed, err := yamledit.Apply(doc, result.Edits...)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = yaml.YAMLToJSON(fixed); err != nil {
		t.Fatal(err)
	}
	if got, want := decode(t, string(raw)), decode(t, string(result.JSON)); !reflect.DeepEqual(got, want) {
		t.Errorf("the edits make another CRD of the text:\n%s", textdiff.Unified("text", "result", marshal(t, got), marshal(t, want), 3))
	}
	return string(fixed), result
}

// TestCases runs testdata/*.txtar: a CRD, the rewritten CRD and the notes. Files named
// *-prune.txtar enable pruning.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Rules: cel.Checker{}, Prune: strings.HasSuffix(file, "-prune.txtar")}
			fixed, result := fixText(t, string(archive.Files[0].Data), o)
			var notes strings.Builder
			for _, f := range result.Notes {
				notes.WriteString(f.String() + "\n")
			}
			got := []txtar.File{
				archive.Files[0],
				{Name: "fixed.yaml", Data: []byte(fixed)},
				{Name: "notes", Data: []byte(notes.String())},
			}
			if *update {
				archive.Files = got
				writeFile(t, file, txtar.Format(archive))
				return
			}
			if len(archive.Files) != 3 {
				t.Fatal("the case is not complete: -update completes it")
			}
			for i := 1; i < 3; i++ {
				if diff := textdiff.Unified("want "+got[i].Name, "got "+got[i].Name, archive.Files[i].Data, got[i].Data, 3); len(diff) > 0 {
					t.Errorf("%s", diff)
				}
			}
			if again, _ := fixText(t, fixed, o); again != fixed {
				t.Errorf("fixing again changes\n%s", textdiff.Unified("once", "twice", []byte(fixed), []byte(again), 3))
			}
		})
	}
}

// TestSuperseded fixes the nested example of the pruning proposal of 2018.
func TestSuperseded(t *testing.T) {
	t.Run("K-05", func(t *testing.T) {
		for name, head := range map[string]string{
			"v1":      "apiVersion: apiextensions.k8s.io/v1\n",
			"v1beta1": "apiVersion: apiextensions.k8s.io/v1beta1\n",
		} {
			t.Run(name, func(t *testing.T) {
				text := head + `kind: CustomResourceDefinition
metadata: {name: nests.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: nests, singular: nest, kind: Nest, listKind: NestList}
  prune: true
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        properties:
          x:
            x-no-pruning: true
            properties:
              "y":
                x-kubernetes-no-pruning: false
                properties:
                  z: {}
`
				fixed, result := fixText(t, text, Options{Rules: cel.Checker{}})
				if result.Left() {
					t.Errorf("left: %v", result.Notes)
				}
				for _, old := range []string{"no-prun", "prune:"} {
					if strings.Contains(fixed, old) {
						t.Errorf("%s is still there:\n%s", old, fixed)
					}
				}
				for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
					obj := decode(t, `{"apiVersion":"example.com/v1","kind":"Nest","metadata":{"name":"a"},"a":1,"x":{"b":2,"y":{"c":3,"z":42}}}`)
					prune(t, result.JSON, sem, obj)
					for _, k := range []string{"apiVersion", "kind", "metadata"} {
						delete(obj, k)
					}
					if want := decode(t, `{"x":{"b":2,"y":{"z":42}}}`); !reflect.DeepEqual(obj, want) {
						t.Errorf("%v: got %s", sem, marshal(t, obj))
					}
				}
			})
		}
	})
}

func decode(t *testing.T, text string) (obj map[string]any) {
	t.Helper()
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// prune normalizes an object with the first version of a CRD.
func prune(t *testing.T, definition []byte, sem schema.Semantics, obj map[string]any) {
	t.Helper()
	c, err := codec.Decode(definition)
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(c, crd.Options{Semantics: sem})
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Versions()[0].Program()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Normalize(obj, schema.DecodeOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestIgnoredSpelling checks that a superseded spelling is kept if its finding is ignored.
func TestIgnoredSpelling(t *testing.T) {
	const text = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nests.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: nests, singular: nest, kind: Nest, listKind: NestList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          x: {type: object, x-kubernetes-no-prune: true}
          "y": {type: object, x-kubernetes-no-prune: true}
`
	const x = "/spec/versions/0/schema/openAPIV3Schema/properties/x/x-kubernetes-no-prune"
	_, result := fixText(t, text, Options{Rules: cel.Checker{}, Ignore: func(f analysis.Finding) bool {
		return f.Rule == "superseded-spelling" && f.Pointer == x
	}})
	if got := string(result.JSON); !strings.Contains(got, `"x":{"type":"object","x-kubernetes-no-prune":true}`) ||
		!strings.Contains(got, `"y":{"type":"object","x-kubernetes-preserve-unknown-fields":true}`) {
		t.Errorf("got %s", got)
	}
}

// TestNoTypeOfSomeBranches checks that a type that only some branches state is not used.
func TestNoTypeOfSomeBranches(t *testing.T) {
	t.Run("K-07", func(t *testing.T) {
		for name, c := range map[string]struct{ schema, field, want string }{
			"one branch":             {`{anyOf: [{properties: {b: {type: string}}}, {properties: {a: {}}}]}`, "b", ""},
			"branches that disagree": {`{anyOf: [{properties: {b: {type: string}}}, {properties: {b: {type: boolean}}}]}`, "b", ""},
			"not":                    {`{not: {properties: {b: {type: string}}}}`, "b", ""},
			"all branches":           {`{anyOf: [{properties: {b: {type: string}}}, {properties: {b: {type: string}}}]}`, "b", "string"},
			"a part of allOf":        {`{allOf: [{properties: {b: {type: string}}}, {required: [b]}]}`, "b", "string"},
			"outside":                {`{properties: {b: {type: string}}, anyOf: [{properties: {b: {minLength: 1}}}]}`, "b", "string"},
			"integers and strings":   {`{oneOf: [{properties: {b: {type: string}}}, {properties: {b: {type: integer}}}]}`, "b", intOrString},
		} {
			t.Run(name, func(t *testing.T) {
				got := rewrite(parseSchema(t, c.schema), schema.KEP, false)
				f := schemas(got["properties"])[c.field]
				if typ, _ := statedType(f); typ != c.want || typ == "" && f[preserve] != true {
					t.Errorf("got %s", marshal(t, got))
				}
			})
		}
	})
}

// TestUntouched checks that structural schemas stay unchanged.
func TestUntouched(t *testing.T) {
	forEachCRD(t, crdFiles(t, 1), func(name string, text []byte) {
		if !strings.HasPrefix(name, "v1"+string(filepath.Separator)) {
			return
		}
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Error(err)
			return
		}
		tree := decode(t, string(data))
		for _, v := range schemaList(tree["spec"].(map[string]any)["versions"]) {
			s := schemaOf(schemaOf(v["schema"])["openAPIV3Schema"])
			if s == nil {
				continue
			}
			if got := rewrite(s, schema.KEP, false); !reflect.DeepEqual(got, s) {
				t.Errorf("%s: a structural schema is changed", name)
			}
		}
	})
}

// TestOrigin checks that notes can be traced back to the original document.
func TestOrigin(t *testing.T) {
	_, result := fixText(t, `apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: as.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: as, singular: a, kind: A, listKind: AList}
  versions:
  - {name: v1, served: true, storage: true}
  - {name: v2, served: true, storage: false}
  additionalPrinterColumns:
  - {name: A, type: string, JSONPath: .a}
  validation:
    openAPIV3Schema:
      type: object
      properties:
        a: {type: string}
        b: {}
`, Options{Rules: cel.Checker{}})
	for pointer, want := range map[string]string{
		"/spec/versions/0/schema/openAPIV3Schema/properties/b": "/spec/validation/openAPIV3Schema/properties/b",
		"/spec/versions/1/schema/openAPIV3Schema/properties/b": "/spec/validation/openAPIV3Schema/properties/b",
		"/spec/versions/1/additionalPrinterColumns/0/jsonPath": "/spec/additionalPrinterColumns/0/JSONPath",
		"/spec/versions/1/name":                                "/spec/versions/1/name",
	} {
		if got := result.Origin(pointer); got != want {
			t.Errorf("%s comes from %s, not %s", pointer, got, want)
		}
	}
	open := 0
	for _, f := range result.Notes {
		if f.Rule == typeOpen {
			open++
		}
		if f.Severity != analysis.Info {
			t.Errorf("%v", f)
		}
	}
	if open != 2 {
		t.Errorf("%d notes about b", open)
	}
}

// TestHostile fixes pathological schemas.
func TestHostile(t *testing.T) {
	depth := 500
	if testing.Short() {
		depth = 200
	}
	const head = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"as.example.com"},
		"spec":{"group":"example.com","scope":"Cluster","version":"v1","names":{"plural":"as","singular":"a","kind":"A","listKind":"AList"},"validation":`
	deep := func(open, inner, close string) string {
		return head + `{"openAPIV3Schema":` + strings.Repeat(open, depth) + inner + strings.Repeat(close, depth) + `}}}`
	}
	definitions := `{"d0":{"type":"string"}`
	for i := range 40 {
		definitions += fmt.Sprintf(`,"d%d":{"properties":{"a":{"$ref":"#/definitions/d%d"},"b":{"$ref":"#/definitions/d%d"}}}`, i+1, i, i)
	}
	for name, raw := range map[string]string{
		"deep fields":            deep(`{"properties":{"a":`, `{}`, `}}`),
		"deep logical operators": deep(`{"anyOf":[`, `{"type":"string"}`, `]}`),
		"deep negations":         deep(`{"not":`, `{"type":"string"}`, `}`),
		"a DAG":                  head + `{"jsonSchema":{"$ref":"#/definitions/d40","definitions":` + definitions + `}}}}}`,
		"a loop":                 head + `{"jsonSchema":{"properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"properties":{"a":{"$ref":"#/definitions/a"}}}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Definition(context.Background(), []byte(raw), Options{Rules: cel.Checker{}})
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Definition(context.Background(), result.JSON, Options{Rules: cel.Checker{}}); err != nil || len(again.Edits) > 0 {
				t.Errorf("fixing again: %v, %d edits", err, len(again.Edits))
			}
		})
	}
}

// TestUnreadable passes input that is not a CRD.
func TestUnreadable(t *testing.T) {
	for _, raw := range []string{``, `{`, `[]`, `{}`, `{"kind":"CustomResourceDefinition"}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":1}`,
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"versions":{}}}`,
	} {
		if _, err := Definition(context.Background(), []byte(raw), Options{Rules: cel.Checker{}}); err == nil {
			t.Errorf("%s: no error", raw)
		}
	}
	for _, raw := range []string{
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition"}`,
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":null}`,
		`{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","spec":{"versions":[null],"validation":null,"conversion":null}}`,
	} {
		result, err := Definition(context.Background(), []byte(raw), Options{Rules: cel.Checker{}})
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if !result.Left() {
			t.Errorf("%s: nothing is left to do", raw)
		}
	}
}

// TestCanceled checks that a canceled context ends the work, at the start and after the first findings.
func TestCanceled(t *testing.T) {
	t.Parallel()
	raw := []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{"name":"v1","prune":true}]}}`)
	for _, early := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if early {
			cancel()
		}
		asked := false
		_, err := Definition(ctx, raw, Options{Rules: cel.Checker{}, Ignore: func(analysis.Finding) bool {
			asked = true
			cancel()
			return false
		}})
		if !errors.Is(err, context.Canceled) || asked == early {
			t.Errorf("canceled early: %t, asked: %t: %v", early, asked, err)
		}
	}
}

func writeFile(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
