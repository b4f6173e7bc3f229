package api

import (
	"bytes"
	"encoding/json"
	"path"
)

// DropForeign returns the JSON of a CRD, of either version, without the fields that
// kube-apiserver does not have (x-kubernetes-unions, readOnly, jsonSchema), and without
// [JSONSchemaAnnotation]. It drops them whatever they contain, so in its semantics they are
// neither stored nor a reason to reject a CRD. DropForeign returns data itself if there is nothing to drop. It ignores errors,
// which Unmarshal reports.
func DropForeign(data []byte) []byte { return dropForeign(data, false) }

// DropMalformedForeign is like [DropForeign], but drops only values that do not fit their type.
// It is for tools that report the others.
func DropMalformedForeign(data []byte) []byte { return dropForeign(data, true) }

func dropForeign(data []byte, malformed bool) []byte {
	if !bytes.Contains(data, []byte(`"x-kubernetes-unions"`)) &&
		!bytes.Contains(data, []byte(`"readOnly"`)) && !bytes.Contains(data, []byte(`"jsonSchema"`)) &&
		!bytes.Contains(data, []byte(path.Base(JSONSchemaAnnotation)+`"`)) { // the slash may be escaped
		return data
	}
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // so that numbers stay as they are written
	if d.Decode(&tree) != nil || d.More() {
		return data
	}
	f := foreign{malformed: malformed}
	f.annotation(tree)
	spec, _ := tree["spec"].(map[string]any)
	f.validation(spec, "validation")
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		version, _ := v.(map[string]any)
		f.validation(version, "schema")
	}
	if !f.dropped {
		return data
	}
	out, err := json.Marshal(tree)
	if err != nil {
		return data
	}
	return out
}

// foreign drops fields from a tree.
type foreign struct {
	// malformed is set if only values that do not fit their type are dropped.
	malformed bool
	dropped   bool
}

// drop drops a field. into has the type of the field.
func (f *foreign) drop(from map[string]any, name string, into any) {
	v, ok := from[name]
	if !ok {
		return
	}
	if f.malformed {
		if data, err := json.Marshal(v); err == nil && Unmarshal(data, into) == nil {
			return
		}
	}
	delete(from, name)
	f.dropped = true
}

// annotation drops the jsonSchema of v1. It is text, so it is never malformed here.
func (f *foreign) annotation(tree map[string]any) {
	meta, _ := tree["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if _, ok := annotations[JSONSchemaAnnotation]; !ok || f.malformed {
		return
	}
	f.dropped = true
	if delete(annotations, JSONSchemaAnnotation); len(annotations) == 0 {
		delete(meta, "annotations")
	}
}

func (f *foreign) validation(from map[string]any, name string) {
	m, _ := from[name].(map[string]any)
	if len(m) == 0 {
		return
	}
	f.schema(m["openAPIV3Schema"])
	if f.drop(m, "jsonSchema", new(JSONSchemaProps)); len(m) == 0 && !f.malformed {
		delete(from, name)
	}
}

func (f *foreign) schema(v any) {
	s, ok := v.(map[string]any)
	if !ok {
		return
	}
	f.drop(s, "x-kubernetes-unions", new([]Union))
	f.drop(s, "readOnly", new(bool))
	for _, k := range [...]string{"properties", "patternProperties", "definitions", "dependencies"} {
		m, _ := s[k].(map[string]any)
		for _, part := range m {
			f.schema(part)
		}
	}
	for _, k := range [...]string{"items", "additionalItems", "additionalProperties", "not", "allOf", "anyOf", "oneOf"} {
		f.schema(s[k])
		list, _ := s[k].([]any)
		for _, part := range list {
			f.schema(part)
		}
	}
}
