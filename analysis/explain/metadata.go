package explain

import (
	"maps"

	"espalier.dev/schema"
)

// resource returns the schema of a whole resource as its users see it: apiVersion,
// kind and metadata are there whether s specifies them or not, with the
// documentation that Kubernetes gives them where s has none.
func resource(s *schema.Structural) *schema.Structural {
	out := *s
	out.Properties = maps.Clone(s.Properties)
	if out.Properties == nil {
		out.Properties = map[string]*schema.Structural{}
	}
	always := schema.MetaFields()
	for _, name := range []string{"apiVersion", "kind"} {
		out.Properties[name] = implied(s.Properties[name], always[name])
	}
	meta := always["metadata"]
	if given := s.Properties["metadata"]; given != nil {
		for name, prop := range given.Properties {
			meta.Properties[name] = implied(prop, meta.Properties[name])
		}
		// Nothing in metadata is for the schema to keep or to prune.
		meta.ValueValidation, meta.ValidationExtensions = given.ValueValidation, given.ValidationExtensions
		if given.Description != "" {
			meta.Description = given.Description
		}
	}
	out.Properties["metadata"] = meta
	return &out
}

// implied is what a schema says about a field of metadata, on top of what goes
// without saying.
func implied(given, always *schema.Structural) *schema.Structural {
	if given == nil {
		return always
	}
	if always == nil {
		return given
	}
	out := *given
	if out.Type == "" {
		out.Type = always.Type
	}
	if out.Description == "" {
		out.Description = always.Description
	}
	return &out
}
