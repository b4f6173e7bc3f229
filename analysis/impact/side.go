package impact

import (
	"slices"

	"espalier.dev/schema"
)

// mode says what pruning does with a value, as package schema has it.
type mode uint8

const (
	// prune removes what is not specified.
	prune mode = iota
	// keep removes nothing until pruning starts again.
	keep
	// never is where pruning does not start again.
	never
)

// side is a schema on one side of the comparison, for a value that is entered with
// a mode.
type side struct {
	node *schema.Structural
	mode mode
	// resource says that the value is a resource, so that its apiVersion, kind and
	// metadata are specified whatever the schema says.
	resource bool
}

// anything is the schema of what a schema does not know and keeps; unspecified the
// one of the values that additionalProperties: true speaks of, in which fields are
// pruned all the same. They are compared by their address.
func (c *comparer) anything() side { return side{node: c.open, mode: never} }

func (s side) inside() mode {
	if s.mode == prune && s.node.XPreserveUnknownFields {
		return keep
	}
	return s.mode
}

func (c *comparer) isAnything(s side) bool { return s.node == c.open }

// enter returns a part of a value.
func (c *comparer) enter(s side, child *schema.Structural, viaItems bool) side {
	m := s.inside()
	specifies := len(child.Properties) > 0 || child.AdditionalProperties != nil
	if m == keep && c.Semantics.RestartsAt(viaItems, specifies) {
		m = prune
	}
	return side{node: child, mode: m, resource: child.XEmbeddedResource}
}

// fate is what becomes of a field.
type fate uint8

const (
	// stays: it is specified, or kept although it is not.
	stays fate = iota
	// pruned: it is removed.
	pruned
	// refused: it makes the object invalid.
	refused
)

// others is what becomes of the fields that properties does not name.
func (c *comparer) others(s side) (side, fate) {
	switch ap := s.node.AdditionalProperties; {
	case ap != nil && ap.Structural != nil:
		return c.enter(s, ap.Structural, false), stays
	case ap != nil && ap.Bool:
		return c.enter(s, c.unspecified, false), stays
	case ap != nil:
		return side{}, refused
	case s.inside() == prune:
		return side{}, pruned
	}
	return c.anything(), stays
}

// field is what becomes of a field.
func (c *comparer) field(s side, name string) (side, fate) {
	prop := s.node.Properties[name]
	if s.resource && isMeta(name) {
		if prop == nil {
			prop = c.meta[name]
		}
		return side{node: prop, mode: never}, stays
	}
	if prop != nil {
		return c.enter(s, prop, false), stays
	}
	return c.others(s)
}

// items is the schema of the items of an array.
func (c *comparer) items(s side) side {
	switch {
	case s.node.Items != nil:
		return c.enter(s, s.node.Items, true)
	case s.inside() == prune:
		return c.enter(s, c.unspecified, true)
	}
	return c.anything()
}

func isMeta(name string) bool { return name == "apiVersion" || name == "kind" || name == "metadata" }

// metaSchemas describe what apiVersion, kind and metadata are anyway.
func metaSchemas() map[string]*schema.Structural {
	str := func() *schema.Structural { return &schema.Structural{Generic: schema.Generic{Type: "string"}} }
	strMap := func() *schema.Structural {
		return &schema.Structural{Generic: schema.Generic{Type: "object"}, AdditionalProperties: &schema.StructuralOrBool{Structural: str(), Bool: true}}
	}
	metadata := &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{
		"labels": strMap(), "annotations": strMap(),
	}}
	for _, name := range []string{"name", "generateName", "namespace", "uid", "resourceVersion"} {
		metadata.Properties[name] = str()
	}
	return map[string]*schema.Structural{"apiVersion": str(), "kind": str(), "metadata": metadata}
}

// kinds are the values that the type of a schema allows, null aside. One that states
// none, but a format, is for strings.
func (s side) kinds() kinds {
	k := kindsOf(s.node.Type, s.node.XIntOrString)
	if k == allKinds && restricts("", vv(s.node).Format) {
		return strs | arrays
	}
	return k
}

// below says whether a schema or one in it has something.
func anyBelow(s *schema.Structural, has func(*schema.Structural) bool) bool {
	if s == nil {
		return false
	}
	if has(s) || anyBelow(s.Items, has) {
		return true
	}
	if ap := s.AdditionalProperties; ap != nil && anyBelow(ap.Structural, has) {
		return true
	}
	for _, prop := range s.Properties {
		if anyBelow(prop, has) {
			return true
		}
	}
	return false
}

func hasDefault(s *schema.Structural) bool { return s.Default != nil && s.Default.Value != nil }

// refusesAnything says whether some value breaks the schema by itself.
func (c *comparer) refusesAnything(s *schema.Structural) bool {
	v := vv(s)
	return s.Type != "" || s.XIntOrString || s.XEmbeddedResource || len(s.XValidations) > 0 || len(s.XUnions) > 0 && c.Semantics.KnowsUnions() ||
		s.AdditionalProperties != nil && !s.AdditionalProperties.Bool || listType(s) != "atomic" || len(v.Required) > 0 ||
		len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 || v.Not != nil ||
		slices.ContainsFunc(keywords(), func(k keyword) bool { return k.of(v) != nil })
}

// listType is the type of a list; atomic if nothing is said.
func listType(s *schema.Structural) string {
	if s.XListType == nil {
		return "atomic"
	}
	return *s.XListType
}

// mapType is the type of a map; granular if nothing is said.
func mapType(s *schema.Structural) string {
	if s.XMapType == nil {
		return "granular"
	}
	return *s.XMapType
}
