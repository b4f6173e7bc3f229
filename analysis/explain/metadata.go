package explain

import (
	"maps"

	"espalier.dev/schema"
)

// Resource returns the schema of a whole resource as its users see it. It includes
// apiVersion, kind and metadata even if s does not specify them, and uses the Kubernetes
// documentation of these fields where s has none.
func Resource(s *schema.Structural) *schema.Structural {
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
		// The schema does not control pruning in metadata.
		meta.ValueValidation, meta.ValidationExtensions = given.ValueValidation, given.ValidationExtensions
		if given.Description != "" {
			meta.Description = given.Description
		}
	}
	out.Properties["metadata"] = meta
	return &out
}

// implied returns the schema of a metadata field: the given one on top of the one that
// always applies.
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
