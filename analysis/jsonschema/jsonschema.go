// Package jsonschema writes the schema of a resource as a JSON Schema document, for editors and
// other tools that check manifests.
//
// A document needs no other file. It accepts every object that the API server accepts, as far as
// the author of the object writes it in YAML or JSON; it cannot express CEL rules, and what
// JSON Schema defines differently from Kubernetes is left out.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"slices"

	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Draft is the version of JSON Schema of the documents.
const Draft = "http://json-schema.org/draft-07/schema#"

// Options configure New.
type Options struct {
	// Strict rejects fields that the API server drops because it does not know them.
	Strict bool
	// GoTypes is set for Kubernetes' own kinds. A Go field that is null is the same as one that
	// is missing.
	GoTypes bool
}

// Schema is a JSON Schema.
type Schema map[string]any

// New returns the JSON Schema of a version.
func New(v *crd.Version, o Options) (Schema, error) {
	s, err := explain.SchemaOf(v)
	if err != nil {
		return nil, err
	}
	pruning := schema.PruningOn
	if s == nil {
		s = &schema.Structural{Generic: schema.Generic{Type: "object"}}
		pruning = schema.PruningOff
	}
	if v.Definition().PreservesUnknownFields() {
		pruning = schema.PruningOff
	}
	w := &writer{Options: o}
	root := explain.Resource(s)
	out := w.schema(root)
	w.structure(out, schema.NewCursor(root, v.Definition().Semantics(), pruning))
	if w.err != nil {
		return nil, w.err
	}
	gvk := v.GroupVersionKind()
	fields := out["properties"].(Schema)
	fields["apiVersion"].(Schema)["const"] = gvk.GroupVersion().String()
	fields["kind"].(Schema)["const"] = gvk.Kind
	for _, name := range []string{"apiVersion", "kind"} {
		fields[name].(Schema)["type"] = "string"
		out.require(name)
	}
	out["$schema"] = Draft
	out["x-kubernetes-group-version-kind"] = []any{Schema{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}
	return out, nil
}

// writer writes schemas.
type writer struct {
	Options
	err error
}

// schema returns a schema in the form that a CRD has.
func (w *writer) schema(s *schema.Structural) Schema {
	text, err := json.Marshal(s.ToJSONSchemaProps())
	if err != nil {
		w.err = err
		return Schema{}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		w.err = err
	}
	return convert(out).(Schema)
}

// convert replaces all objects of a JSON value by Schemas.
func convert(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			v[name] = convert(x)
		}
		return Schema(v)
	case []any:
		for i, x := range v {
			v[i] = convert(x)
		}
	}
	return v
}

// structure rewrites the schema of a value and of its fields and items. at is the place of the
// value.
func (w *writer) structure(out Schema, at schema.Cursor) {
	s := at.Schema()
	if s == nil {
		return
	}
	required, _ := out["required"].([]any)
	if fields, ok := out["properties"].(Schema); ok {
		for name, field := range fields {
			child, _ := at.Field(name)
			null := child.Schema().Default != nil || (w.GoTypes || child.InMetadata()) && !slices.Contains(required, any(name))
			fields[name] = w.value(field.(Schema), child, null)
		}
	}
	if items, ok := out["items"].(Schema); ok {
		child := at.Items()
		out["items"] = w.value(items, child, w.GoTypes && isScalar(child.Schema()))
	}
	if values, ok := out["additionalProperties"].(Schema); ok {
		child, _ := at.MapValue()
		out["additionalProperties"] = w.value(values, child, (w.GoTypes || at.InMetadata()) && isScalar(child.Schema()))
	}
	object := s.Type == "object" || len(s.Properties) > 0
	known := at.Prunes() || at.InMetadata() && !s.XPreserveUnknownFields
	if w.Strict && object && known && s.AdditionalProperties == nil {
		out["additionalProperties"] = false
	}
	w.keywords(out)
}

// value rewrites the schema of a field, item or map value. If null is set, the value may be null.
func (w *writer) value(out Schema, at schema.Cursor, null bool) Schema {
	s := at.Schema()
	null = null || s.Nullable
	if s.XEmbeddedResource {
		s = explain.Resource(s)
		out, at = w.schema(s), at.WithSchema(s)
		out.require("apiVersion")
		out.require("kind")
	}
	w.structure(out, at)
	if null {
		return out.orNull()
	}
	return out
}

// isScalar reports whether a schema specifies neither an object nor an array.
func isScalar(s *schema.Structural) bool { return s.Type != "object" && s.Type != "array" }
