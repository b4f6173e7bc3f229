package lint

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// empty reports objects whose fields are all pruned.
func (c *check) empty(n *node) {
	s := n.s
	if n.inOperator || !n.core.Prunes() || n.inMeta || s.Type.Single() != "object" || len(s.Properties)+
		len(s.PatternProperties) > 0 || s.AdditionalProperties != nil || s.XEmbeddedResource {
		return
	}
	if n.name != "metadata" {
		if n.isMarker() {
			return
		}
		c.warn(prunedEmpty, n.at, "the object has no properties, so everything in it is pruned")
		return
	}
	detail := "specify the fields in use, such as labels and annotations"
	if _, ok := n.up.s.Properties["kind"]; ok {
		detail = "if this is a whole resource, set x-kubernetes-embedded-resource: true on the object around it"
	}
	c.add(embeddedMetadata, n.at, note{severity: analysis.Warning, detail: []string{detail}},
		"this is not the metadata of a resource, and has no properties: labels, annotations and everything else in it are pruned")
}

// isMarker reports whether an empty object is likely intentional: only its presence
// matters. Such an object is usually a member of a union.
func (n *node) isMarker() bool {
	if n.s.MaxProperties != nil && *n.s.MaxProperties == 0 {
		return true
	}
	if n.kind != fieldNode || n.isRequired() {
		return false
	}
	return n.isUnionMember() || n.isAlternative()
}

// isUnionMember reports whether the schema around the field makes it a member of a union.
func (n *node) isUnionMember() bool {
	s := n.up.s
	for _, u := range s.XUnions {
		if _, ok := u.Fields[n.name]; ok {
			return true
		}
	}
	requires := func(branch api.JSONSchemaProps) bool { return slices.Contains(branch.Required, n.name) }
	return s.MaxProperties != nil && *s.MaxProperties == 1 || slices.ContainsFunc(s.OneOf,
		requires) || slices.ContainsFunc(s.AnyOf, requires)
}

// isAlternative reports whether the node is one of several optional objects, as in a union
// that the schema does not declare. Beside them there may be a discriminator, and at least
// one has fields. The fields of spec and status are rarely alternatives.
func (n *node) isAlternative() bool {
	up := n.up
	if up.kind == rootNode || up.up.kind == rootNode && (up.name == "spec" || up.name == "status") {
		return false
	}
	specified := false
	for name, s := range up.s.Properties {
		if s.Type.Single() == "string" && (name == "type" || len(s.Enum) > 0) {
			continue
		}
		if s.Type.Single() != "object" || s.AdditionalProperties != nil || slices.Contains(up.s.Required, name) {
			return false
		}
		specified = specified || len(s.Properties) > 0
	}
	return specified
}

// impliedMetadata reports fields in the metadata of an embedded resource that repeat what
// is implied.
func (c *check) impliedMetadata(n *node) {
	if n.inOperator || n.name != "metadata" || n.up.kind == rootNode || !n.up.core.IsResource() {
		return
	}
	implied := schema.ObjectMeta()
	var names []string
	for _, name := range sortedNames(n.s.Properties) {
		prop := n.s.Properties[name]
		if repeats(&prop, implied.Properties[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	c.add(impliedMetadata, n.at, note{severity: analysis.Info, detail: []string{
		"fields that can be removed: " + strings.Join(names, ", "),
	}}, fmt.Sprintf("the metadata of an embedded resource is implied, but %d of its fields are specified again without further restrictions", len(names)))
}

// repeats reports whether a schema has no more restrictions than the implied one.
func repeats(s *api.JSONSchemaProps, implied *schema.Structural) bool {
	if implied == nil {
		return false
	}
	restricts := schema.AnySubschema(s, func(s *api.JSONSchemaProps) bool {
		return len(s.Enum)+len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.XValidations)+
			len(s.Required) > 0 || s.Not != nil || s.Pattern != "" || s.Default != nil ||
			s.MaxLength != nil || s.MinLength != nil || s.MaxItems != nil || s.MinItems != nil ||
			s.MaxProperties != nil || s.MinProperties != nil ||
			s.Maximum != nil || s.Minimum != nil || s.MultipleOf != nil
	})
	return !restricts && s.Type.Single() == implied.Type
}
