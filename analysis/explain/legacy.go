package explain

import (
	"maps"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// SchemaOf returns the schema of a version for documentation, or nil if it has none. It
// converts a draft-4 schema to a structural one as far as possible.
func SchemaOf(v *crd.Version) (*schema.Structural, error) {
	if s := v.Structural(); s != nil {
		return s, nil
	}
	// Only the kep semantics has such schemas; kube-apiserver ignores them.
	if !v.Definition().Semantics().KnowsJSONSchema() {
		return nil, nil
	}
	legacy, err := api.LegacySchema(v.Definition().CRD())
	if err != nil || legacy == nil {
		return nil, err
	}
	r := &resolver{definitions: legacy.Definitions, left: maxReferences, nesting: map[string]int{}}
	return schema.NewStructural(r.openAPIForm(legacy))
}

// The references that are followed are limited. A few definitions that each refer to the
// next one twice, or one that refers to itself, would exhaust memory. maxNesting limits how
// often a definition is inside itself, so that all fields on the upper levels are described;
// maxReferences limits the total.
const (
	maxReferences = 1000
	maxNesting    = 4
)

// resolver replaces the references of a draft-4 schema with their targets.
type resolver struct {
	definitions map[string]api.JSONSchemaProps
	left        int
	// nesting counts how often each definition is open.
	nesting map[string]int
}

// openAPIForm rewrites a draft-4 schema with the keywords of OpenAPI as far as possible: it
// resolves references and uses the first of several types or item schemas. The result is
// for documentation only, not for validation.
func (r *resolver) openAPIForm(s *api.JSONSchemaProps) *api.JSONSchemaProps {
	out := *s
	if s.Ref != nil {
		if name, ok := strings.CutPrefix(*s.Ref, "#/definitions/"); ok && r.left > 0 && r.nesting[name] < maxNesting {
			if target, ok := r.definitions[name]; ok {
				r.left--
				r.nesting[name]++
				defer func() { r.nesting[name]-- }()
				return r.openAPIForm(&target)
			}
		}
		return &api.JSONSchemaProps{Description: "see " + *s.Ref}
	}
	out.ID, out.Schema, out.Definitions, out.Dependencies, out.PatternProperties, out.AdditionalItems = "", "", nil, nil, nil, nil
	if len(out.Type) > 1 {
		out.Type = out.Type[:1]
	}
	form := func(s *api.JSONSchemaProps) *api.JSONSchemaProps {
		if s == nil {
			return nil
		}
		return r.openAPIForm(s)
	}
	forms := func(list []api.JSONSchemaProps) (forms []api.JSONSchemaProps) {
		for i := range list {
			forms = append(forms, *form(&list[i]))
		}
		return forms
	}
	out.AllOf, out.AnyOf, out.OneOf, out.Not = forms(s.AllOf), forms(s.AnyOf), forms(s.OneOf), form(s.Not)
	if s.Items != nil {
		item := s.Items.Schema
		if item == nil && len(s.Items.JSONSchemas) > 0 {
			item = &s.Items.JSONSchemas[0]
		}
		out.Items = nil
		if item != nil {
			out.Items = &api.JSONSchemaPropsOrArray{Schema: form(item)}
		}
	}
	if ap := s.AdditionalProperties; ap != nil && ap.Schema != nil {
		out.AdditionalProperties = &api.JSONSchemaPropsOrBool{Allows: true, Schema: form(ap.Schema)}
	}
	if s.Properties != nil {
		out.Properties = make(map[string]api.JSONSchemaProps, len(s.Properties))
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			prop := s.Properties[name]
			out.Properties[name] = *form(&prop)
		}
	}
	return &out
}
