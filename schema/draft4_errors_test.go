package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/api"
)

// TestJSONSchemaErrors checks that a jsonSchema is rejected for values that are wrong in any schema in it, and that
// the error names the place.
func TestJSONSchemaErrors(t *testing.T) {
	fails := func(s *api.JSONSchemaProps, want string) {
		t.Helper()
		p, err := CompileJSONSchema(s)
		if err == nil || p != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, %v, want %s", p, err, want)
		}
	}
	for keyword, value := range map[string]string{"x-kubernetes-unions": `[{"fields":{"a":"A"}}]`, "x-kubernetes-list-map-keys": `["k"]`, "x-kubernetes-preserve-unknown-fields": `false`} {
		fails(readSchema(t, fmt.Sprintf(`{"properties":{"a":{%q:%s}}}`, keyword, value)), ".properties[a]."+keyword+" is not supported in a jsonSchema")
	}
	malformed := func(s api.JSONSchemaProps) *api.JSONSchemaProps {
		return &api.JSONSchemaProps{Properties: map[string]api.JSONSchemaProps{"a": s}}
	}
	fails(malformed(api.JSONSchemaProps{Default: &api.JSON{Raw: []byte(`{`)}}), ".properties[a].default ")
	fails(malformed(api.JSONSchemaProps{Enum: []api.JSON{{Raw: []byte(`1`)}, {Raw: []byte(`[`)}}}), ".properties[a].enum ")
	fails(readSchema(t, `{"patternProperties":{"[":{}}}`), ".patternProperties[[].patternProperties ")
	deep := `{"type":"array","default":[{},{},{},{},{},{},{},{},{},{}]}`
	for range 8 {
		deep = `{"type":"array","default":[{},{},{},{},{},{},{},{},{},{}],"items":{"properties":{"x":` + deep + `}}}`
	}
	fails(readSchema(t, `{"properties":{"a":`+deep+`}}`), `.properties[a].default: must not have more than 65536 values`)
	if p, err := CompileJSONSchema(nil); err != nil || len(p.Validate(t.Context(), Object{"a": 1.5}, nil)) > 0 {
		t.Errorf("without a schema: got %v", err)
	}
}

// TestResolve checks which schema a reference stands for.
func TestResolve(t *testing.T) {
	ref := func(name string) api.JSONSchemaProps {
		to := "#/definitions/" + name
		return api.JSONSchemaProps{Ref: &to}
	}
	plain := api.JSONSchemaProps{Title: "plain"}
	definitions := map[string]api.JSONSchemaProps{"plain": plain, "once": ref("plain"), "twice": ref("once"), "loop": ref("loop"), "lost": ref("nothing"), "d0": plain}
	for i := range maxHops {
		definitions[fmt.Sprint("d", i+1)] = ref(fmt.Sprint("d", i))
	}
	for name, want := range map[string]bool{"plain": true, "once": true, "twice": true, "loop": false, "lost": false, "other": false, fmt.Sprint("d", maxHops-1): true, fmt.Sprint("d", maxHops): false} {
		s := ref(name)
		got := Resolve(&s, definitions)
		if want && got.Title != "plain" || !want && got != &s {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if Resolve(&plain, definitions) != &plain || Resolve(nil, definitions) != nil {
		t.Error("a schema without a reference is another one")
	}
}

// TestDefaultError checks the error about a default that is too large, at the limit.
func TestDefaultError(t *testing.T) {
	compile := func(values int, more string) error {
		list := make([]any, values)
		for i := range list {
			list[i] = map[string]any{}
		}
		s := mustStructural(t, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"`+more+`}}}}}}`)
		s.Properties["a"].Default = &JSON{Value: list}
		_, err := Compile(s)
		return err
	}
	if err := compile(maxDefaultValues-1, ""); err != nil {
		t.Errorf("at the limit: got %v", err)
	}
	err := compile(maxDefaultValues, "")
	if bad := (*DefaultError)(nil); !errors.As(err, &bad) || err.Error() != ".properties[a].default: must not have more than 65536 values, including the defaults below it" || errors.Unwrap(err) != bad.Err {
		t.Errorf("above the limit: got %v", err)
	}
	// Each item gets a field.
	if err := compile(maxDefaultValues/2-1, `,"default":"y"`); err != nil {
		t.Errorf("with defaults, below the limit: got %v", err)
	}
	if err := compile(maxDefaultValues/2, `,"default":"y"`); err == nil {
		t.Error("with defaults, above the limit: no error")
	}
}

// TestDefaultedValues compares the number of values that is computed with that after Default.
func TestDefaultedValues(t *testing.T) {
	p, err := Compile(mustStructural(t, `{"type":"object","properties":{
		"a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"array","items":{"type":"integer"},"default":[1,2,3]}}}},
		"m":{"type":"object","additionalProperties":{"type":"object","default":{"y":1},"properties":{"y":{"type":"integer"},"z":{"type":"integer","default":2}}}},
		"s":{"type":"string","default":"s"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var count func(v any) int
	count = func(v any) int {
		n := 1
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				n += count(x)
			}
		case []any:
			for _, x := range v {
				n += count(x)
			}
		}
		return n
	}
	obj := Object{"a": []any{map[string]any{}, map[string]any{"x": []any{}}, map[string]any{}}, "m": map[string]any{"k": nil, "l": map[string]any{"u": 1}}}
	got, low := p.DefaultedValues(obj, 1000), p.DefaultedValues(obj, 5)
	before := count(obj)
	if err := p.Default(obj); err != nil {
		t.Error(err)
	}
	if want := count(obj); got != want || want <= before || low != 6 {
		t.Errorf("got %d and, with a limit of 5, %d; want %d", got, low, want)
	}
}
