package main

import (
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// preview is a Program for a schema that is not structural and that no server would
// prune with: it prunes what the schema's skeleton does not specify, which is what
// is left of the object once the schema is structural.
func preview(d *definition, v *crd.Version, sem schema.Semantics) (*schema.Program, error) {
	original := d.original(v)
	skeleton := schema.Skeleton(original)
	if skeleton == nil {
		skeleton = &api.JSONSchemaProps{}
	}
	completeSkeleton(skeleton, original)
	s, err := schema.NewStructural(skeleton)
	if err != nil {
		return nil, fmt.Errorf("the skeleton of version %s: %w", v.Name(), err)
	}
	return schema.Compile(s, schema.WithSemantics(sem), schema.WithoutRules())
}

// completeSkeleton gives a skeleton what else shapes objects: the extensions,
// nullable and defaults of the schema that it is of. What the engine cannot prune by
// (the names of fields by pattern, items by position) is kept whole.
func completeSkeleton(skeleton, original *api.JSONSchemaProps) {
	if original == nil {
		original = &api.JSONSchemaProps{}
	}
	yes := true
	skeleton.XPreserveUnknownFields = original.XPreserveUnknownFields
	skeleton.XEmbeddedResource = original.XEmbeddedResource
	skeleton.XIntOrString = original.XIntOrString
	skeleton.Nullable = original.Nullable
	skeleton.Default = original.Default
	if len(skeleton.PatternProperties) > 0 || skeleton.AdditionalItems != nil || skeleton.Items != nil && skeleton.Items.Schema == nil {
		skeleton.PatternProperties, skeleton.AdditionalItems = nil, nil
		skeleton.XPreserveUnknownFields = &yes
		if skeleton.Items != nil && skeleton.Items.Schema == nil {
			skeleton.Items = &api.JSONSchemaPropsOrArray{Schema: &api.JSONSchemaProps{XPreserveUnknownFields: &yes}}
		}
	}
	for name, p := range skeleton.Properties {
		var o *api.JSONSchemaProps
		if found, ok := original.Properties[name]; ok {
			o = &found
		}
		completeSkeleton(&p, o)
		skeleton.Properties[name] = p
	}
	if skeleton.Items != nil && original.Items != nil {
		completeSkeleton(skeleton.Items.Schema, original.Items.Schema)
	}
	if a := skeleton.AdditionalProperties; a != nil && a.Schema != nil {
		var o *api.JSONSchemaProps
		if original.AdditionalProperties != nil {
			o = original.AdditionalProperties.Schema
		}
		completeSkeleton(a.Schema, o)
	}
}

// previewNotes say that what is shown is a preview, and why.
func previewNotes(d *definition, v *crd.Version, reasons []analysis.Finding) []analysis.Finding {
	base := d.schemaPointer(v)
	note := analysis.Finding{
		Rule: ruleNotStructural, Severity: analysis.Info, Pointer: base,
		Message: fmt.Sprintf("the schema of version %s is not structural, so a server prunes nothing (v1beta1) or refuses the definition (v1): this is a preview, by the schema's skeleton, of what is left once it is structural", v.Name()),
		Detail:  []string{"espalier fix makes it structural, espalier show skeleton shows the skeleton"},
	}
	for _, r := range reasons {
		note.Detail = append(note.Detail, "not structural: "+r.Path+": "+r.Message)
	}
	for _, c := range schema.PruneConflicts(d.original(v)) {
		note.Detail = append(note.Detail, "cannot be pruned: "+c.Error())
	}
	return []analysis.Finding{note}
}
