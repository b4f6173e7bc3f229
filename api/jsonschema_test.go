package api_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	kjson "sigs.k8s.io/json"

	"espalier.dev/api"
)

// document004 are the fields of JSONSchemaProps in the design of 2017, by name and
// JSON name. The document forgot the names of the first two.
var document004 = map[string]string{
	"Schema": "$schema", "Ref": "$ref",
	"ID": "id", "Description": "description", "Type": "type", "Format": "format", "Title": "title",
	"Default": "default", "Maximum": "maximum", "ExclusiveMaximum": "exclusiveMaximum", "Minimum": "minimum",
	"ExclusiveMinimum": "exclusiveMinimum", "MaxLength": "maxLength", "MinLength": "minLength", "Pattern": "pattern",
	"MaxItems": "maxItems", "MinItems": "minItems", "UniqueItems": "uniqueItems", "MultipleOf": "multipleOf",
	"Enum": "enum", "MaxProperties": "maxProperties", "MinProperties": "minProperties", "Required": "required",
	"Items": "items", "AllOf": "allOf", "OneOf": "oneOf", "AnyOf": "anyOf", "Not": "not", "Properties": "properties",
	"AdditionalProperties": "additionalProperties", "PatternProperties": "patternProperties",
	"Dependencies": "dependencies", "AdditionalItems": "additionalItems", "Definitions": "definitions",
}

// schemas are written so that they come out as they go in.
var schemas = map[string]string{
	"empty":                       `{}`,
	"type, a string":              `{"type":"object"}`,
	"type, a list":                `{"type":["object","null"]}`,
	"items, a schema":             `{"items":{"type":"string"}}`,
	"items, an empty schema":      `{"items":{}}`,
	"items, a list":               `{"items":[{"type":"string"},{}]}`,
	"items, an empty list":        `{"items":[]}`,
	"additionalProperties, false": `{"additionalProperties":false}`,
	"additionalProperties, true":  `{"additionalProperties":true}`,
	"additionalProperties":        `{"additionalProperties":{"type":"string"}}`,
	"additionalProperties, empty": `{"additionalProperties":{}}`,
	"additionalItems, false":      `{"additionalItems":false}`,
	"additionalItems":             `{"additionalItems":{"minimum":0}}`,
	"dependencies, a list":        `{"dependencies":{"a":["b","c"]}}`,
	"dependencies, an empty list": `{"dependencies":{"a":[]}}`,
	"dependencies, a schema":      `{"dependencies":{"a":{"required":["b"]}}}`,
	"dependencies, empty schema":  `{"dependencies":{"a":{}}}`,
	"zeros that say something":    `{"maximum":0,"minimum":0,"multipleOf":0,"maxLength":0,"minItems":0,"maxProperties":0}`,
	"references":                  `{"$schema":"http://json-schema.org/draft-04/schema#","id":"i","$ref":"#/definitions/a","definitions":{"a":{}}}`,
	"values":                      `{"default":{"a":[1,1.5,null]},"example":false,"enum":[null,0,"",false,[],{}]}`,
	"digits":                      `{"default":12345678901234567890.123456789012345678901234567890}`,
	"nullable, readOnly":          `{"nullable":true,"readOnly":true}`,
	"preserve, false":             `{"x-kubernetes-preserve-unknown-fields":false}`,
	"extensions":                  `{"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true,"x-kubernetes-int-or-string":true,"x-kubernetes-list-map-keys":["k"],"x-kubernetes-list-type":"map","x-kubernetes-map-type":"atomic"}`,
	"rules":                       `{"x-kubernetes-validations":[{"rule":"true","message":"m","messageExpression":"e","reason":"FieldValueRequired","fieldPath":".f","optionalOldSelf":false}]}`,
	"unions":                      `{"x-kubernetes-unions":[{"discriminator":"d","fields":{"a":"A","b":""}},{"fields":{"c":"c"}}]}`,
	"logical operators":           `{"allOf":[{}],"oneOf":[{"not":{}}],"anyOf":[{"properties":{"a":{}}}],"not":{"required":["a"]}}`,
	"maps":                        `{"properties":{"a":{},"b":{"type":"string"}},"patternProperties":{"^a":{}},"externalDocs":{"url":"u","description":"d"}}`,
}

