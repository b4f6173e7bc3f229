package schema_test

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestKeywordCases fails if a keyword has no value that passes, none that fails, or none of
// a wrong type in the cases of TestKeywords.
func TestKeywordCases(t *testing.T) {
	t.Run("V-06", func(t *testing.T) {
		type cases struct{ passing, failing, wrongType bool }
		found := map[string]*cases{}
		for _, tc := range append(keywordTests, formatTests()...) {
			var s map[string]any
			if err := yaml.Unmarshal([]byte(tc.schema), &s); err != nil {
				t.Fatal(err)
			}
			for keyword := range s {
				c := found[keyword]
				if c == nil {
					c = &cases{}
					found[keyword] = c
				}
				for _, k := range tc.cases {
					switch wrong := hasOtherType(t, s, k.value); {
					case !wrong && len(k.want) == 0:
						c.passing = true
					case !wrong:
						c.failing = true
					case len(k.want) > 0:
						c.wrongType = true
					}
				}
			}
		}
		for _, keyword := range []string{
			"type", "format", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "pattern",
			"maxItems", "minItems", "multipleOf", "enum", "maxProperties", "minProperties", "required", "items",
			"allOf", "oneOf", "anyOf", "not", "properties", "additionalProperties", "nullable",
		} {
			if c := found[keyword]; c == nil {
				t.Errorf("%s has no case", keyword)
			} else if *c != (cases{true, true, true}) {
				t.Errorf("%s does not have all cases: %+v", keyword, *c)
			}
		}
	})
}

// hasOtherType reports whether a JSON value has another type than a schema requires.
func hasOtherType(t *testing.T, s map[string]any, value string) bool {
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		t.Fatal(err)
	}
	var types []string
	switch v := v.(type) {
	case nil:
		return s["type"] != nil && s["nullable"] != true
	case float64:
		types = append(types, "number")
		if v == math.Trunc(v) {
			types = append(types, "integer")
		}
	case string:
		types = append(types, "string")
	case bool:
		types = append(types, "boolean")
	case []any:
		types = append(types, "array")
	case map[string]any:
		types = append(types, "object")
	}
	want, typed := s["type"].(string)
	return typed && !slices.Contains(types, want)
}
