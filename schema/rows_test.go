package schema_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
	"sigs.k8s.io/yaml"
)

// props reads a schema from YAML.
func props(t *testing.T, text string) *api.JSONSchemaProps {
	t.Helper()
	var p api.JSONSchemaProps
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return &p
}

// compile makes a Program of a schema in YAML.
func compile(t *testing.T, text string, opts ...schema.Option) *schema.Program {
	t.Helper()
	s, err := schema.NewStructural(props(t, text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := schema.Compile(s, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// object reads an object from JSON, as it is.
func object(t *testing.T, text string) schema.Object {
	t.Helper()
	obj, _, err := compile(t, "{x-kubernetes-preserve-unknown-fields: true}").Decode([]byte(text), schema.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// errorsOf validates an object and returns what kube-apiserver would say, sorted.
func errorsOf(p *schema.Program, obj, old schema.Object) []string {
	var list []string
	for _, err := range p.Validate(context.Background(), obj, old).FieldErrors() {
		list = append(list, err.Error())
	}
	slices.Sort(list)
	return list
}

func sameJSON(t *testing.T, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var g any
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got %s, want %s", text, want)
	}
}

var both = []schema.Semantics{schema.KEP, schema.Kubernetes}

func TestJSONSchemaDialect(t *testing.T) {
	t.Run("V-02", func(t *testing.T) {
		for _, tc := range []struct {
			name, schema string
			valid        []string
			invalid      map[string]string
		}{{
			name:    "reference",
			schema:  `{properties: {a: {$ref: "#/definitions/small"}}, definitions: {small: {type: integer, maximum: 3}}}`,
			valid:   []string{`{}`, `{"a":3}`},
			invalid: map[string]string{`{"a":4}`: "a in body should be less than or equal to 3"},
		}, {
			name:    "whatever stands beside a reference does not count",
			schema:  `{properties: {a: {$ref: "#/definitions/any", type: string}}, definitions: {any: {}}}`,
			valid:   []string{`{"a":4}`},
			invalid: nil,
		}, {
			name:    "patternProperties",
			schema:  `{patternProperties: {"^x": {type: integer}}, additionalProperties: false}`,
			valid:   []string{`{"x1":1,"metadata":{},"kind":"K","apiVersion":"v1"}`},
			invalid: map[string]string{`{"x1":"s"}`: `x1 in body must be of type integer: "string"`, `{"y":1}`: ".y in body is a forbidden property"},
		}, {
			name:    "dependencies on fields",
			schema:  `{properties: {o: {dependencies: {a: [b]}}}}`,
			valid:   []string{`{"o":{"b":1}}`, `{"o":{"a":1,"b":1}}`, `{"o":1}`},
			invalid: map[string]string{`{"o":{"a":1}}`: `"o" has a dependency on b`},
		}, {
			name:    "dependencies on a schema",
			schema:  `{dependencies: {a: {required: [b]}}}`,
			valid:   []string{`{"a":1,"b":1}`},
			invalid: map[string]string{`{"a":1}`: "b in body is required"},
		}, {
			name:    "tuple",
			schema:  `{properties: {a: {items: [{type: integer}, {type: string}], additionalItems: false}}}`,
			valid:   []string{`{"a":[]}`, `{"a":[1]}`, `{"a":[1,"x"]}`},
			invalid: map[string]string{`{"a":["x"]}`: `a[0] in body must be of type integer: "string"`, `{"a":[1,"x",2]}`: "array doesn't allow for additional items"},
		}, {
			name:    "additional items",
			schema:  `{properties: {a: {items: [{type: integer}], additionalItems: {type: boolean}}}}`,
			valid:   []string{`{"a":[1,true,false]}`},
			invalid: map[string]string{`{"a":[1,true,3]}`: `a[2] in body must be of type boolean: "integer"`},
		}, {
			name:    "several types",
			schema:  `{properties: {a: {type: [string, "null", integer]}}}`,
			valid:   []string{`{"a":null}`, `{"a":1}`, `{"a":"x"}`},
			invalid: map[string]string{`{"a":1.5}`: `a in body must be of type string,null,integer: "number"`},
		}, {
			name:   "a field and its patterns both count",
			schema: `{properties: {ab: {minimum: 1}}, patternProperties: {"^a": {maximum: 5}, "b$": {multipleOf: 2}}}`,
			valid:  []string{`{"ab":4}`, `{"ab":2}`},
			invalid: map[string]string{
				`{"ab":0}`: "ab in body should be greater than or equal to 1",
				`{"ab":6}`: "ab in body should be less than or equal to 5",
				`{"ab":3}`: "ab in body should be a multiple of 2",
			},
		}} {
			t.Run(tc.name, func(t *testing.T) {
				p, err := schema.CompileJSONSchema(props(t, tc.schema))
				if err != nil {
					t.Fatal(err)
				}
				for _, text := range tc.valid {
					if vs := p.Validate(context.Background(), object(t, text), nil); len(vs) > 0 {
						t.Errorf("%s is rejected: %v", text, vs.Messages())
					}
				}
				for text, want := range tc.invalid {
					vs := p.Validate(context.Background(), object(t, text), nil)
					if len(vs) == 0 || !slices.Contains(vs.Messages(), want) {
						t.Errorf("%s: got %q, want %q", text, vs.Messages(), want)
					}
				}
			})
		}

		t.Run("never pruned, nulls stay, defaults apply", func(t *testing.T) {
			p, err := schema.CompileJSONSchema(props(t, `{properties: {a: {default: 7}, b: {$ref: "#/definitions/d"}, n: {type: string}}, definitions: {d: {properties: {x: {default: yes!}}}}}`))
			if err != nil {
				t.Fatal(err)
			}
			obj, _, err := p.Decode([]byte(`{"b":{},"n":null,"unknown":{"z":1}}`), schema.DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, obj, `{"a":7,"b":{"x":"yes!"},"n":null,"unknown":{"z":1}}`)
		})

		for name, tc := range map[string]struct{ schema, want string }{
			"foreign reference":   {`{properties: {a: {$ref: "http://example.com/schema"}}}`, `.properties[a].$ref must have the form #/definitions/<name>, got "http://example.com/schema"`},
			"undefined reference": {`{items: {$ref: "#/definitions/gone"}}`, `.items.$ref refers to "#/definitions/gone", which is not in definitions`},
			"recursion":           {`{properties: {a: {$ref: "#/definitions/a"}}, definitions: {a: {items: {$ref: "#/definitions/b"}}, b: {not: {$ref: "#/definitions/a"}}}}`, `must not be recursive`},
			"unused foreign reference": {`{properties: {a: {type: string}}, definitions: {u: {properties: {b: {items: {$ref: "http://example.com/schema"}}}}}}`,
				`.definitions[u].properties[b].items.$ref must have the form #/definitions/<name>, got "http://example.com/schema"`},
			"unused reference to a property": {`{properties: {a: {type: string}}, definitions: {u: {$ref: "#/properties/a"}}}`, `.definitions[u].$ref must have the form #/definitions/<name>, got "#/properties/a"`},
			"unused undefined reference":     {`{definitions: {u: {not: {$ref: "#/definitions/gone"}}}}`, `.definitions[u].not.$ref refers to "#/definitions/gone", which is not in definitions`},
			"unused recursion":               {`{definitions: {u: {items: {$ref: "#/definitions/u"}}}}`, `.definitions[u].items.$ref must not be recursive`},
			"reference in a nested definition": {`{properties: {a: {definitions: {b: {$ref: "file:///etc/passwd"}}}}}`,
				`.properties[a].definitions[b].$ref must have the form #/definitions/<name>, got "file:///etc/passwd"`},
			"reference beside a reference": {`{properties: {a: {$ref: "#/definitions/d", properties: {x: {$ref: "x.json"}}}}, definitions: {d: {}}}`,
				`.properties[a].properties[x].$ref must have the form #/definitions/<name>, got "x.json"`},
			"foreign reference at the root": {`{$ref: "http://example.com/schema"}`, `.$ref must have the form #/definitions/<name>, got "http://example.com/schema"`},
			"rules":                         {`{properties: {a: {x-kubernetes-validations: [{rule: "true"}]}}}`, `.properties[a].x-kubernetes-validations is not supported in a jsonSchema`},
			"self":                          {`{$ref: "#/definitions/a", definitions: {a: {$ref: "#/definitions/a"}}}`, `must not be recursive`},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := schema.CompileJSONSchema(props(t, tc.schema))
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
			})
		}

		t.Run("a shared default is missed", func(t *testing.T) {
			p, err := schema.CompileJSONSchema(props(t, `{properties: {x: {$ref: "#/definitions/d"}}, additionalProperties: {$ref: "#/definitions/d"}, definitions: {d: {default: dd}}}`))
			if err != nil {
				t.Fatal(err)
			}
			if p.IsNormal([]byte(`{"other":"v"}`)) {
				t.Error("normal, although x is missing")
			}
		})

		t.Run("a web of references stays linear", func(t *testing.T) {
			// Each definition names the next in two ways, so that there are 2^40
			// ways to the last one.
			s := api.JSONSchemaProps{Ref: new("#/definitions/d0"), Definitions: map[string]api.JSONSchemaProps{}}
			for i := range 40 {
				next := api.JSONSchemaProps{Ref: new(fmt.Sprintf("#/definitions/d%d", i+1))}
				s.Definitions[fmt.Sprintf("d%d", i)] = api.JSONSchemaProps{AllOf: []api.JSONSchemaProps{next}, AnyOf: []api.JSONSchemaProps{next}}
			}
			s.Definitions["d40"] = api.JSONSchemaProps{Required: []string{"a"}}
			p, err := schema.CompileJSONSchema(&s)
			if err != nil {
				t.Fatal(err)
			}
			if vs := p.Validate(context.Background(), schema.Object{"a": int64(1)}, nil); len(vs) > 0 {
				t.Errorf("rejected: %d violations", len(vs))
			}
			if vs := p.Validate(context.Background(), schema.Object{"b": int64(1)}, nil); len(vs) == 0 {
				t.Error("accepted")
			}

			// The same, unused: checking it takes no longer.
			s.Ref = nil
			if _, err := schema.CompileJSONSchema(&s); err != nil {
				t.Error(err)
			}
			s.Definitions["d40"] = api.JSONSchemaProps{Items: &api.JSONSchemaPropsOrArray{Schema: &api.JSONSchemaProps{Ref: new("#/definitions/d0")}}}
			if _, err := schema.CompileJSONSchema(&s); err == nil || !strings.Contains(err.Error(), "must not be recursive") {
				t.Errorf("a cycle of 40 unused definitions: got %v", err)
			}
		})
	})

	t.Run("V-21", func(t *testing.T) {
		for _, uri := range []string{
			"http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-04/schema",
			"https://json-schema.org/draft-04/schema#", "https://json-schema.org/draft-04/schema",
		} {
			if _, err := schema.CompileJSONSchema(&api.JSONSchemaProps{Schema: uri}); err != nil {
				t.Errorf("%s: %v", uri, err)
			}
		}
		const must = `must be draft 4 ("http://json-schema.org/draft-04/schema#") or absent, got `
		for text, want := range map[string]string{
			`{$schema: "http://json-schema.org/draft-07/schema#"}`:                                              `.$schema ` + must + `draft 7 ("http://json-schema.org/draft-07/schema#")`,
			`{$schema: "http://json-schema.org/draft-06/schema"}`:                                               `.$schema ` + must + `draft 6 (`,
			`{$schema: "http://json-schema.org/draft-03/schema#"}`:                                              `.$schema ` + must + `draft 3 (`,
			`{$schema: "https://json-schema.org/draft/2019-09/schema"}`:                                         `.$schema ` + must + `draft 2019-09 (`,
			`{$schema: "https://json-schema.org/draft/2020-12/schema"}`:                                         `.$schema ` + must + `draft 2020-12 (`,
			`{$schema: "http://json-schema.org/schema#"}`:                                                       `.$schema ` + must + `"http://json-schema.org/schema#"`,
			`{$schema: "ftp://json-schema.org/draft-04/schema#"}`:                                               `.$schema ` + must + `"ftp://json-schema.org/draft-04/schema#"`,
			`{$schema: "draft-04"}`:                                                                             `.$schema ` + must + `"draft-04"`,
			`{properties: {a: {items: {$schema: "http://json-schema.org/draft-07/schema#"}}}}`:                  `.properties[a].items.$schema ` + must + `draft 7 (`,
			`{definitions: {unused: {not: {$schema: "http://json-schema.org/draft-07/schema#"}}}}`:              `.definitions[unused].not.$schema ` + must + `draft 7 (`,
			`{dependencies: {a: {$schema: "http://json-schema.org/draft-07/schema#"}}}`:                         `.dependencies[a].$schema ` + must + `draft 7 (`,
			`{dependencies: {a: {properties: {b: {$schema: "http://json-schema.org/draft-06/schema#"}}}}}`:      `.dependencies[a].properties[b].$schema ` + must + `draft 6 (`,
			`{patternProperties: {x: {$schema: "http://json-schema.org/draft-07/schema#"}}}`:                    `.patternProperties[x].$schema ` + must + `draft 7 (`,
			`{additionalProperties: {$schema: "http://json-schema.org/draft-07/schema#"}}`:                      `.additionalProperties.$schema ` + must + `draft 7 (`,
			`{items: [{$schema: "http://json-schema.org/draft-07/schema#"}]}`:                                   `.items[0].$schema ` + must + `draft 7 (`,
			`{items: [{}], additionalItems: {$schema: "http://json-schema.org/draft-07/schema#"}}`:              `.additionalItems.$schema ` + must + `draft 7 (`,
			`{allOf: [{}, {$schema: "http://json-schema.org/draft-07/schema#"}]}`:                               `.allOf[1].$schema ` + must + `draft 7 (`,
			`{anyOf: [{$schema: "http://json-schema.org/draft-07/schema#"}]}`:                                   `.anyOf[0].$schema ` + must + `draft 7 (`,
			`{oneOf: [{$schema: "http://json-schema.org/draft-07/schema#"}]}`:                                   `.oneOf[0].$schema ` + must + `draft 7 (`,
			`{properties: {a: {$ref: "#/definitions/d", $schema: "x"}}, definitions: {d: {}}}`:                  `.properties[a].$schema ` + must + `"x"`,
			`{$schema: "http://json-schema.org/draft-04/hyper-schema#"}`:                                        `.$schema ` + must + `"http://json-schema.org/draft-04/hyper-schema#"`,
			`{$schema: "http://json-schema.org/draft-04/schema#", definitions: {a: {$ref: "#/definitions/b"}}}`: `.definitions[a].$ref refers to "#/definitions/b"`,
		} {
			_, err := schema.CompileJSONSchema(props(t, text))
			var conversion *schema.ConversionError
			if !errors.As(err, &conversion) || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", text, err, want)
			}
		}

		// In draft 4, id is the base of references: this one would refer to a file.
		p, err := schema.CompileJSONSchema(props(t, `
id: http://example.com/root.json
properties:
  a:
    id: other.json
    definitions: {d: {type: string}}
    properties: {x: {$ref: "#/definitions/d"}}
definitions:
  d: {id: "#d", type: integer}
`))
		if err != nil {
			t.Fatal(err)
		}
		if vs := p.Validate(context.Background(), object(t, `{"a":{"x":1}}`), nil); len(vs) > 0 {
			t.Errorf("the definition of the root is not used: %v", vs.Messages())
		}
		if vs := p.Validate(context.Background(), object(t, `{"a":{"x":"s"}}`), nil); len(vs) != 1 {
			t.Errorf("got %v, want a violation of the root's definition", vs.Messages())
		}
		for _, ref := range []string{"#d", "other.json", "other.json#/definitions/d", "http://example.com/root.json#/definitions/d"} {
			_, err := schema.CompileJSONSchema(props(t, `{id: "http://example.com/root.json", properties: {a: {$ref: "`+ref+`"}}, definitions: {d: {id: "#d"}, e: {id: "other.json", definitions: {d: {}}}}}`))
			if want := `.properties[a].$ref must have the form #/definitions/<name>, got "` + ref + `"`; err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	})
}

func TestImplicitMetadata(t *testing.T) {
	const text = `{type: object, properties: {spec: {type: object}, embedded: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}`
	id := schema.Identity{APIVersion: "example.com/v1", Kind: "Thing", Namespaced: true}
	t.Run("V-05", func(t *testing.T) {
		for _, sem := range both {
			p := compile(t, text, schema.WithSemantics(sem), schema.WithIdentity(id))
			for input, want := range map[string][]string{
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b","labels":{"k":"v"}},"spec":{}}`: nil,
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b"}}`:                              nil,
				`{"apiVersion":"example.com/v2","kind":"Other","metadata":{"name":"a","namespace":"b"}}`: {
					`apiVersion: Invalid value: "example.com/v2": must be example.com/v1`, `kind: Invalid value: "Other": must be Thing`,
				},
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`:      {`metadata.namespace: Required value`},
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"namespace":"b"}}`: {`metadata.name: Required value: name or generateName is required`},
				`{"apiVersion":"example.com/v1","kind":"Thing"}`:                              {`metadata.name: Required value: name or generateName is required`, `metadata.namespace: Required value`},
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b"},"embedded":{}}`: {
					`embedded.apiVersion: Required value`, `embedded.kind: Required value`,
				},
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b"},"embedded":{"apiVersion":"a/b/c","kind":"","metadata":{"name":"x/y"}}}`: {
					`embedded.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`, `embedded.kind: Invalid value: "": must not be empty`,
					`embedded.metadata.name: Invalid value: "x/y": may not contain '/'`,
				},
				`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"b"},"embedded":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"ok"},"x":1}}`: nil,
			} {
				obj, _, err := p.Decode([]byte(input), schema.DecodeOptions{})
				if err != nil {
					t.Errorf("%s: %v", input, err)
					continue
				}
				if got := errorsOf(p, obj, nil); !slices.Equal(got, want) {
					t.Errorf("%s: %s:\n got %q\nwant %q", sem, input, got, want)
				}
			}
		}
	})

	t.Run("P-14", func(t *testing.T) {
		for _, sem := range both {
			for _, opts := range [][]schema.Option{{schema.WithSemantics(sem)}, {schema.WithSemantics(sem), schema.WithPreserveUnknownFields()}} {
				p := compile(t, text, opts...)
				for input, want := range map[string]string{
					`{"metadata":{"name":"a","garbage":1}}`:                                                              `{"metadata":{"name":"a"}}`,
					`{"metadata":{"name":"a","creationTimestamp":null,"labels":{}}}`:                                     `{"metadata":{"name":"a"}}`,
					`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u","garbage":1}]}}`: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"n","uid":"u"}]}}`,
					`{"metadata":null}`: `{"metadata":{}}`,
					`{"embedded":{"metadata":{"name":"e","garbage":{"x":1}},"kept":1}}`:  `{"embedded":{"metadata":{"name":"e"},"kept":1}}`,
					`{"metadata":{"creationTimestamp":"2026-01-02T03:04:05.678+02:00"}}`: `{"metadata":{"creationTimestamp":"2026-01-02T01:04:05Z"}}`,
				} {
					obj, _, err := p.Decode([]byte(input), schema.DecodeOptions{})
					if err != nil {
						t.Errorf("%s: %v", input, err)
						continue
					}
					sameJSON(t, obj, want)
				}
				for input, want := range map[string]string{
					`{"metadata":5}`:                         "metadata: ",
					`{"metadata":{"name":5}}`:                "metadata: ",
					`{"kind":5}`:                             "kind: must be a string, not integer",
					`{"apiVersion":null}`:                    "apiVersion: must be a string, not null",
					`{"embedded":{"kind":{}}}`:               "embedded.kind: Invalid value: {}: must be a string",
					`{"embedded":{"metadata":{"labels":1}}}`: "embedded.metadata: Invalid value: ",
				} {
					_, _, err := p.Decode([]byte(input), schema.DecodeOptions{})
					var bad *schema.MetadataError
					if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), want) {
						t.Errorf("%s: got error %v, want %s", input, err, want)
					}
				}
				// What was stored before anybody looked is fixed, not rejected.
				for input, want := range map[string]string{
					`{"metadata":{"name":5,"namespace":"n"}}`:   `{"metadata":{"namespace":"n","generation":1}}`,
					`{"metadata":{"generation":3}}`:             `{"metadata":{"generation":3}}`,
					`{"metadata":{},"embedded":{"kind":5}}`:     `{"metadata":{"generation":1},"embedded":{}}`,
					`{"metadata":{},"embedded":{"metadata":5}}`: `{"metadata":{"generation":1},"embedded":{"metadata":5}}`,
				} {
					obj, _, err := p.Decode([]byte(input), schema.DecodeOptions{FromStorage: true})
					if err != nil {
						t.Errorf("%s: %v", input, err)
						continue
					}
					sameJSON(t, obj, want)
				}
			}
		}
	})
}

func TestContradictions(t *testing.T) {
	const text = `
type: object
properties:
  s: {type: string}
  i: {type: integer}
  num: {type: number, nullable: true}
  list: {type: array, items: {type: object, properties: {b: {type: boolean}}}}
  map: {type: object, additionalProperties: {type: integer}}
  any: {x-kubernetes-preserve-unknown-fields: true, type: object, properties: {deep: {type: string}}}
  ios: {x-kubernetes-int-or-string: true}
`
	t.Run("P-13", func(t *testing.T) {
		p := compile(t, text)
		for input, want := range map[string][]string{
			`{"s":5}`:                           {`s in body must be of type string: "integer"`},
			`{"i":"x","num":true}`:              {`i in body must be of type integer: "string"`, `num in body must be of type number: "boolean"`},
			`{"i":1.5}`:                         {`i in body must be of type integer: "number"`},
			`{"list":{}}`:                       {`list in body must be of type array: "object"`},
			`{"list":[{"b":1},3,null]}`:         {`list[0].b in body must be of type boolean: "integer"`, `list[1] in body must be of type object: "integer"`, `list[2] in body must be of type object: "null"`},
			`{"map":{"a":"x"}}`:                 {`map.a in body must be of type integer: "string"`},
			`{"any":5}`:                         {`any in body must be of type object: "integer"`},
			`{"unknown":5,"list":[{"x":[]}]}`:   nil,
			`{"i":1.0,"num":1,"ios":[]}`:        nil,
			`{"s":null,"num":null,"i":null}`:    nil,
			`{"any":{"deep":5}}`:                nil, // pruning does not run there
			`{"s":1,"s":"the last one counts"}`: nil,
		} {
			for _, report := range []bool{false, true} {
				_, _, err := p.Decode([]byte(input), schema.DecodeOptions{Report: report})
				if want == nil {
					if err != nil {
						t.Errorf("%s: %v", input, err)
					}
					continue
				}
				var bad *schema.ContradictionError
				if !errors.As(err, &bad) || err.Error() != strings.Join(want, "; ") {
					t.Errorf("%s: got %v, want %q", input, err, want)
					continue
				}
				if bad.Contradictions[0].Schema.String() == "" {
					t.Errorf("%s: the schema is not named", input)
				}
			}
		}
		// Nothing that was stored is rejected, nor what an update leaves as it was.
		if _, _, err := p.Decode([]byte(`{"s":5,"metadata":{}}`), schema.DecodeOptions{FromStorage: true}); err != nil {
			t.Errorf("from storage: %v", err)
		}
		old := object(t, `{"s":5,"list":[{"b":1}]}`)
		if _, _, err := p.Decode([]byte(`{"s":5,"list":[{"b":1}]}`), schema.DecodeOptions{Old: old}); err != nil {
			t.Errorf("unchanged: %v", err)
		}
		if _, _, err := p.Decode([]byte(`{"s":6,"list":[{"b":1}]}`), schema.DecodeOptions{Old: old}); err == nil {
			t.Error("a changed contradiction passes")
		}
		// kube-apiserver leaves it to validation.
		k := compile(t, text, schema.WithSemantics(schema.Kubernetes))
		obj, _, err := k.Decode([]byte(`{"s":5}`), schema.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := errorsOf(k, obj, nil), []string{`s: Invalid value: "integer": s in body must be of type string: "integer"`}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestReport(t *testing.T) {
	const text = `
type: object
properties:
  spec:
    type: object
    properties:
      replicas: {type: integer, default: 1}
      name: {type: string}
      list: {type: array, items: {type: object, properties: {port: {type: integer}}}}
`
	t.Run("P-22", func(t *testing.T) {
		const input = `{"metadata":{"name":"x","labelz":1},"spec":{"replica":3,"name":null,"list":[{"prt":1}],"list":[{"prt":2},{"other":{}}]},"top":1}`
		p := compile(t, text)
		obj, report, err := p.Decode([]byte(input), schema.DecodeOptions{})
		if err != nil || report != nil {
			t.Fatalf("report %v, error %v", report, err)
		}
		const want = `{"metadata":{"name":"x"},"spec":{"replicas":1,"list":[{},{}]}}`
		sameJSON(t, obj, want)
		obj, report, err = p.Decode([]byte(input), schema.DecodeOptions{Report: true})
		if err != nil {
			t.Fatal(err)
		}
		sameJSON(t, obj, want)
		if got, want := report.UnknownFields(), []string{"metadata.labelz", "spec.list[0].prt", "spec.list[1].other", "spec.replica", "top"}; !slices.Equal(got, want) {
			t.Errorf("unknown fields %q, want %q", got, want)
		}
		if got, want := report.DuplicateFields(), []string{"spec.list"}; !slices.Equal(got, want) {
			t.Errorf("duplicate fields %q, want %q", got, want)
		}
		// An object without duplicate fields is decoded in one pass.
		if _, report, err := p.Decode([]byte(`{"spec":{"replica":3,"list":[{"prt":1}]},"top":1}`), schema.DecodeOptions{Report: true}); err != nil {
			t.Fatal(err)
		} else if got, want := report.UnknownFields(), []string{"spec.list[0].prt", "spec.replica", "top"}; !slices.Equal(got, want) {
			t.Errorf("unknown fields %q, want %q", got, want)
		}
		// Fields of metadata are named as its decoder names them, whatever they are called.
		odd := compile(t, `{type: object, properties: {m: {type: object, additionalProperties: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}}}`)
		_, told, err := odd.Decode([]byte(`{"m":{"k":{"metadata":{"":1,"ownerReferences":[{"x":1}]}}},"metadata":{"y":1}}`), schema.DecodeOptions{Report: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := told.UnknownFields(), []string{"m[k].metadata.", "m[k].metadata.ownerReferences[0].x", "metadata.y"}; !slices.Equal(got, want) {
			t.Errorf("unknown fields %q, want %q", got, want)
		}
		// The last member counts, also when it is a null that goes.
		for _, report := range []bool{false, true} {
			obj, _, err := p.Decode([]byte(`{"spec":{"name":"x","name":null}}`), schema.DecodeOptions{Report: report})
			if err != nil {
				t.Fatal(err)
			}
			sameJSON(t, obj, `{"spec":{"replicas":1}}`)
		}
		var lines []string
		for _, c := range report.Changes {
			lines = append(lines, fmt.Sprintf("%s %s by %s nearest %q", c.Kind, c.Path.Pointer(), c.Schema, c.Nearest()))
		}
		for _, want := range []string{
			`pruned /spec/replica by .properties[spec] nearest "replicas"`,
			`pruned /spec/list/0/prt by .properties[spec].properties[list].items nearest "port"`,
			`pruned /spec/list/1/other by .properties[spec].properties[list].items nearest ""`,
			`null dropped /spec/name by .properties[spec].properties[name] nearest ""`,
			`defaulted /spec/replicas by .properties[spec].properties[replicas] nearest ""`,
			`duplicate /spec/list by  nearest ""`,
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
			}
		}
	})
}

func TestUnions(t *testing.T) {
	const text = `
type: object
properties:
  u:
    type: object
    x-kubernetes-unions:
    - discriminator: type
      fields: {a: A, b: B}
    properties:
      type: {type: string}
      a: {type: object}
      b: {type: object}
      other: {type: string}
`
	t.Run("S-14", func(t *testing.T) {
		p := compile(t, text)
		s, err := schema.NewStructural(props(t, text))
		if err != nil {
			t.Fatal(err)
		}
		// What is published, without the marker, must say the same.
		published := s.Unfold(schema.KEP)
		published.Properties["u"].XUnions = nil
		q, err := schema.Compile(published)
		if err != nil {
			t.Fatal(err)
		}
		k := compile(t, text, schema.WithSemantics(schema.Kubernetes))
		for _, tc := range []struct {
			object string
			want   string
		}{
			{`{"u":{}}`, "exactly one of a, b must be set, but none is"},
			{`{"u":{"type":"A"}}`, "exactly one of a, b must be set, but none is"},
			{`{"u":{"type":"C"}}`, "exactly one of a, b must be set, but none is"},
			{`{"u":{"a":{}}}`, ""},
			{`{"u":{"b":{},"other":"x"}}`, ""},
			{`{"u":{"a":{},"type":"A"}}`, ""},
			{`{"u":{"b":{},"type":"B"}}`, ""},
			{`{"u":{"a":{},"type":"B"}}`, `must be "A", because a is set`},
			{`{"u":{"a":{},"type":"C"}}`, `must be "A", because a is set`},
			{`{"u":{"a":{},"b":{}}}`, "exactly one of a, b must be set, but there are 2"},
			{`{"u":{"a":{},"b":{},"type":"A"}}`, "exactly one of a, b must be set, but there are 2"},
			{`{"u":{"a":{},"b":{},"type":"C"}}`, "exactly one of a, b must be set, but there are 2"},
		} {
			obj := object(t, tc.object)
			got := strings.Join(errorsOf(p, obj, nil), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%s: got %q, want %q", tc.object, got, tc.want)
			}
			if got := errorsOf(q, obj, nil); (len(got) == 0) != (tc.want == "") {
				t.Errorf("%s: the published form says %q, the server %q", tc.object, got, tc.want)
			}
			if got := errorsOf(k, obj, nil); len(got) > 0 {
				t.Errorf("%s: kube-apiserver does not know unions, but gives %q", tc.object, got)
			}
		}
	})
}
