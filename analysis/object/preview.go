package object

import (
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// Preview shows what would remain of the objects of a version whose schema is not
// structural once it is: the fields that the skeleton of the schema specifies. No API server
// prunes with such a schema.
type Preview struct {
	// Finding explains that this is a preview, and why. Its pointer points into the CRD.
	Finding analysis.Finding

	program *schema.Program
	err     error // the reason why there is no program
}

// newPreview returns the preview of a version, or nil if its schema is structural.
func (c *Checker) newPreview(v *crd.Version) *Preview {
	reasons := c.NotStructural(v)
	if len(reasons) == 0 {
		return nil
	}
	original := c.original(v)
	skeleton := schema.Skeleton(original)
	if skeleton == nil {
		skeleton = &api.JSONSchemaProps{}
	}
	var missing completion
	if original != nil {
		missing.definitions = original.Definitions
	}
	missing.add(skeleton, original)
	var program *schema.Program
	s, err := schema.NewStructural(skeleton)
	if err == nil {
		program, err = schema.Compile(s, schema.WithSemantics(c.definition.Semantics()), schema.WithoutRules())
	}
	f := analysis.Finding{
		Rule: RuleNotStructural, Severity: analysis.Info, Pointer: c.schemaPointer(v),
		Message: fmt.Sprintf("the schema of version %s is not structural, so the API server prunes nothing (v1beta1) or rejects the CRD (v1): this is a preview of pruning with a structural schema, based on the skeleton", v.Name()),
		Detail:  []string{"make it structural with espalier fix; print the skeleton with espalier show skeleton"},
	}
	for _, r := range reasons {
		f.Detail = append(f.Detail, "not structural: "+r.Path+": "+r.Message)
	}
	for _, conflict := range schema.PruneConflicts(original) {
		f.Detail = append(f.Detail, "cannot be pruned: "+conflict.Error())
	}
	return &Preview{Finding: f, program: program, err: err}
}

// NotStructural reports why the schema of a version is not structural. The pointers of its
// findings point into the CRD.
func (c *Checker) NotStructural(v *crd.Version) (findings []analysis.Finding) {
	base := c.schemaPointer(v)
	if strings.HasSuffix(base, "/jsonSchema") {
		return []analysis.Finding{{Rule: RuleNotStructural, Severity: analysis.Error, Path: "spec.validation.jsonSchema", Pointer: base,
			Message: "a schema in the dialect of 2017 is never structural"}}
	}
	for _, f := range schema.Check(v.Structural(), c.definition.Semantics()) {
		if f.Refused {
			findings = append(findings, analysis.Finding{
				Rule: RuleNotStructural, Severity: analysis.Error, Path: jsonptr.Display(base) + f.Path.String(),
				Pointer: base + f.Path.Pointer(), Message: f.FieldError(nil).ErrorBody(),
			})
		}
	}
	return findings
}

// completion adds to a skeleton the other keywords that affect pruning and defaulting: the
// extensions, nullable and defaults of its original schema. Values that the engine cannot
// prune (patternProperties, items by position, references) are kept whole.
type completion struct {
	definitions map[string]api.JSONSchemaProps
}

func (c completion) add(skeleton, original *api.JSONSchemaProps) {
	if original = schema.Resolve(original, c.definitions); original == nil {
		original = &api.JSONSchemaProps{}
	}
	yes := true
	skeleton.XPreserveUnknownFields = original.XPreserveUnknownFields
	skeleton.XEmbeddedResource = original.XEmbeddedResource
	skeleton.XIntOrString = original.XIntOrString
	skeleton.Nullable = original.Nullable
	skeleton.Default = original.Default
	if skeleton.Ref != nil || len(skeleton.PatternProperties) > 0 || skeleton.AdditionalItems != nil || skeleton.Items != nil && skeleton.Items.Schema == nil {
		skeleton.Ref, skeleton.PatternProperties, skeleton.AdditionalItems = nil, nil, nil
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
		c.add(&p, o)
		skeleton.Properties[name] = p
	}
	if skeleton.Items != nil {
		var o *api.JSONSchemaProps
		if original.Items != nil {
			o = original.Items.Schema
		}
		c.add(skeleton.Items.Schema, o)
	}
	if a := skeleton.AdditionalProperties; a != nil && a.Schema != nil {
		var o *api.JSONSchemaProps
		if original.AdditionalProperties != nil {
			o = original.AdditionalProperties.Schema
		}
		c.add(a.Schema, o)
	}
}
