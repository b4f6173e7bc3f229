package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const embeddedEverywhere = `{"type":"object","properties":{
	"list":{"type":"array","items":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
	"map":{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}},
	"o":{"type":"object","properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},"s":{"type":"string"}}},
	"own":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string"},"apiVersion":{"type":"string","nullable":true},
		"metadata":{"type":"object","properties":{"name":{"type":"string","default":"y"},"labels":{"type":"object","additionalProperties":{"type":"string"}}}}}},
	"open":{"type":"object","x-kubernetes-embedded-resource":true,"additionalProperties":true}}}`

// TestEmbeddedErrors checks that malformed metadata of an embedded resource is an error with its path,
// wherever the resource is, with a report and without.
func TestEmbeddedErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"list":[{"kind":"K"},{"kind":1}]}`: "list[1].kind: Invalid value: 1: must be a string", `{"map":{"a":{"kind":1}}}`: "map[a].kind: Invalid value: 1: must be a string",
		`{"o":{"pod":{"apiVersion":null}}}`: "o.pod.apiVersion: Invalid value: null: must be a string", `{"o":{"s":"x","unknown":1,"pod":{"apiVersion":true}}}`: "o.pod.apiVersion: Invalid value: true: must be a string",
		`{"own":{"kind":1,"apiVersion":"v1","metadata":{}}}`: "own.kind: Invalid value: 1: must be a string", `{"own":{"apiVersion":null}}`: "own.apiVersion: Invalid value: null: must be a string",
		`{"open":{"kind":null}}`: "open.kind: Invalid value: null: must be a string", `{"own":{"metadata":{"labels":5}}}`: `own.metadata: Invalid value: {"labels":5}: json: cannot unmarshal`,
		`{"list":[{"metadata":[]}]}`: "list[0].metadata: Invalid value: []: json: cannot unmarshal array",
	} {
		for _, report := range []bool{false, true} {
			p := compiled(t, embeddedEverywhere, WithSemantics(Kubernetes))
			_, err := p.Normalize(parsed(t, text).(map[string]any), DecodeOptions{Report: report})
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: report %t: got %v, want %s", text, report, err, want)
			}
		}
	}
}

// TestEmbeddedMetadata checks what a schema does to the metadata of an embedded resource: nulls that it
// does not allow are dropped, and defaults are filled in.
func TestEmbeddedMetadata(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		options    DecodeOptions
	}{
		{`{"own":{"metadata":{"labels":{"a":null,"b":"c"}}}}`, `{"own":{"metadata":{"labels":{"b":"c"},"name":"y"}}}`, DecodeOptions{}},
		{`{"own":{"metadata":{}}}`, `{"own":{"metadata":{"name":"y"}}}`, DecodeOptions{}},
		{`{"own":{"metadata":{}}}`, `{"own":{"metadata":{}}}`, DecodeOptions{WithoutDefaults: true}},
		{`{"open":{"kind":"K","metadata":{"name":"a","labels":{"a":"b"},"x":1}}}`, `{"open":{"kind":"K","metadata":{"name":"a","labels":{"a":"b"}}}}`, DecodeOptions{}},
		{`{"own":{"kind":1,"apiVersion":true,"metadata":5}}`, `{"own":{"metadata":5}}`, DecodeOptions{FromStorage: true}},
	} {
		for _, sem := range []Semantics{KEP, Kubernetes} {
			p := compiled(t, embeddedEverywhere, WithSemantics(sem))
			obj, _, err := p.Decode([]byte(tt.text), tt.options)
			if err != nil || !Equal(obj, parsed(t, tt.want)) {
				t.Errorf("%v: %s, %+v: got %v, %v, want %s", sem, tt.text, tt.options, obj, err, tt.want)
			}
			obj = parsed(t, tt.text).(map[string]any)
			if _, err := p.Normalize(obj, tt.options); err != nil || !Equal(obj, parsed(t, tt.want)) {
				t.Errorf("%v: %s, %+v: Normalize: got %v, %v, want %s", sem, tt.text, tt.options, obj, err, tt.want)
			}
		}
	}
}

// TestNormalizeReport checks that the changes of a tree are sorted, and that each contradiction is
// reported once.
func TestNormalizeReport(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{"z":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"},"d":{"type":"string","default":"x"}}},"y":{"type":"array","items":{"type":"string"}}}}`)
	report, err := p.Normalize(parsed(t, `{"z":{"a":null,"c":1},"x":1,"w":{},"y":["a",null]}`).(map[string]any), DecodeOptions{Report: true, FromStorage: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range report.Changes {
		got = append(got, c.Path.String()+" "+c.Kind.String())
	}
	if want := []string{"w pruned", "x pruned", "z.a null dropped", "z.c pruned", "z.d defaulted"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = p.Normalize(parsed(t, `{"z":{"a":1,"c":2,"b":true},"y":[1,"a",{}]}`).(map[string]any), DecodeOptions{})
	if want := `y[0] in body must be of type string: "integer"; y[2] in body must be of type string: "object"; z.a in body must be of type string: "integer"; z.b in body must be of type string: "boolean"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPathDelete checks that a field is deleted at any depth, and nothing else.
func TestPathDelete(t *testing.T) {
	for _, tt := range []struct {
		path Path
		want string
	}{
		{nil, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`}, {Path{{Key: "a"}}, `{"l":[{"d":1},2]}`}, {Path{{Key: "a"}, {Key: "b"}}, `{"a":{"c":2},"l":[{"d":1},2]}`},
		{Path{{Key: "l"}, {Index: 0, Kind: Index}, {Key: "d"}}, `{"a":{"b":1,"c":2},"l":[{},2]}`}, {Path{{Key: "l"}, {Index: 1, Kind: Index}}, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`},
		{Path{{Key: "x"}, {Key: "y"}}, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`}, {Path{{Key: "a", Kind: Index}}, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`}, {Path{{Key: "a", Kind: MapKey}}, `{"l":[{"d":1},2]}`},
		{Path{{Key: "l"}, {Index: 2, Kind: Index}, {Key: "d"}}, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`},
	} {
		v := parsed(t, `{"a":{"b":1,"c":2},"l":[{"d":1},2]}`)
		if tt.path.Delete(v); !Equal(v, parsed(t, tt.want)) {
			t.Errorf("%v: got %v, want %s", tt.path, v, tt.want)
		}
	}
}

