package schema

import (
	"iter"
	"maps"
	"slices"

	"espalier.dev/api"
)

// Subschemas returns the direct subschemas of s, each with the step that leads to it:
// those of every keyword, including the logical operators and draft 4. The order is
// deterministic; names are sorted. A schema in a map is a copy.
func Subschemas(s *api.JSONSchemaProps) iter.Seq2[SchemaStep, *api.JSONSchemaProps] {
	return func(yield func(SchemaStep, *api.JSONSchemaProps) bool) {
		if s == nil {
			return
		}
		y := subschemaYield(yield)
		more := (s.Items == nil || y.one("items", s.Items.Schema) && y.list("items", s.Items.JSONSchemas)) &&
			y.list("allOf", s.AllOf) &&
			y.list("anyOf", s.AnyOf) &&
			y.list("oneOf", s.OneOf) &&
			y.one("not", s.Not) &&
			y.byName("properties", s.Properties) &&
			y.byName("patternProperties", s.PatternProperties) &&
			y.byName("definitions", s.Definitions) &&
			(s.AdditionalProperties == nil || y.one("additionalProperties", s.AdditionalProperties.Schema)) &&
			(s.AdditionalItems == nil || y.one("additionalItems", s.AdditionalItems.Schema))
		if more {
			y.dependencies(s.Dependencies)
		}
	}
}

// subschemaYield yields the schemas of one keyword. Most of its methods return false if the
// caller of Subschemas wants to stop.
type subschemaYield func(SchemaStep, *api.JSONSchemaProps) bool

func (y subschemaYield) one(key string, s *api.JSONSchemaProps) bool {
	return s == nil || y(keyword(key), s)
}

func (y subschemaYield) list(key string, schemas []api.JSONSchemaProps) bool {
	for i := range schemas {
		if !y(indexed(key, i), &schemas[i]) {
			return false
		}
	}
	return true
}

func (y subschemaYield) byName(key string, schemas map[string]api.JSONSchemaProps) bool {
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		s := schemas[name]
		if !y(named(key, name), &s) {
			return false
		}
	}
	return true
}

// dependencies yields the schemas of the last keyword.
func (y subschemaYield) dependencies(all map[string]api.JSONSchemaPropsOrStringArray) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if s := all[name].Schema; s != nil && !y(named("dependencies", name), s) {
			return
		}
	}
}

// WalkSubschemas calls visit with s and all schemas below it, parents first. visit
// returns whether to descend into the schema. The path leads from s to the schema; it
// is valid only during the call.
func WalkSubschemas(s *api.JSONSchemaProps, visit func(SchemaPath, *api.JSONSchemaProps) bool) {
	if s != nil {
		walkSubschemas(nil, s, visit)
	}
}

func walkSubschemas(path SchemaPath, s *api.JSONSchemaProps, visit func(SchemaPath, *api.JSONSchemaProps) bool) {
	if !visit(path, s) {
		return
	}
	for step, sub := range Subschemas(s) {
		walkSubschemas(append(path, step), sub, visit)
	}
}

// AnySubschema reports whether has returns true for s or any schema below it.
func AnySubschema(s *api.JSONSchemaProps, has func(*api.JSONSchemaProps) bool) bool {
	if s == nil {
		return false
	}
	if has(s) {
		return true
	}
	for _, sub := range Subschemas(s) {
		if AnySubschema(sub, has) {
			return true
		}
	}
	return false
}
