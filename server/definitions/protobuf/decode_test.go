package protobuf

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"espalier.dev/api/codec"
)

// pb writes a message: pairs of a number and a value, which is a string, a bool, an
// integer, a float or a message.
func pb(pairs ...any) (out []byte) {
	for i := 0; i < len(pairs); i += 2 {
		n := protowire.Number(pairs[i].(int))
		switch v := pairs[i+1].(type) {
		case string:
			out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), v)
		case []byte:
			out = protowire.AppendBytes(protowire.AppendTag(out, n, protowire.BytesType), v)
		case bool:
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), protowire.EncodeBool(v))
		case int:
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), uint64(v))
		case float64:
			out = protowire.AppendFixed64(protowire.AppendTag(out, n, protowire.Fixed64Type), math.Float64bits(v))
		}
	}
	return out
}

// envelope is how Kubernetes sends a message.
func envelope(t testing.TB, apiVersion string, message []byte) []byte {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: "CustomResourceDefinition"}, Raw: message}
	data, err := u.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), data...)
}

func sampleMessage(t testing.TB) []byte {
	meta, err := (&metav1.ObjectMeta{Name: "things.example.com", Labels: map[string]string{"a": "b"}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(typ string, more ...any) []byte { return pb(append([]any{1, "", 5, typ, 18, false}, more...)...) }
	entry := func(name string, schema []byte) []byte { return pb(1, name, 2, schema) }
	spec := leaf("object",
		29, entry("count", leaf("integer", 9, 10.5, 13, 0, 8, pb(1, []byte("7")))),
		29, entry("list", leaf("array", 24, pb(1, leaf("string", 20, pb(1, []byte(`"x"`)))), 42, "set")),
		29, entry("map", leaf("object", 30, pb(1, true, 2, leaf("boolean", 37, true)))),
		29, entry("any", leaf("object", 30, pb(1, true), 38, true)),
		29, entry("none", leaf("object", 30, pb(1, false))),
		23, "count", 44, pb(1, "self.count > 1", 2, "more"))
	version := pb(1, "v1", 2, true, 3, true, 4, pb(1, leaf("object", 29, entry("spec", spec))), 5, pb(1, pb(), 2, pb(1, ".spec.count", 2, ".status.count")),
		6, pb(1, "Count", 2, "integer", 5, 1, 6, ".spec.count"))
	names := pb(1, "things", 2, "thing", 3, "th", 3, "thg", 4, "Thing", 5, "ThingList")
	return pb(1, meta, 2, pb(1, "example.com", 3, names, 4, "Namespaced", 7, version, 9, pb(1, "None"), 99, "from the future"), 3, pb())
}

func TestDecode(t *testing.T) {
	data, err := Decode(envelope(t, "apiextensions.k8s.io/v1", sampleMessage(t)))
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com, labels: {a: b}}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, shortNames: [th, thg], kind: Thing, listKind: ThingList}
  conversion: {strategy: None}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
    additionalPrinterColumns: [{name: Count, type: integer, priority: 1, jsonPath: .spec.count}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [count]
            x-kubernetes-validations: [{rule: self.count > 1, message: more}]
            properties:
              count: {type: integer, maximum: 10.5, maxLength: 0, default: 7}
              list: {type: array, items: {type: string, enum: [x]}, x-kubernetes-list-type: set}
              map: {type: object, additionalProperties: {type: boolean, nullable: true}}
              any: {type: object, additionalProperties: true, x-kubernetes-preserve-unknown-fields: true}
              none: {type: object, additionalProperties: false}
status: {}
`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		text, _ := yaml.Marshal(got)
		t.Errorf("got\n%s", text)
	}
	if _, err := codec.Decode(data); err != nil {
		t.Error(err)
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":      {nil, "does not begin"},
		"JSON":         {[]byte(`{"kind":"CustomResourceDefinition"}`), "does not begin"},
		"cut off":      {envelope(t, "apiextensions.k8s.io/v1", sampleMessage(t)[:60]), "protobuf: CustomResourceDefinition"},
		"a wrong type": {envelope(t, "apiextensions.k8s.io/v1", pb(2, 7)), "CustomResourceDefinition.spec: wire type"},
	} {
		if _, err := Decode(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A schema in a schema, and so on.
	deep := pb(5, "object")
	for range maxDepth + 10 {
		if deep = pb(28, deep); len(deep) > 1<<20 {
			break
		}
	}
	if _, err := Decode(envelope(t, "apiextensions.k8s.io/v1", pb(2, pb(7, pb(4, pb(1, deep)))))); err == nil || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("deep: %.200v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(envelope(f, "apiextensions.k8s.io/v1", sampleMessage(f)))
	f.Add(envelope(f, "apiextensions.k8s.io/v1beta1", pb(2, pb(1, "example.com", 2, "v1", 5, pb(1, pb(5, "object")), 10, false))))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Decode(data)
		if err == nil && !json.Valid(out) {
			t.Errorf("no JSON: %s", out)
		}
	})
}
