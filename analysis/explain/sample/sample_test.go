package sample_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// versionOf returns a version with a schema for spec.
func versionOf(t *testing.T, spec string, sem schema.Semantics) *crd.Version {
	t.Helper()
	return define(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, required: [spec], properties: {spec: `+spec+`}}}
`, sem).Version("v1")
}

// TestSamples checks the spec of the minimal and the full sample.
func TestSamples(t *testing.T) {
	for _, c := range []struct{ name, spec, minimal, full string }{{
		name:    "required fields and all fields",
		spec:    `{type: object, required: [a], properties: {a: {type: string}, b: {type: integer}, c: {type: boolean}}}`,
		minimal: `{"a":"example"}`,
		full:    `{"a":"example","b":1,"c":true}`,
	}, {
		name:    "a server fills defaults in",
		spec:    `{type: object, required: [a, c], properties: {a: {type: string, default: x}, b: {type: string, default: z}, c: {type: string}}}`,
		minimal: `{"c":"example"}`,
		full:    `{"a":"x","b":"z","c":"example"}`,
	}, {
		name:    "nothing is required",
		spec:    `{type: object, properties: {a: {type: string}, b: {type: string, default: z}, c: {type: object, properties: {d: {type: string}}}, e: {type: integer}}}`,
		minimal: `{"a":"example","e":1}`,
		full:    `{"a":"example","b":"z","c":{"d":"example"},"e":1}`,
	}, {
		name:    "nothing is required, and there are collections only",
		spec:    `{type: object, properties: {c: {type: object, properties: {l: {type: array, items: {type: object, properties: {x: {type: string}}}}}}, z: {type: array, items: {type: string}}}}`,
		minimal: `{"c":{"l":[{"x":"example"}]}}`,
		full:    `{"c":{"l":[{"x":"example"}]},"z":["example"]}`,
	}, {
		name:    "nothing is required, and everything is defaulted",
		spec:    `{type: object, properties: {a: {type: string, default: x}, b: {type: string, default: z}}}`,
		minimal: `{"a":"x","b":"z"}`,
		full:    `{"a":"x","b":"z"}`,
	}, {
		name:    "optional fields that rules forbid",
		spec:    `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a)"}]}`,
		minimal: `{}`,
		full:    `{}`,
	}, {
		name:    "examples and enums",
		spec:    `{type: object, required: [a, b], properties: {a: {type: string, example: from the schema}, b: {type: string, enum: ["", x, z]}}}`,
		minimal: `{"a":"from the schema","b":"x"}`,
		full:    `{"a":"from the schema","b":"x"}`,
	}, {
		name:    "an example that is wrong does not count",
		spec:    `{type: object, required: [a], properties: {a: {type: integer, example: "seven", minimum: 7, multipleOf: 5}}}`,
		minimal: `{"a":10}`,
		full:    `{"a":10}`,
	}, {
		name:    "bounds",
		spec:    `{type: object, required: [a, b, c], properties: {a: {type: string, minLength: 9}, b: {type: number, minimum: 0, maximum: 0.5, exclusiveMinimum: true}, c: {type: array, minItems: 2, items: {type: string}, x-kubernetes-list-type: set}}}`,
		minimal: `{"a":"examplehi","b":0.5,"c":["example","example2"]}`,
		full:    `{"a":"examplehi","b":0.5,"c":["example","example2"]}`,
	}, {
		name:    "formats and patterns",
		spec:    `{type: object, required: [a, b, c], properties: {a: {type: string, format: ipv4}, b: {type: string, pattern: "^[0-9]{3}-(x|y)+$"}, c: {type: string, pattern: "^b", minLength: 5, allOf: [{pattern: "z$"}]}}}`,
		minimal: `{"a":"192.0.2.1","b":"000-x","c":"bexamplez"}`,
	}, {
		name:    "one of several",
		spec:    `{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}`,
		minimal: `{"a":"example"}`,
		full:    `{"a":"example"}`,
	}, {
		name:    "a branch that asks for values",
		spec:    `{type: object, required: [t], properties: {t: {type: string}, num: {type: integer}}, anyOf: [{properties: {t: {enum: [x]}, num: {minimum: 5}}, required: [num]}]}`,
		minimal: `{"num":5,"t":"x"}`,
		full:    `{"num":5,"t":"x"}`,
	}, {
		name:    "maps and lists of maps",
		spec:    `{type: object, properties: {m: {type: object, additionalProperties: {type: integer}}, l: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], minItems: 2, items: {type: object, required: [k], properties: {k: {type: string, enum: [p, q]}}}}}}`,
		minimal: `{"l":[{"k":"p"},{"k":"q"}]}`,
		full:    `{"l":[{"k":"p"},{"k":"q"}],"m":{"key":1}}`,
	}, {
		name:    "rules",
		spec:    `{type: object, required: [lo, hi], properties: {lo: {type: integer, minimum: 3}, hi: {type: integer}, mode: {type: string}}, x-kubernetes-validations: [{rule: "self.lo < self.hi"}, {rule: "has(self.mode) && self.mode.startsWith('fast-')"}]}`,
		minimal: `{"hi":4,"lo":3,"mode":"fast-"}`,
		full:    `{"hi":4,"lo":3,"mode":"fast-"}`,
	}, {
		name:    "unions",
		spec:    `{type: object, properties: {t: {type: string}, a: {type: string}, b: {type: string}}, x-kubernetes-unions: [{discriminator: t, fields: {a: A, b: B}}]}`,
		minimal: `{"a":"example","t":"A"}`,
		full:    `{"a":"example","t":"A"}`,
	}, {
		name:    "an embedded resource",
		spec:    `{type: object, required: [o], properties: {o: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`,
		minimal: `{"o":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"example"}}}`,
		full:    `{"o":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"example"}}}`,
	}} {
		t.Run(c.name, func(t *testing.T) {
			v := versionOf(t, c.spec, schema.KEP)
			for size, want := range map[sample.Size]string{sample.Minimal: c.minimal, sample.Full: c.full} {
				s, err := sample.New(context.Background(), v, size)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Valid() {
					t.Errorf("%s: %v %v", size, s.Violations, s.Problem)
				}
				got, err := yaml.Marshal(s.Object["spec"])
				if err != nil {
					t.Fatal(err)
				}
				if got, _ = yaml.YAMLToJSON(got); string(got) != want && want != "" {
					t.Errorf("%s: got %s, want %s", size, got, want)
				}
			}
		})
	}
}

