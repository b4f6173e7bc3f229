// Package jsonschema writes the schema of a resource as a JSON Schema document, for editors and
// other tools that check manifests.
//
// A document needs no other file. It accepts the objects that the API server accepts, and checks
// them as they are written: the API server applies defaults before validation, which matters to
// conditions under logical operators. CEL rules, and keywords that JSON Schema defines
// differently, are left out.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"maps"
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
	// GoTypes is set for Kubernetes' own kinds. The title of a schema is then the name of a type
	// that refers to itself.
	GoTypes bool
	// SingleTypes writes no lists of types, such as ["string", "null"], which some tools cannot
	// read: they become alternatives of anyOf.
	SingleTypes bool
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
	if o.GoTypes && v.HasStatus() {
		// The status of a created object is ignored.
		fields["status"].(Schema).optional()
	}
	if len(w.definitions) > 0 {
		out["definitions"] = w.definitions
	}
	if o.SingleTypes {
		out = single(out)
	}
	out["$schema"] = Draft
	out["x-kubernetes-group-version-kind"] = []any{Schema{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}
	return out, nil
}

// writer writes schemas.
type writer struct {
	Options
	// definitions are the types that refer to themselves.
	definitions Schema
	err         error
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
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			child, _ := at.Field(name)
			if child.Schema().Default != nil {
				required = slices.DeleteFunc(required, func(other any) bool { return other == name })
			}
			// The API server drops a null that is not valid.
			fields[name] = w.value(fields[name].(Schema), child, !slices.Contains(required, any(name)))
		}
		if out["required"] = required; len(required) == 0 {
			delete(out, "required")
		}
	}
	if items, ok := out["items"].(Schema); ok {
		child := at.Items()
		out["items"] = w.value(items, child, w.GoTypes && isScalar(child.Schema()))
	}
	if values, ok := out["additionalProperties"].(Schema); ok {
		child, _ := at.MapValue()
		// Nulls of Go types become zero values; those of custom resources are dropped, as in
		// fields.
		out["additionalProperties"] = w.value(values, child, !w.GoTypes || isScalar(child.Schema()))
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
	if w.GoTypes && s.Title != "" {
		out = w.reference(out, at)
	} else {
		w.structure(out, at)
	}
	if null {
		return out.orNull()
	}
	return out
}

// reference returns a reference to the definition of a type that refers to itself. The first
// schema of the type is the one around all others, which is complete.
func (w *writer) reference(out Schema, at schema.Cursor) Schema {
	name := at.Schema().Title
	ref := Schema{"allOf": []any{Schema{"$ref": "#/definitions/" + name}}}
	if text, ok := out["description"]; ok {
		ref["description"] = text
	}
	if _, ok := w.definitions[name]; !ok {
		if w.definitions == nil {
			w.definitions = Schema{}
		}
		w.definitions[name] = out
		w.structure(out, at)
	}
	return ref
}

// isScalar reports whether a schema specifies neither an object nor an array.
func isScalar(s *schema.Structural) bool { return s.Type != "object" && s.Type != "array" }
