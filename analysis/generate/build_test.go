package generate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/generatetest"
	"espalier.dev/schema"
)

// build returns the packages of CRDs in YAML.
func build(t *testing.T, crds ...string) ([]*generate.Package, []generate.Problem) {
	t.Helper()
	var inputs []generate.Input
	for _, text := range crds {
		inputs = append(inputs, generatetest.Input(t, text, schema.KEP))
	}
	return generate.Build(inputs)
}

// crdOf returns a CRD whose spec has the given properties.
func crdOf(kind, properties string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %ss.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]ss, kind: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: %[3]s
`, strings.ToLower(kind), kind, properties)
}

// outline returns the types of a package, one line for each.
func outline(p *generate.Package) (lines []string) {
	for _, typ := range p.Types {
		line := typ.Name + ":"
		if typ.Open {
			line += " open"
		}
		if typ.Embedded {
			line += " embedded"
		}
		for _, f := range typ.Fields {
			line += " " + f.Name
			if !f.Required {
				line += "?"
			}
			line += " " + expression(f.Value)
		}
		lines = append(lines, line)
	}
	return lines
}

func expression(v *generate.Value) string {
	switch v.Kind {
	case generate.List:
		return "[]" + expression(v.Elem)
	case generate.Map:
		return "map " + expression(v.Elem)
	case generate.Object:
		return v.Type.Name
	}
	return v.Kind.String()
}

func TestBuild(t *testing.T) {
	for name, test := range map[string]struct {
		properties string
		want       []string
	}{
		"scalars": {
			`{a: {type: string}, b: {type: integer}, c: {type: number}, d: {type: boolean}, e: {x-kubernetes-int-or-string: true}}`,
			[]string{"Foo: spec? FooSpec", "FooSpec: a? string b? integer c? number d? boolean e? int-or-string"},
		},
		"objects": {
			`{empty: {type: object}, any: {x-kubernetes-preserve-unknown-fields: true}, object: {type: object, x-kubernetes-preserve-unknown-fields: true},
			  raw: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, properties: {apiVersion: {type: string}}},
			  open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}},
			  pod: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: string}}},
			  map: {type: object, additionalProperties: {type: array, items: {type: integer}}}, free: {type: object, additionalProperties: true}}`,
			[]string{
				"Foo: spec? FooSpec", "FooSpec: any? JSON empty? FooSpecEmpty free? map JSON map? map []integer object? JSON open? FooSpecOpen pod? FooSpecPod raw? resource",
				"FooSpecEmpty:", "FooSpecOpen: open a? string", "FooSpecPod: embedded spec? string",
			},
		},
		"below a value that preserves fields, with one of the semantics at least": {
			`{kept: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object}}, pruned: {type: array, items: {type: object}},
			  nested: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: object}}},
			  some: {type: array, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {x: {type: string}}}},
			  others: {type: array, items: {type: object, properties: {x: {type: string}}}}}`,
			[]string{
				"Foo: spec? FooSpec", "FooSpec: kept? []FooSpecKeptItem nested? FooSpecNested others? []FooSpecOthersItem pruned? []FooSpecPrunedItem some? []FooSpecSomeItem",
				"FooSpecKeptItem: open", "FooSpecNested: open x? FooSpecNestedX", "FooSpecNestedX: open", "FooSpecOthersItem: x? string", "FooSpecPrunedItem:",
				"FooSpecSomeItem: open x? string",
			},
		},
		"identical schemas share a type": {
			`{a: {type: object, description: one, properties: {x: {type: string}}}, b: {type: object, description: two, properties: {x: {type: string}}, default: {}, nullable: true},
			  c: {type: object, properties: {x: {type: string, maxLength: 1}}}}`,
			[]string{"Foo: spec? FooSpec", "FooSpec: a? FooSpecA b? FooSpecA c? FooSpecC", "FooSpecA: x? string", "FooSpecC: x? string"},
		},
		"items hold no description: their types do": {
			`{a: {type: object, description: field, properties: {x: {type: string}}}, b: {type: array, items: {type: object, description: one, properties: {x: {type: string}}}},
			  c: {type: array, items: {type: object, description: two, properties: {x: {type: string}}}}}`,
			[]string{"Foo: spec? FooSpec", "FooSpec: a? FooSpecA b? []FooSpecA c? []FooSpecCItem", "FooSpecA: x? string", "FooSpecCItem: x? string"},
		},
		"names": {
			`{a-b: {type: object, properties: {x: {type: string}}}, aB: {type: object, properties: {w: {type: string}}}, 9.9: {type: object, properties: {z: {type: string}}},
			  url: {type: object, properties: {u: {type: string}}}, caBundle: {type: object, properties: {v: {type: string}}}}`,
			[]string{
				"Foo: spec? FooSpec", "FooSpec: 9.9? FooSpecX99 a-b? FooSpecAB aB? FooSpecAB2 caBundle? FooSpecCABundle url? FooSpecURL",
				"FooSpecAB: x? string", "FooSpecAB2: w? string", "FooSpecCABundle: v? string", "FooSpecURL: u? string", "FooSpecX99: z? string",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			packages, problems := build(t, crdOf("Foo", test.properties))
			if len(problems) > 0 || len(packages) != 1 {
				t.Fatalf("got %d packages and problems %v", len(packages), problems)
			}
			if got := outline(packages[0]); !slices.Equal(got, test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// TestBuildKinds checks that kinds of a version share types, that kinds keep their names, and
// that CRDs with problems are left out.
func TestBuildKinds(t *testing.T) {
	shared := `{a: {type: object, properties: {x: {type: string}}}}`
	packages, problems := build(t,
		crdOf("Foo", shared), crdOf("Bar", shared),
		crdOf("BarSpec", `{b: {type: string}}`),
		crdOf("Foo", shared),
		crdOf("Odd", `{a: {}}`),
	)
	want := []string{
		"Bar: spec? BarSpec2", "BarSpec: spec? BarSpecSpec", "BarSpec2: a? BarSpecA", "BarSpecA: x? string", "BarSpecSpec: b? string", "Foo: spec? BarSpec2",
	}
	if got := outline(packages[0]); len(packages) != 1 || !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprint(p.Input, " ", p.Rule, " ", p.Pointer))
	}
	if want := []string{"3 duplicate-kind /spec/names/kind", "4 non-structural /spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/type"}; !slices.Equal(got, want) {
		t.Errorf("got problems %q, want %q", got, want)
	}
	if detail := strings.Join(problems[1].Detail, "\n"); !strings.Contains(detail, "espalier fix") {
		t.Errorf("the problem does not name espalier fix: %q", detail)
	}
}