// TestOptionalSpec checks the minimal samples of CRDs that require no spec, or have none.
func TestOptionalSpec(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"an optional spec":           {`{type: object, properties: {spec: {type: object, required: [a], properties: {a: {type: string}, b: {type: string}}}}}`, `{"spec":{"a":"example"}}`},
		"a spec with a default":      {`{type: object, properties: {spec: {type: object, default: {a: x}, required: [a], properties: {a: {type: string}}}}}`, `{"spec":{"a":"example"}}`},
		"a spec beside other fields": {`{type: object, required: [size], properties: {size: {type: integer}, spec: {type: object, properties: {a: {type: string}}}}}`, `{"size":1,"spec":{"a":"example"}}`},
		"no spec":                    {`{type: object, properties: {data: {type: string}, metadata: {type: object}, status: {type: object, properties: {a: {type: string}}}}}`, `{"data":"example"}`},
		"nothing at all":             {`{type: object}`, `{}`},
		"a spec that is null":        {`{type: object, properties: {spec: {type: object, nullable: true, enum: [null]}}}`, `{}`},
		"a field that is null":       {`{type: object, properties: {spec: {type: object, properties: {a: {type: string, nullable: true, enum: [null]}, b: {type: string}}}}}`, `{"spec":{"b":"example"}}`},
		"an empty required spec":     {`{type: object, required: [spec], properties: {spec: {type: object, properties: {a: {type: array, items: {type: string}}, b: {type: object}}}}}`, `{"spec":{"a":["example"]}}`},
		"a spec of a scalar":         {`{type: object, required: [spec], properties: {spec: {type: string}, data: {type: string}}}`, `{"spec":"example"}`},
		"a required field":           {`{type: object, required: [data], properties: {data: {type: string}, more: {type: string}}}`, `{"data":"example"}`},
		"a field of a branch":        {`{type: object, properties: {spec: {type: object, properties: {a: {type: string}, b: {type: integer}}}}, anyOf: [{properties: {spec: {required: [b], properties: {b: {minimum: 4}}}}}]}`, `{"spec":{"b":4}}`},
		"a spec without fields":      {`{type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`, `{}`},
		"a spec that is never valid": {`{type: object, properties: {spec: {type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "false"}]}}}`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := define(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+c.schema+`}}]
`, schema.KEP).Version("v1")
			s, err := sample.New(t.Context(), v, sample.Minimal)
			if err != nil || !s.Valid() {
				t.Fatalf("%v, %v", s, err)
			}
			for _, field := range []string{"apiVersion", "kind", "metadata"} {
				delete(s.Object, field)
			}
			if got, err := json.Marshal(s.Object); err != nil || string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestUnsolvable checks the reported violations of samples that cannot be valid.
func TestUnsolvable(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"a rule that never holds", `{type: object, x-kubernetes-validations: [{rule: "false", message: never}]}`, "never"},
		{"a pattern that is none", `{type: object, required: [a], properties: {a: {type: string, pattern: "(?!x)"}}}`, "pattern"},
		{"bounds that cross", `{type: object, required: [a], properties: {a: {type: integer, minimum: 5, maximum: 3}}}`, "spec.a"},
		{"more than there is room for", `{type: object, required: [a], properties: {a: {type: array, minItems: 1000000000, items: {type: array, minItems: 1000000000, items: {type: string}}}}}`, "spec.a"},
		{"branches that exclude each other", `{type: object, allOf: [{required: [a]}, {not: {required: [a]}}], properties: {a: {type: string}}}`, "allOf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := sample.New(context.Background(), versionOf(t, c.spec, schema.Kubernetes), sample.Full)
			if err != nil {
				t.Fatal(err)
			}
			if s.Valid() {
				t.Fatalf("got %v", s.Object)
			}
			if text := fmt.Sprint(s.Violations.FieldErrors()); !strings.Contains(text, c.want) {
				t.Errorf("got %s, want something with %q", text, c.want)
			}
			if s.Object["kind"] != "Thing" {
				t.Errorf("there is no attempt: %v", s.Object)
			}
		})
	}
}