func TestJSONSchemaProps(t *testing.T) {
	t.Run("V-03", func(t *testing.T) {
		typ := reflect.TypeFor[api.JSONSchemaProps]()
		for name, jsonName := range document004 {
			f, ok := typ.FieldByName(name)
			if !ok {
				t.Errorf("JSONSchemaProps has no field %s", name)
				continue
			}
			if got, options, _ := strings.Cut(f.Tag.Get("json"), ","); got != jsonName || !strings.HasPrefix(options, "omitempty") {
				t.Errorf("%s is %q in JSON, want %q and omitempty", name, f.Tag.Get("json"), jsonName)
			}
		}
		seen := map[string]bool{}
		for name, text := range schemas {
			var s api.JSONSchemaProps
			if err := api.Unmarshal([]byte(text), &s); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			got, err := json.Marshal(&s)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if diff := differences(generic(t, got), generic(t, []byte(text)), ""); diff != nil {
				t.Errorf("%s: %s became %s", name, text, got)
			}
			copied, err := json.Marshal(s.DeepCopy())
			if err != nil || string(copied) != string(got) {
				t.Errorf("%s: the copy of %s is %s (%v)", name, got, copied, err)
			}
			collectKeywords(generic(t, []byte(text)), seen)
		}
		for i := range typ.NumField() {
			if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); !seen[name] && !plain(typ.Field(i).Type) {
				t.Errorf("no example above has %s", name)
			}
		}
	})
}

// plain reports whether a value of the type cannot come out other than it went in.
func plain(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

func collectKeywords(v any, seen map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			seen[k] = true
			collectKeywords(e, seen)
		}
	case []any:
		for _, e := range v {
			collectKeywords(e, seen)
		}
	}
}

// What decoding changes, for documents that Kubernetes takes too.
func TestLenientSchemas(t *testing.T) {
	for _, tt := range []struct{ in, out string }{
		{`{"type":["object"]}`, `{"type":"object"}`},
		{`{"type":""}`, `{}`},
		{`{"type":null,"items":null,"default":null,"additionalProperties":null}`, `{}`},
		{`{"items":true}`, `{}`},
		{`{"type":[""]}`, `{"type":[""]}`},
		{`{"dependencies":{"a":1}}`, `{"dependencies":{"a":null}}`},
		{`{"enum":[],"required":[],"properties":{},"nullable":false}`, `{}`},
		{`{"Type":"object","unknown":1}`, `{}`},
	} {
		var s api.JSONSchemaProps
		if err := api.Unmarshal([]byte(tt.in), &s); err != nil {
			t.Errorf("%s: %v", tt.in, err)
			continue
		}
		if got, err := json.Marshal(s); err != nil || string(got) != tt.out {
			t.Errorf("%s became %s (%v), want %s", tt.in, got, err, tt.out)
		}
	}
}

// TestToUnstructured compares the tree of a schema with its decoded JSON.
func TestToUnstructured(t *testing.T) {
	t.Parallel()
	const text = `{"type":"object","maxProperties":3,"properties":{
		"n":{"type":"number","maximum":1.5,"minimum":-2,"default":7,"enum":[1,2.5,"x",null,{"a":[9007199254740993]}]},
		"s":{"type":"string","pattern":"^\\d+$","description":"<é\u0000>"},
		"m":{"type":"object","additionalProperties":{"type":"boolean"}},
		"l":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}}}`
	var s api.JSONSchemaProps
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	var want any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	got, err := s.ToUnstructuredWithError()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%v\nwant\n%v", err, got, want)
	}
}
