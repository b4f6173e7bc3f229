package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"espalier.dev/api"
)

// Every way to nest schemas takes time that is linear in the text, to the depth at
// which the decoder gives up, and so does finding the place of an error.
func TestDeepNesting(t *testing.T) {
	depth, size := 3300, 1<<20
	if testing.Short() {
		depth, size = 700, 1<<16
	}
	padding := `"description":"` + strings.Repeat("x", size) + `"`
	for name, open := range map[string]string{
		"not":                  `{"not":`,
		"items":                `{"items":`,
		"items, a list":        `{"items":[`,
		"additionalProperties": `{"additionalProperties":`,
		"dependencies":         `{"dependencies":{"a":`,
		"properties":           `{"properties":{"a":`,
	} {
		closing := strings.NewReplacer("{", "}", "[", "]").Replace(strings.Join(strings.FieldsFunc(open, func(r rune) bool { return r != '{' && r != '[' }), ""))
		nest := func(depth int, inner string) []byte {
			return []byte(strings.Repeat(open, depth) + inner + strings.Repeat(reverse(closing), depth))
		}
		s := &api.JSONSchemaProps{}
		if err := api.Unmarshal(nest(depth, "{"+padding+"}"), s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, err := json.Marshal(s.DeepCopy())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := string(nest(depth, "{"+padding+"}")); string(data) != want {
			t.Errorf("%s: comes out different", name)
		}
		if err := api.Unmarshal(nest(depth, `{"type":5,`+padding+`}`), s); err == nil || !strings.HasSuffix(err.Error(), "type: expected a string or a list of strings, got 5") {
			t.Errorf("%s: got %v", name, err)
		}
		// Scanning a megabyte for each level would take minutes.
		if err := api.Unmarshal(nest(100_000, "{}"), s); err == nil || !strings.Contains(err.Error(), "exceeded max depth") {
			t.Errorf("%s, 100,000 levels: got %v", name, err)
		}
	}
}

func reverse(s string) string {
	b := []byte(s)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return string(b)
}

// Methods that decode may be called by anybody, with anything.
func TestUnmarshalJSONOfNoJSON(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a"`, `"`, `[1,`, `{"type":"\`, `nul`, `{}{}`} {
		for _, v := range []json.Unmarshaler{
			&api.JSONSchemaProps{}, &api.JSON{}, new(api.StringOrArray), &api.JSONSchemaPropsOrBool{},
			&api.JSONSchemaPropsOrArray{}, &api.JSONSchemaPropsOrStringArray{},
		} {
			if err := v.UnmarshalJSON([]byte(text)); err == nil {
				t.Errorf("%T takes %q", v, text)
			}
		}
	}
	if _, err := json.Marshal(api.JSON{Raw: []byte("{")}); err == nil {
		t.Error("bytes that are no JSON are written")
	}
}
