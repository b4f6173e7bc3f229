package crd

import (
	"maps"
	"slices"

	"espalier.dev/api"
)

// anyBelow says whether s or any schema below it has something: those under
// junctors and the keywords of draft 4 count too.
func anyBelow(s *api.JSONSchemaProps, has func(*api.JSONSchemaProps) bool) bool {
	if s == nil {
		return false
	}
	if has(s) {
		return true
	}
	if s.Items != nil {
		if anyBelow(s.Items.Schema, has) || anyOf(s.Items.JSONSchemas, has) {
			return true
		}
	}
	if anyOf(s.AllOf, has) || anyOf(s.AnyOf, has) || anyOf(s.OneOf, has) || anyBelow(s.Not, has) {
		return true
	}
	if anyIn(s.Properties, has) || anyIn(s.PatternProperties, has) || anyIn(s.Definitions, has) {
		return true
	}
	if s.AdditionalProperties != nil && anyBelow(s.AdditionalProperties.Schema, has) {
		return true
	}
	if s.AdditionalItems != nil && anyBelow(s.AdditionalItems.Schema, has) {
		return true
	}
	for _, d := range s.Dependencies {
		if anyBelow(d.Schema, has) {
			return true
		}
	}
	return false
}

func anyOf(list []api.JSONSchemaProps, has func(*api.JSONSchemaProps) bool) bool {
	for i := range list {
		if anyBelow(&list[i], has) {
			return true
		}
	}
	return false
}

func anyIn(m map[string]api.JSONSchemaProps, has func(*api.JSONSchemaProps) bool) bool {
	for _, s := range m {
		if anyBelow(&s, has) {
			return true
		}
	}
	return false
}

// sortedKeys returns the keys of a map in order, so that errors come in an order
// that does not change from one time to the next.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// What a schema can have, for anyBelow.

func hasDefault(s *api.JSONSchemaProps) bool { return s.Default != nil }

func hasRules(s *api.JSONSchemaProps) bool { return len(s.XValidations) > 0 }

func hasUnions(s *api.JSONSchemaProps) bool { return len(s.XUnions) > 0 }

func hasUnknownType(s *api.JSONSchemaProps) bool {
	return len(s.Type) > 0 && !isOpenAPIType(typeOf(s))
}

// hasExtension says whether s has a keyword that only structural schemas may have.
func hasExtension(s *api.JSONSchemaProps) bool {
	return s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString ||
		len(s.XListMapKeys) > 0 || s.XListType != nil || len(s.XValidations) > 0
}
