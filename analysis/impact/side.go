package impact

import (
	"slices"

	"espalier.dev/schema"
)

// side is a place in the schema on one side of the comparison. It always has a schema: the
// comparer supplies one for a value that no schema specifies.
type side struct {
	schema.Cursor
	node *schema.Structural
}

func newSide(at schema.Cursor, node *schema.Structural) side { return side{at.WithSchema(node), node} }

// side returns the side at a cursor.
func (c *comparer) side(at schema.Cursor) side {
	if s := at.Schema(); s != nil {
		return side{at, s}
	}
	return newSide(at, c.unspecified)
}

// newAnything returns the side of a value that is unknown to the schema and kept. That
// differs from a value that additionalProperties: true allows, in which fields may be
// pruned.
func newAnything(sem schema.Semantics) side {
	at, _ := schema.NewCursor(nil, sem, schema.PruningOff).MapValue()
	return newSide(at, &schema.Structural{Generic: schema.Generic{Nullable: true}})
}

// fate is the treatment of a field.
type fate uint8

const (
	// stays: it is specified, or kept although it is not.
	stays fate = iota
	// pruned: it is removed.
	pruned
	// rejected: it makes the object invalid.
	rejected
)

// others returns the treatment of the fields that properties does not name.
func (c *comparer) others(s side) (side, fate) {
	at, kept := s.MapValue()
	switch ap := s.node.AdditionalProperties; {
	case !kept:
		return side{}, pruned
	case ap == nil:
		return c.anything, stays
	case !ap.Bool:
		return side{}, rejected
	}
	return c.side(at), stays
}

// field returns the treatment of a field.
func (c *comparer) field(s side, name string) (side, fate) {
	if s.IsResource() && schema.IsMetaField(name) || s.node.Properties[name] != nil {
		at, _ := s.Field(name)
		if at.Schema() == nil {
			return newSide(at, c.meta[name]), stays
		}
		return c.side(at), stays
	}
	return c.others(s)
}

// items returns the schema of the items of an array.
func (c *comparer) items(s side) side {
	if s.node.Items == nil && !s.Prunes() {
		return c.anything
	}
	return c.side(s.Items())
}

// metaSchemas returns the implied schemas of apiVersion, kind and metadata.
func metaSchemas() map[string]*schema.Structural {
	fields := schema.MetaFields()
	for _, field := range fields {
		for _, s := range field.All() {
			s.Description = ""
		}
	}
	return fields
}

// kinds returns the kinds of values that the type of a schema allows, without null. A
// schema with a format but no type is for strings.
func (s side) kinds() kinds {
	k := kindsOf(s.node.Type, s.node.XIntOrString)
	if k == allKinds && restricts("", vv(s.node).Format) {
		return strs | arrays
	}
	return k
}

// possible returns the kinds of values that the schema may accept, without null: those of its
// type that an enum and the types below logical operators leave. Only schemas that are not
// structural have such types.
func (s side) possible() kinds { return s.kinds() & leftBy(vv(s.node)) }

// leftBy returns the kinds of values that conditions do not rule out.
func leftBy(v *schema.ValueValidation) kinds {
	left := allKinds
	if len(v.Enum) > 0 {
		left = 0
		for _, x := range v.Enum {
			left |= kindOf(x.Value)
		}
	}
	of := func(n *schema.NestedValueValidation) kinds {
		return kindsOf(n.ForbiddenGenerics.Type, n.ForbiddenExtensions.XIntOrString) & leftBy(&n.ValueValidation)
	}
	for i := range v.AllOf {
		left &= of(&v.AllOf[i])
	}
	for _, branches := range [][]schema.NestedValueValidation{v.AnyOf, v.OneOf} {
		any := kinds(0)
		for i := range branches {
			any |= of(&branches[i])
		}
		if len(branches) > 0 {
			left &= any
		}
	}
	return left
}

// kindOf returns the kind of a value, and none for null.
func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return booleans
	case int64:
		return integers
	case string:
		return strs
	case []any:
		return arrays
	case map[string]any:
		return objects
	}
	return numbers
}

func hasDefault(s *schema.Structural) bool { return s.Default != nil && s.Default.Value != nil }

// defaultValue returns the default of a schema, or nil if there is none.
func defaultValue(s *schema.Structural) any {
	if !hasDefault(s) {
		return nil
	}
	return s.Default.Value
}

// refusesAnything reports whether the schema itself rejects some value.
func (c *comparer) refusesAnything(s *schema.Structural) bool {
	v := vv(s)
	return s.Type != "" || s.XIntOrString || s.XEmbeddedResource || len(s.XValidations) > 0 ||
		len(s.XUnions) > 0 && c.Semantics.KnowsUnions() ||
		s.AdditionalProperties != nil && !s.AdditionalProperties.Bool || listType(s) != "atomic" || len(v.Required) > 0 ||
		len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) > 0 || v.Not != nil ||
		slices.ContainsFunc(keywords(), func(k keyword) bool { return k.of(v) != nil })
}

// listType returns the list type; the default is atomic.
func listType(s *schema.Structural) string {
	if s.XListType == nil {
		return "atomic"
	}
	return *s.XListType
}

// mapType returns the map type; the default is granular.
func mapType(s *schema.Structural) string {
	if s.XMapType == nil {
		return "granular"
	}
	return *s.XMapType
}
