package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// meaning is a schema as a tree, in which nothing but the spelling is lost.
func meaning(t testing.TB, props *api.JSONSchemaProps) any {
	t.Helper()
	data, err := json.Marshal(props)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// parseJSONSchema reads a schema in JSON: unlike YAML, it tells 1.0 from 1.
func parseJSONSchema(t testing.TB, text string) *api.JSONSchemaProps {
	t.Helper()
	var props api.JSONSchemaProps
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &props); err != nil {
		t.Fatalf("schema: %v\n%s", err, text)
	}
	return &props
}

// roundTrip checks that a schema and its structural form say the same.
func roundTrip(t testing.TB, props *api.JSONSchemaProps) *schema.Structural {
	t.Helper()
	s, err := schema.NewStructural(props)
	if err != nil {
		t.Fatal(err)
	}
	back := s.ToJSONSchemaProps()
	if got, want := meaning(t, back), meaning(t, props); !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	again, err := schema.NewStructural(back)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, s) {
		t.Fatalf("got  %+v\nwant %+v", again, s)
	}
	return s
}

// unconvertible are the keywords that a Structural has no place for.
var unconvertible = []string{
	"id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions",
}

// keywords maps each keyword to a value of it.
var keywords = map[string]string{
	"id":                                   `"an-id"`,
	"$schema":                              `"http://json-schema.org/draft-04/schema#"`,
	"$ref":                                 `"#/definitions/a"`,
	"description":                          `"a description"`,
	"type":                                 `"object"`,
	"format":                               `"date"`,
	"title":                                `"a title"`,
	"default":                              `{"a":[1,1.0,-2.5e3,"x",null,true,9223372036854775807,9223372036854775808]}`,
	"maximum":                              `10.5`,
	"exclusiveMaximum":                     `true`,
	"minimum":                              `1`,
	"exclusiveMinimum":                     `true`,
	"maxLength":                            `5`,
	"minLength":                            `0`,
	"pattern":                              `"^a"`,
	"maxItems":                             `5`,
	"minItems":                             `0`,
	"uniqueItems":                          `true`,
	"multipleOf":                           `0.5`,
	"enum":                                 `["a",1,1.0,null,{"a":1}]`,
	"maxProperties":                        `5`,
	"minProperties":                        `0`,
	"required":                             `["a","b"]`,
	"items":                                `{"type":"string","nullable":true}`,
	"allOf":                                `[{"minimum":1},{"not":{"maximum":2}}]`,
	"oneOf":                                `[{"items":{"maxLength":1}},{"properties":{"a":{"maxLength":1}}}]`,
	"anyOf":                                `[{"additionalProperties":true},{"additionalProperties":false},{"additionalProperties":{"maxLength":1}}]`,
	"not":                                  `{"required":["a"]}`,
	"properties":                           `{"a":{"type":"string"},"":{}}`,
	"additionalProperties":                 `{"type":"string"}`,
	"patternProperties":                    `{"^a":{"type":"string"}}`,
	"dependencies":                         `{"a":["b"]}`,
	"additionalItems":                      `true`,
	"definitions":                          `{"a":{"type":"string"}}`,
	"externalDocs":                         `{"description":"d","url":"http://example.com"}`,
	"example":                              `"an \u00e4 example"`,
	"nullable":                             `true`,
	"readOnly":                             `true`,
	"x-kubernetes-preserve-unknown-fields": `true`,
	"x-kubernetes-embedded-resource":       `true`,
	"x-kubernetes-int-or-string":           `true`,
	"x-kubernetes-list-map-keys":           `["a"]`,
	"x-kubernetes-list-type":               `"map"`,
	"x-kubernetes-map-type":                `"atomic"`,
	"x-kubernetes-validations":             `[{"rule":"self > 1","message":"m","messageExpression":"'m'","reason":"FieldValueInvalid","fieldPath":".a","optionalOldSelf":true}]`,
	"x-kubernetes-unions":                  `[{"discriminator":"t","fields":{"a":"A"}}]`,
}

// places wraps a schema such that it stands in different places of another.
var places = map[string]string{
	"root":                    `%s`,
	"properties":              `{"properties":{"p":%s}}`,
	"items":                   `{"items":%s}`,
	"additionalProperties":    `{"additionalProperties":%s}`,
	"allOf":                   `{"allOf":[%s]}`,
	"oneOf":                   `{"oneOf":[{},%s]}`,
	"anyOf":                   `{"anyOf":[%s]}`,
	"not":                     `{"not":%s}`,
	"nested properties":       `{"not":{"properties":{"p":%s}}}`,
	"nested items":            `{"not":{"items":%s}}`,
	"nested map":              `{"not":{"additionalProperties":%s}}`,
	"nested logical operator": `{"not":{"anyOf":[%s]}}`,
}

