package schema_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// parseSchema reads a schema in YAML.
func parseSchema(t testing.TB, text string) *api.JSONSchemaProps {
	t.Helper()
	var props api.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &props); err != nil {
		t.Fatalf("schema: %v\n%s", err, text)
	}
	return &props
}

func parseStructural(t testing.TB, text string) *schema.Structural {
	t.Helper()
	s, err := schema.NewStructural(parseSchema(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCheck runs the cases in testdata/check, one file for each ledger row.
func TestCheck(t *testing.T) {
	files, err := filepath.Glob("testdata/check/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			for i := 0; i < len(archive.Files); i += 3 {
				checkCase(t, archive.Files[i:min(i+3, len(archive.Files))])
			}
		})
	}
}

// checkCase runs a case of three sections: name/schema.yaml, name/kep and
// name/kubernetes.
func checkCase(t *testing.T, sections []txtar.File) {
	t.Helper()
	name := strings.TrimSuffix(sections[0].Name, "/schema.yaml")
	for i, want := range []string{name + "/schema.yaml", name + "/kep", name + "/kubernetes"} {
		if i >= len(sections) || sections[i].Name != want {
			t.Fatalf("case %q lacks the section %q", name, want)
		}
	}
	t.Run(name, func(t *testing.T) {
		s := parseStructural(t, string(sections[0].Data))
		var kep, kubernetes []string
		for _, f := range schema.Check(s, schema.KEP) {
			line := f.String()
			if !f.Refused {
				line = "warning: " + line
			}
			kep = append(kep, line)
		}
		for _, f := range schema.Check(s, schema.Kubernetes) {
			if !f.Refused {
				t.Errorf("kubernetes: not rejected: %v", f)
			}
			kubernetes = append(kubernetes, f.FieldError(nil).Error())
		}
		compareLines(t, "kep", kep, sections[1].Data)
		compareLines(t, "kubernetes", kubernetes, sections[2].Data)
	})
}