// TestNoSchema checks the sample of a CRD without a schema.
func TestNoSchema(t *testing.T) {
	v := define(t, `{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, names: {kind: Thing, plural: things}, scope: Namespaced, version: v1}}`, schema.KEP).Version("v1")
	for _, size := range []sample.Size{sample.Minimal, sample.Full} {
		s, err := sample.New(t.Context(), v, size)
		if err != nil || !s.Valid() || len(s.Object) != 3 {
			t.Errorf("%s: %v, %v", size, s, err)
		}
	}
}

// TestResource checks the fields that do not follow from the schema of spec.
func TestResource(t *testing.T) {
	const text = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: %s
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, required: [status],
    properties: {metadata: {type: object, properties: {name: {type: string, pattern: "^[a-c]$"}}}, status: {type: object}}}}}]
`
	for _, tt := range []struct{ scope, want string }{
		{"Namespaced", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"default"},"status":{}}`},
		{"Cluster", `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"status":{}}`},
	} {
		s, err := sample.New(t.Context(), define(t, fmt.Sprintf(text, tt.scope), schema.KEP).Version("v1"), sample.Minimal)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(s.Object); err != nil || string(got) != tt.want || !s.Valid() {
			t.Errorf("%s: got %s, %v, want %s", tt.scope, got, err, tt.want)
		}
	}
}

// TestBroken checks the error of a version whose schema does not compile.
func TestBroken(t *testing.T) {
	inner := `{type: array, items: {type: object, properties: {b: {type: string, default: x}}}, default: [` + strings.Repeat("{},", 299) + `{}]}`
	outer := `{type: array, items: {type: object, properties: {l: ` + inner + `}}, default: [` + strings.Repeat("{},", 299) + `{}]}`
	s, err := sample.New(t.Context(), versionOf(t, outer, schema.KEP), sample.Minimal)
	if want := "version v1 of things.example.com: "; err == nil || s != nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, %v, want %s", s, err, want)
	}
}

// TestStopped checks that the search stops when its context ends.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s, err := sample.New(ctx, versionOf(t, `{type: object, x-kubernetes-validations: [{rule: "self == self && false"}]}`, schema.Kubernetes), sample.Minimal)
	if err != nil || s.Valid() {
		t.Errorf("got %v, %v", s, err)
	}
}
