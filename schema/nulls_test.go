package schema_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"espalier.dev/schema"
)

// TestDropNulls checks that DropNulls drops the nulls that Normalize drops, and nothing else.
func TestDropNulls(t *testing.T) {
	t.Parallel()
	const text = `{"type": "object", "properties": {
		"kind": {"type": "string"}, "metadata": {"type": "object"}, "open": {"type": "object", "additionalProperties": true}, "plain": {"type": "string"}, "nullable": {"type": "string", "nullable": true}, "defaulted": {"type": "string", "default": "x"},
		"list": {"type": "array", "items": {"type": "object", "properties": {"plain": {"type": "string"}}}},
		"map": {"type": "object", "additionalProperties": {"type": "string"}},
		"free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"plain": {"type": "string"}}},
		"embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"kind": {"type": "string"}, "metadata": {"type": "object"}, "spec": {"type": "object"}}}}}`
	const object = `{"apiVersion": "example.com/v1", "kind": null, "metadata": null, "unknown": null,
		"plain": null, "nullable": null, "defaulted": null, "list": [null, {"plain": null, "unknown": null}], "map": {"a": null, "b": "c"}, "open": {"a": null},
		"free": {"plain": null, "free": null, "deep": {"a": null}}, "embedded": {"kind": "A", "metadata": null, "spec": null}}`
	const want = `{"apiVersion": "example.com/v1", "kind": null, "metadata": null, "unknown": null,
		"nullable": null, "defaulted": null, "list": [null, {"unknown": null}], "map": {"b": "c"}, "open": {"a": null},
		"free": {"free": null, "deep": {"a": null}}, "embedded": {"kind": "A"}}`
	parse := func(text string) (out schema.Object) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, preserve := range []bool{false, true} {
		obj, want := parse(object), parse(want)
		if preserve {
			want = parse(object) // nothing is dropped without pruning
		}
		structural, err := schema.NewStructural(props(t, text))
		if err != nil {
			t.Fatal(err)
		}
		var options []schema.Option
		if preserve {
			options = append(options, schema.WithPreserveUnknownFields())
		}
		program, err := schema.Compile(structural, options...)
		if err != nil {
			t.Fatal(err)
		}
		program.DropNulls(obj)
		if !reflect.DeepEqual(obj, want) {
			t.Errorf("preserve %v: got %v\nwant %v", preserve, obj, want)
		}
	}
}