func TestConvert(t *testing.T) {
	t.Run("S-01", func(t *testing.T) {
		t.Run("keywords", func(t *testing.T) {
			typ := reflect.TypeFor[api.JSONSchemaProps]()
			for i := range typ.NumField() {
				keyword, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
				value, ok := keywords[keyword]
				if !ok {
					t.Errorf("no value for %s", keyword)
				}
				for place, format := range places {
					text := fmt.Sprintf(format, fmt.Sprintf(`{%q:%s}`, keyword, value))
					t.Run(keyword+" in "+place, func(t *testing.T) {
						props := parseJSONSchema(t, text)
						if !slices.Contains(unconvertible, keyword) {
							roundTrip(t, props)
							return
						}
						_, err := schema.NewStructural(props)
						var ce *schema.ConversionError
						if !errors.As(err, &ce) || ce.Keyword != keyword {
							t.Errorf("got %v, want an error for %s", err, keyword)
						}
					})
				}
			}
		})
		t.Run("corpus", func(t *testing.T) {
			if testing.Short() {
				t.Skip("uses the corpus")
			}
			n := 0
			forEachCorpusSchema(t, func(name string, props *api.JSONSchemaProps) {
				t.Run(name, func(t *testing.T) { roundTrip(t, props) })
				n++
			})
			t.Logf("%d schemas", n)
		})
		t.Run("random", func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				roundTrip(t, parseJSONSchema(t, randomSchema(r, 4)))
			}
		})
		t.Run("what JSON cannot say", func(t *testing.T) {
			if s, err := schema.NewStructural(nil); s != nil || err != nil {
				t.Errorf("nil gives %v, %v", s, err)
			}
			if props := (*schema.Structural)(nil).ToJSONSchemaProps(); props != nil {
				t.Errorf("nil gives %v", props)
			}
			s := roundTrip(t, &api.JSONSchemaProps{Default: &api.JSON{}, Example: &api.JSON{Raw: []byte("null")}})
			if s.Default == nil || s.Default.Value != nil || s.Example == nil || s.Example.Value != nil {
				t.Errorf("default null gives %v, example null %v", s.Default, s.Example)
			}
		})
	})
	t.Run("S-17", func(t *testing.T) {
		s := roundTrip(t, parseSchema(t, `{properties: {a: {readOnly: true}}, not: {readOnly: true}}`))
		if s.ReadOnly || !s.Properties["a"].ReadOnly || !s.ValueValidation.Not.ForbiddenGenerics.ReadOnly {
			t.Errorf("readOnly is not where it was: %+v", s)
		}
	})
}

