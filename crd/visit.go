package crd

import (
	"maps"
	"slices"

	"espalier.dev/api"
)

// sortedKeys returns the sorted keys of a map, so that the order of errors is
// deterministic.
func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// Predicates for schema.AnySubschema.

func hasDefault(s *api.JSONSchemaProps) bool { return s.Default != nil }

func hasRules(s *api.JSONSchemaProps) bool { return len(s.XValidations) > 0 }

func hasUnions(s *api.JSONSchemaProps) bool { return len(s.XUnions) > 0 }

func hasUnknownType(s *api.JSONSchemaProps) bool {
	return len(s.Type) > 0 && !isOpenAPIType(typeOf(s))
}

// hasExtension reports whether s has a keyword that only structural schemas may have.
func hasExtension(s *api.JSONSchemaProps) bool {
	return s.XEmbeddedResource || s.XPreserveUnknownFields != nil || s.XIntOrString ||
		len(s.XListMapKeys) > 0 || s.XListType != nil || len(s.XValidations) > 0
}