func compareLines(t *testing.T, what string, got []string, data []byte) {
	t.Helper()
	want := strings.TrimSpace(string(data))
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

// TestCheckCorpus holds the documents' reading against real schemas: it is stricter
// than Kubernetes, but rejects none that Kubernetes accepts.
func TestCheckCorpus(t *testing.T) {
	t.Run("S-04", func(t *testing.T) {
		accepted, refused, warned := 0, 0, 0
		forEachCorpusSchema(t, func(name string, props *api.JSONSchemaProps) {
			s, err := schema.NewStructural(props)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if len(schema.Check(s, schema.Kubernetes)) > 0 {
				refused++
				return
			}
			accepted++
			for _, f := range schema.Check(s, schema.KEP) {
				if f.Refused {
					t.Errorf("%s: %v", name, f)
				}
				warned++
			}
		})
		t.Logf("Kubernetes accepts %d and rejects %d schemas; %d warnings for the former", accepted, refused, warned)
	})
}

func TestFinding(t *testing.T) {
	s := parseStructural(t, `
type: object
properties:
  a/b~c:
    type: object
    anyOf:
    - title: a title
    - properties:
        d: {}
  number:
    type: object
    x-kubernetes-embedded-resource: true
    properties:
      kind: {type: number}
`)
	t.Run("S-04", func(t *testing.T) {
		findings := schema.Check(s, schema.KEP)
		if len(findings) != 3 {
			t.Fatalf("got %v", findings)
		}
		// A finding is data.
		title, mention, kind := findings[0], findings[1], findings[2]
		if title.Kind != schema.ForbiddenInJunctor || title.Path.Pointer() != "/properties/a~1b~0c/anyOf/0/title" {
			t.Errorf("got %v at %s", title.Kind, title.Path.Pointer())
		}
		if mention.Kind != schema.NotInCore || mention.Mention.String() != ".properties[a/b~c].anyOf[1].properties[d]" {
			t.Errorf("got %v, mentioned in %s", mention.Kind, mention.Mention)
		}
		if kind.Kind != schema.TypeWrong || kind.Value != "number" {
			t.Errorf("got %v with %v", kind.Kind, kind.Value)
		}
		// As a field error, it stands below any root, also where its text has a path.
		root := field.NewPath("spec", "validation").Child("openAPIV3Schema")
		for i, want := range []*field.Error{
			field.Forbidden(root.Child("properties").Key("a/b~c").Child("anyOf").Index(0).Child("title"),
				"must be empty to be structural"),
			field.Required(root.Child("properties").Key("a/b~c").Child("properties").Key("d"),
				"because it is defined in spec.validation.openAPIV3Schema.properties[a/b~c].anyOf[1].properties[d]"),
			field.Invalid(root.Child("properties").Key("number").Child("properties").Key("kind").Child("type"),
				"number", "must be string"),
		} {
			if got := findings[i].FieldError(root); !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
	t.Run("kinds have names", func(t *testing.T) {
		seen := map[string]bool{}
		for k := schema.TypeMissing; k <= schema.UnionDiscriminator; k++ {
			if name := k.String(); name == "" || name == "unknown" || seen[name] {
				t.Errorf("kind %d is called %q", k, name)
			} else {
				seen[name] = true
			}
		}
	})
}

// TestCheckHostile has schemas that no author writes.
func TestCheckHostile(t *testing.T) {
	both := []schema.Semantics{schema.KEP, schema.Kubernetes}
	t.Run("nil", func(t *testing.T) {
		for _, sem := range both {
			if got := schema.Check(nil, sem); got != nil {
				t.Errorf("%v: got %v", sem, got)
			}
			s := &schema.Structural{
				Properties: map[string]*schema.Structural{"a": nil, "kind": nil, "metadata": nil},
				Extensions: schema.Extensions{XUnions: []api.Union{{Discriminator: "a", Fields: map[string]string{"a": "A"}}}},
				ValueValidation: &schema.ValueValidation{AllOf: []schema.NestedValueValidation{{
					Properties: map[string]*schema.NestedValueValidation{"a": nil, "b": nil},
				}}},
			}
			if got := schema.Check(s, sem); len(got) == 0 {
				t.Errorf("%v: nothing found", sem)
			}
		}
	})
	t.Run("depth", func(t *testing.T) {
		// Each level has findings of its own, all of them far down. A rejection that
		// is found last must not be lost among the reports found before.
		deep := &schema.Structural{Generic: schema.Generic{Type: "object"}}
		for range 10000 {
			deep = &schema.Structural{
				Generic:    schema.Generic{Type: "object"},
				Items:      deep,
				Properties: map[string]*schema.Structural{"a": {Generic: schema.Generic{Type: "string"}}},
			}
		}
		deep.Type = ""
		for _, sem := range both {
			refused := 0
			for _, f := range schema.Check(deep, sem) {
				if f.Refused {
					refused++
				}
			}
			if refused != 1 {
				t.Errorf("%v: %d rejected", sem, refused)
			}
		}
	})
	t.Run("width", func(t *testing.T) {
		// Twice the schema, twice the findings, always in the same order.
		wide := func(n int) *schema.Structural {
			s := &schema.Structural{Properties: map[string]*schema.Structural{}}
			for i := range n {
				s.Properties[fmt.Sprint("f", i)] = &schema.Structural{}
			}
			return s
		}
		for _, sem := range both {
			for _, n := range []int{100, 200} {
				first := schema.Check(wide(n), sem)
				if len(first) != n+1 {
					t.Errorf("%v: %d findings, want %d", sem, len(first), n+1)
				}
				for range 5 {
					if !reflect.DeepEqual(schema.Check(wide(n), sem), first) {
						t.Errorf("%v: findings differ from run to run", sem)
					}
				}
			}
		}
	})
}