func TestConvertShape(t *testing.T) {
	t.Run("S-01", func(t *testing.T) {
		s := parseStructural(t, `
properties: {}
additionalProperties: false
items: {nullable: true}
not:
  properties: {}
  additionalProperties: false
anyOf:
- additionalProperties: {}
`)
		if s.Properties != nil {
			t.Error("empty properties are there")
		}
		if ap := s.AdditionalProperties; ap == nil || ap.Bool || ap.Structural != nil {
			t.Errorf("additionalProperties: false is %+v", ap)
		}
		if s.Items == nil || !s.Items.Nullable || s.Items.ValueValidation != nil {
			t.Errorf("items are %+v", s.Items)
		}
		not := s.ValueValidation.Not
		if not.Properties == nil {
			t.Error("empty properties under a logical operator are not there")
		}
		if ap := not.AdditionalProperties; ap == nil || ap.Bool || ap.Nested != nil {
			t.Errorf("nested additionalProperties: false is %+v", ap)
		}
		if ap := s.ValueValidation.AnyOf[0].AdditionalProperties; ap == nil || !ap.Bool || ap.Nested == nil {
			t.Errorf("nested additionalProperties: {} is %+v", ap)
		}
	})
	t.Run("values", func(t *testing.T) {
		for _, raw := range []string{
			`"a"`, `""`, `"a\n"`, `"\u00e4"`, "\"\u00e4\"", `"\ud800"`, `"a\"b"`, `true`, `false`, `null`,
			`0`, `-0`, `-0.0`, `1`, `-1`, `1.0`, `1e2`, `1.5`, `999999999999999999`, `9223372036854775807`,
			`9223372036854775808`, `-9223372036854775808`, `-9223372036854775809`, `1e300`,
			`[]`, `{}`, `[1,[2.0],{"b":1,"a":{"c":null}}]`, `{"<&>":"<&>"}`,
		} {
			var want any
			if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(raw), &want); err != nil {
				t.Fatal(err)
			}
			s, err := schema.NewStructural(&api.JSONSchemaProps{
				Default: &api.JSON{Raw: []byte(raw)},
				Enum:    []api.JSON{{Raw: []byte(raw)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []any{s.Default.Value, s.ValueValidation.Enum[0].Value} {
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s gives %#v, want %#v", raw, got, want)
				}
			}
			again, err := schema.NewStructural(s.ToJSONSchemaProps())
			if err != nil {
				t.Fatal(err)
			}
			if got := again.Default.Value; !reflect.DeepEqual(got, want) {
				t.Errorf("%s comes back as %#v, want %#v", raw, got, want)
			}
		}
	})
}

func TestConvertErrors(t *testing.T) {
	no := false
	deep := func(s api.JSONSchemaProps) *api.JSONSchemaProps {
		return &api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{
			"foo": {Items: &api.JSONSchemaPropsOrArray{Schema: &api.JSONSchemaProps{
				AnyOf: []api.JSONSchemaProps{{}, {AdditionalProperties: &api.JSONSchemaPropsOrBool{Schema: &s}}},
			}}},
		}}
	}
	tests := []struct {
		name, want string
		props      *api.JSONSchemaProps
	}{
		{
			"a list of items", ".properties[foo].items.anyOf[1].additionalProperties.items must be a schema, not a list of schemas",
			deep(api.JSONSchemaProps{Items: &api.JSONSchemaPropsOrArray{JSONSchemas: []api.JSONSchemaProps{{}}}}),
		},
		{
			"several types", ".properties[foo].items.anyOf[1].additionalProperties.type must be a single type, not a list of types",
			deep(api.JSONSchemaProps{Type: api.StringOrArray{"string", "null"}}),
		},
		{
			"preserve nothing", ".x-kubernetes-preserve-unknown-fields must be true or absent",
			&api.JSONSchemaProps{XPreserveUnknownFields: &no},
		},
		{
			"a reference", ".properties[foo].items.anyOf[1].additionalProperties.$ref is not supported in a structural schema",
			deep(*parseSchema(t, `{$ref: "#/definitions/a"}`)),
		},
		{
			"no JSON", ".enum is not valid JSON: invalid character 'x' looking for beginning of value",
			&api.JSONSchemaProps{Enum: []api.JSON{{Raw: []byte(`x`)}}},
		},
		{
			"a default and an example", ".default is not valid JSON: unexpected end of JSON input; .example is not valid JSON: invalid character 'x' looking for beginning of value",
			&api.JSONSchemaProps{Default: &api.JSON{Raw: []byte(`[`)}, Example: &api.JSON{Raw: []byte(`x`)}},
		},
		{
			"an error above fine schemas", ".id is not supported in a structural schema; .not.id is not supported in a structural schema",
			parseSchema(t, `{id: x, not: {id: x, properties: {a: {minLength: 1}}}, properties: {a: {type: string}}}`),
		},
		{
			"an error before fine values", ".enum is not valid JSON: invalid character 'x' looking for beginning of value",
			&api.JSONSchemaProps{Enum: []api.JSON{{Raw: []byte(`x`)}, {Raw: []byte(`"a"`)}}},
		},
		{
			"an error under a logical operator", ".not.id is not supported in a structural schema",
			parseSchema(t, `{not: {id: x, properties: {a: {minLength: 1}}}}`),
		},
		{
			"only what is wrong", ".id is not supported in a structural schema",
			parseSchema(t, `{id: x, $ref: "", type: string, x-kubernetes-preserve-unknown-fields: true}`),
		},
		{
			"nothing below an error", ".additionalItems is not supported in a structural schema; .definitions is not supported in a structural schema; " +
				".dependencies is not supported in a structural schema; .items must be a schema, not a list of schemas; .patternProperties is not supported in a structural schema",
			parseSchema(t, `{additionalItems: {id: x}, definitions: {a: {id: x}}, dependencies: {a: {id: x}}, items: [{id: x}], patternProperties: {a: {id: x}}}`),
		},
		{
			"in the order of paths", ".additionalProperties.id is not supported in a structural schema; .allOf[0].id is not supported in a structural schema; .items.id is not supported in a structural schema",
			parseSchema(t, `{items: {id: x}, allOf: [{id: x}], additionalProperties: {id: x}}`),
		},
		{
			"several errors, in order",
			".definitions is not supported in a structural schema; .id is not supported in a structural schema; " +
				".properties[a].$schema is not supported in a structural schema; .properties[b].$schema is not supported in a structural schema",
			parseSchema(t, `{id: x, definitions: {c: {}}, properties: {b: {$schema: x}, a: {$schema: x}}}`),
		},
	}
	for _, row := range []string{"S-01", "P-20"} {
		t.Run(row, func(t *testing.T) {
			for _, tt := range tests {
				if (row == "P-20") != (tt.props.XPreserveUnknownFields != nil) {
					continue
				}
				t.Run(tt.name, func(t *testing.T) {
					s, err := schema.NewStructural(tt.props)
					var all schema.ConversionErrors
					if s != nil || !errors.As(err, &all) || err.Error() != tt.want {
						t.Fatalf("got  %v\nwant %s", err, tt.want)
					}
					if path := all[0].Path.String() + "." + all[0].Keyword; !strings.HasPrefix(tt.want, path) {
						t.Errorf("got path and keyword %s", path)
					}
					if cause := all[0].Err; cause != nil && !errors.Is(err, cause) {
						t.Errorf("%v does not wrap %v", err, cause)
					}
				})
			}
		})
	}
}

// TestConvertHostile has an error at each of many levels: their paths together
// would fill gigabytes.
func TestConvertHostile(t *testing.T) {
	props := &api.JSONSchemaProps{ID: "x"}
	for range 10000 {
		props = &api.JSONSchemaProps{ID: "x", Items: &api.JSONSchemaPropsOrArray{Schema: props}}
	}
	_, err := schema.NewStructural(props)
	var all schema.ConversionErrors
	if !errors.As(err, &all) {
		t.Fatalf("got %v", err)
	}
	steps := 0
	for _, e := range all {
		steps += len(e.Path)
	}
	if steps > 2_000_000 || all[0].Error() != ".id is not supported in a structural schema" {
		t.Errorf("%d errors of %d steps, the first one %v", len(all), steps, all[0])
	}
}

// forEachCorpusSchema calls f for each schema of the corpus of real
// CustomResourceDefinitions, or of a part of it.
func forEachCorpusSchema(t *testing.T, f func(name string, props *api.JSONSchemaProps)) {
	t.Helper()
	root := testcase.Corpus(t)
	type holder struct {
		OpenAPIV3Schema *api.JSONSchemaProps `json:"openAPIV3Schema"`
	}
	type definition struct {
		Spec struct {
			Validation *holder `json:"validation"`
			Versions   []struct {
				Name   string  `json:"name"`
				Schema *holder `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	for _, dir := range []string{"v1", "v1beta1"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*", "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range testcase.Part(files) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var crd definition
			if err := yaml.Unmarshal(data, &crd); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			if v := crd.Spec.Validation; v != nil && v.OpenAPIV3Schema != nil {
				f(name, v.OpenAPIV3Schema)
			}
			for _, v := range crd.Spec.Versions {
				if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
					f(name+" "+v.Name, v.Schema.OpenAPIV3Schema)
				}
			}
		}
	}
}

// randomSchema writes a schema with a few random keywords at each level.
func randomSchema(r *rand.Rand, depth int) string {
	names := make([]string, 0, len(keywords))
	for name := range keywords {
		if !slices.Contains(unconvertible, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var parts []string
	for _, name := range names {
		if r.IntN(6) > 0 {
			continue
		}
		value := keywords[name]
		sub := func() string {
			if depth == 0 {
				return "{}"
			}
			return randomSchema(r, depth-1)
		}
		switch name {
		case "properties":
			value = fmt.Sprintf(`{"a":%s,"b":%s}`, sub(), sub())
		case "items", "not":
			value = sub()
		case "allOf", "anyOf", "oneOf":
			value = fmt.Sprintf(`[%s,%s]`, sub(), sub())
		case "additionalProperties":
			value = []string{"true", "false", sub()}[r.IntN(3)]
		}
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}