// TestValidateMetadata checks the errors about metadata of an object and of an embedded resource, also
// if it is malformed, and in updates.
func TestValidateMetadata(t *testing.T) {
	p := compiled(t, `{"type":"object","properties":{"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`,
		WithIdentity(Identity{APIVersion: "g/v1", Kind: "Thing"}))
	const head = `{"apiVersion":"g/v1","kind":"Thing",`
	const fine = `"metadata":{"name":"a"},`
	for _, tt := range []struct{ text, old, want string }{
		{head + `"metadata":{"name":"a"}}`, ``, ""}, {head + `"metadata":{"name":"A b"}}`, ``, `metadata.name: Invalid value: "A b": a lowercase RFC 1123 subdomain`},
		{head + `"metadata":{"name":5}}`, ``, `metadata: Invalid value: {"name":5}: `}, {head + `"metadata":"x"}`, ``, `metadata: Invalid value: "x": expected map[string]interface{}, got string`}, {`{"apiVersion":"g/v1","kind":"Thing"}`, ``, `metadata.name: Required value`},
		{head + `"metadata":{"name":"b","resourceVersion":"1"}}`, head + `"metadata":{"name":"a"}}`, `metadata.name: Invalid value: "b": field is immutable`},
		{head + `"metadata":{"name":"a","resourceVersion":"1"}}`, head + `"metadata":{"name":"a"}}`, ``}, {head + `"metadata":{"name":"a"}}`, head + `"metadata":{"name":5}}`, `metadata: Invalid value: {"name":5}: `},
		{head + `"metadata":{"name":"a"}}`, head + `"metadata":[]}`, `metadata: Invalid value: []: expected map[string]interface{}, got []interface {}`},
		{head + fine + `"pod":{"apiVersion":"v1","kind":"Pod"}}`, ``, ``}, {head + fine + `"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"u"}}}`, ``, ``},
		{head + fine + `"pod":{"apiVersion":"v1","kind":1}}`, ``, `pod.kind: Invalid value: 1: must be a string`}, {head + fine + `"pod":{"apiVersion":"","kind":"K"}}`, ``, `pod.apiVersion: Invalid value: "": must not be empty`},
		{head + fine + `"pod":{"apiVersion":"a/b/c","kind":"K"}}`, ``, `pod.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string`}, {head + fine + `"pod":{"apiVersion":"v1","kind":"a b"}}`, ``, `pod.kind: Invalid value: "a b": may have mixed case, but should otherwise match: `}, {head + fine + `"pod":{"apiVersion":"v1"}}`, ``, `pod.kind: Required value`},
		{head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":5}}`, ``, `pod.metadata: Invalid value: 5: json: cannot unmarshal`}, {head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":{"name":{}}}}`, ``, `pod.metadata: Invalid value: {"name":{}}: json: cannot unmarshal`},
		{head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":{"name":"."}}}`, ``, `pod.metadata.name: Invalid value: ".": may not be '.'`}, {head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":{"generateName":"."}}}`, ``, ``},
		{head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":{"generateName":"a/b"}}}`, ``, `pod.metadata.generateName: Invalid value: "a/b": may not contain '/'`}, {head + fine + `"pod":{"apiVersion":"v1","kind":"K","metadata":{"labels":{"a":"b c"}}}}`, ``, `pod.metadata.labels: Invalid value: "b c": a valid label`},
	} {
		var old Object
		if tt.old != "" {
			old = parsed(t, tt.old).(map[string]any)
		}
		errs := p.Validate(context.Background(), parsed(t, tt.text).(map[string]any), old).FieldErrors()
		if tt.want == "" && len(errs) > 0 || tt.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tt.want)) {
			t.Errorf("%s, old %s: got %v, want %s", tt.text, tt.old, errs, tt.want)
		}
	}
	// Objects with common metadata and lists need no thorough walk.
	lists := compiled(t, `{"type":"object","properties":{
		"pod":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
		"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"free":{"type":"array"},
		"m":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}}}`)
	if !lists.holds(parsed(t, `{"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},"s":["a","b"],"m":[{"k":"a"},{"k":"b"}],"free":[1,{}]}`).(map[string]any)) {
		t.Error("the shortcut does not accept a common object")
	}
}

