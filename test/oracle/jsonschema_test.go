package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	checker "github.com/santhosh-tekuri/jsonschema/v6"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis/jsonschema"
	"espalier.dev/api"
	"espalier.dev/crd"
	engine "espalier.dev/schema"
)

// compileJSONSchema compiles a JSON Schema document with a library that Espalier does not use.
// Formats are checked, as editors do.
func compileJSONSchema(t testing.TB, doc any) *checker.Schema {
	t.Helper()
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	value, err := checker.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := checker.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:///schema.json", value); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s, err := c.Compile("mem:///schema.json")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

// checkJSON validates an object.
func checkJSON(t testing.TB, s *checker.Schema, object []byte) error {
	t.Helper()
	value, err := checker.UnmarshalJSON(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// unusualNumber matches numbers that the API server compares in its own way: those that a float64
// does not represent exactly, and integers that are written with a fraction.
var unusualNumber = regexp.MustCompile(`[0-9]{16}|\.[0-9]{4}|[0-9]\.0\b|[0-9]e[-+]?[0-9]`)

// TestJSONSchema checks JSON Schemas of generated CRDs: they accept every object that the engine
// accepts, and strict ones reject unknown fields.
func TestJSONSchema(t *testing.T) {
	batches := setting(t, "ORACLE_CASES", 4000) / BatchSize
	generator := Generator{Seed: setting(t, "ORACLE_SEED", 1)}
	// early counts objects that are valid only with their defaults and without unknown fields.
	var valid, early, unknown, invalid, missed, wrong int
	for n := range batches {
		b := generator.batch(n)
		made := b.acceptable()
		if made == nil {
			continue
		}
		text := encode(made)
		if strings.Contains(string(text), `"additionalProperties":true`) || unusualNumber.Match(text) {
			// Fields below such a map are dropped, which a schema cannot express.
			continue
		}
		props, err := OurSchema(text)
		if err != nil {
			continue
		}
		ours, err := NewOurs(text, testKind, true, false)
		if err != nil {
			continue
		}
		d, err := crd.New(&api.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "tests." + testKind.Group},
			Spec: api.CustomResourceDefinitionSpec{
				Group: testKind.Group, Scope: api.NamespaceScoped,
				Names: api.CustomResourceDefinitionNames{Plural: "tests", Kind: testKind.Kind},
				Versions: []api.CustomResourceDefinitionVersion{{
					Name: testKind.Version, Served: true, Storage: true, Schema: &api.CustomResourceValidation{OpenAPIV3Schema: props},
				}},
			},
		}, crd.Options{Semantics: engine.Kubernetes, IgnoreRules: true})
		if err != nil {
			t.Fatal(err)
		}
		var schemas [3]*checker.Schema
		for i, options := range []jsonschema.Options{{}, {Strict: true}, {SingleTypes: true}} {
			doc, err := jsonschema.New(d.Versions()[0], options)
			if err != nil {
				t.Fatal(err)
			}
			schemas[i] = compileJSONSchema(t, doc)
		}
		for i := range BatchSize {
			c := b.objectCase(made, i)
			var obj map[string]any
			if err := json.Unmarshal(c.Doc, &obj); err != nil || obj == nil {
				continue
			}
			if i%2 == 0 {
				obj["metadata"] = map[string]any{"name": "foo", "namespace": "default"}
			}
			obj["apiVersion"], obj["kind"] = testKind.GroupVersion().String(), testKind.Kind
			doc := encode(obj)
			if strings.Contains(string(doc), `"01.2.3.4"`) || unusualNumber.Match(doc) {
				continue // the API server accepts leading zeros, and tells 1.0 from 1
			}
			decoded := ours.Decode(doc, FromRequest)
			accepted := decoded.Err == nil && len(ours.ValidateIdentity(decoded.Object, nil)) == 0
			open, strict := checkJSON(t, schemas[0], doc), checkJSON(t, schemas[1], doc)
			if single := checkJSON(t, schemas[2], doc); (single == nil) != (open == nil) {
				t.Fatalf("with single types: %v, else %v\n%s", single, open, doc)
			}
			if !accepted {
				if invalid++; open == nil {
					missed++
				}
				continue
			}
			valid++
			if open != nil {
				early++
			}
			normal := encode(decoded.Object)
			var problem string
			if err := checkJSON(t, schemas[1], normal); err != nil {
				problem = fmt.Sprintf("the valid object %s is rejected: %v", normal, err)
			} else if err := checkJSON(t, schemas[0], normal); err != nil {
				problem = fmt.Sprintf("the valid object %s is rejected: %v", normal, err)
			} else if len(decoded.Unknown) > 0 {
				if unknown++; strict == nil {
					problem = fmt.Sprintf("the unknown fields %v are accepted", decoded.Unknown)
				}
			}
			// The API server accepts a list instead of a string with a format, and drops fields of
			// metadata even if the schema specifies them.
			if strings.Contains(problem, "got array, want") || strings.Contains(problem, ".metadata.") {
				continue
			}
			if problem != "" {
				if wrong++; wrong <= 10 {
					t.Errorf("batch %d, object %d: %s\nschema: %s\nobject: %s", n, i, strings.ReplaceAll(problem, "\n", "\n  "), text, doc)
				}
			}
		}
	}
	t.Logf("%d valid objects, of which %d are rejected as they are written; %d with unknown fields; %d of %d invalid objects are accepted; %d wrong",
		valid, early, unknown, missed, invalid, wrong)
	if early*20 > valid || unknown == 0 || missed*2 > invalid {
		t.Error("the schemas reject too much or too little")
	}
}