// TestMetadataErrorPath checks which value a field error about metadata is about.
func TestMetadataErrorPath(t *testing.T) {
	meta := parsed(t, `{"name":"n","namespace":"ns","labels":{"a.b/c":"x","[k]":"y"},"finalizers":["f","g"],"ownerReferences":[{"name":"o"},{"uid":"u"}]}`)
	for text, want := range map[string]string{
		"metadata": "metadata %v", "metadata.name": "metadata.name n", "metadata.namespace": "metadata.namespace ns", "metadata.uid": "metadata.uid <nil>",
		"metadata.labels": "metadata.labels map[[k]:y a.b/c:x]", "metadata.labels[a.b/c]": "metadata.labels.a.b/c x", "metadata.labels[[k]]": "metadata.labels.[k] y", "metadata.labels[z]": "metadata.labels map[[k]:y a.b/c:x]",
		"metadata.finalizers[1]": "metadata.finalizers[1] g", "metadata.ownerReferences[0].name": "metadata.ownerReferences[0].name o", "metadata.ownerReferences[1].uid": "metadata.ownerReferences[1].uid u", "metadata.ownerReferences[1].name": "metadata.ownerReferences[1].name <nil>",
		// The path ends where neither metadata nor its type has the next step.
		"metadata.finalizers[2]": "metadata.finalizers [f g]", "metadata.finalizers[-1]": "metadata.finalizers [f g]", "metadata.finalizers[x]": "metadata.finalizers [f g]", "metadata.finalizers[0": "metadata.finalizers [f g]", "metadata.finalizers]": "metadata %v", "metadata.finalizers[1]x": "metadata.finalizers [f g]",
		"metadata.unknown": "metadata %v", "metadata.names": "metadata %v", "metadata.name.x": "metadata.name n", "metadata[name]": "metadata %v", "spec.name": "metadata %v",
	} {
		path, value := metadataErrorPath(nil, meta, &field.Error{Field: text})
		if got := fmt.Sprintf("%s %v", path, value); got != strings.ReplaceAll(want, "%v", fmt.Sprint(meta)) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	path, value := metadataErrorPath(Path{{Key: "pods"}, {Index: 2, Kind: Index}}, meta, &field.Error{Field: "pods[2].metadata.name"})
	if got := fmt.Sprintf("%s %v", path, value); got != "pods[2].metadata.name n" {
		t.Errorf("got %s", got)
	}
	for _, odd := range []any{nil, "x", []any{"x"}} {
		if path, value := metadataErrorPath(nil, odd, &field.Error{Field: "metadata.name"}); path.String() != "metadata.name" || value != nil {
			t.Errorf("metadata %v: got %s, %v", odd, path, value)
		}
	}
}
