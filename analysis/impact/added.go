package impact

import (
	"reflect"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// siblings are the versions of the CRDs other than the compared one. Stored objects may come from
// them, with values that the compared version did not let through.
type siblings struct {
	// unsure is true if it is not known what conversion makes of the objects.
	unsure bool
	// first is true if the old CRD had only the compared version.
	first bool
	// old and new have the schemas of the other versions in the old and the new CRD.
	old, new []*schema.Structural
}

// siblingsOf returns the versions other than the compared one.
func siblingsOf(old, new *crd.Definition, version string) siblings {
	others := func(d *crd.Definition) (schemas []*schema.Structural) {
		for _, v := range d.Versions() {
			if v.Name() != version {
				schemas = append(schemas, wholeObject(v.Structural()))
			}
		}
		return schemas
	}
	s := siblings{first: len(old.Versions()) == 1, old: others(old), new: others(new)}
	s.unsure = !s.first && (strategy(old.CRD()) != api.NoneConverter || strategy(new.CRD()) != api.NoneConverter)
	return s
}

// holdsWithoutAdded reports whether a new rule of the object at p is proven to hold for every
// stored object, because no stored object has the fields that the change adds to it.
func (c *comparer) holdsWithoutAdded(p place, o, n side, r api.ValidationRule) bool {
	if c.Rules == nil {
		return false
	}
	fields := c.added(p, o, n)
	return len(fields) > 0 && c.Rules.Holds(schema.RuleCase{
		Rule: r, Schema: n.node, IsResource: p.via == viaRoot || n.node.XEmbeddedResource, Fields: fields,
	})
}

// added returns the fields of the object at p that no stored object has: those that the new
// schema adds and the old one pruned. The value of a field is its default, or nil.
func (c *comparer) added(p place, o, n side) map[string]any {
	if c.siblings.unsure || n.InMetadata() {
		return nil
	}
	fields := map[string]any{}
	for name, prop := range n.node.Properties {
		if _, f := c.field(o, name); f != pruned || n.IsResource() && schema.IsMetaField(name) ||
			prop.Default != nil && !hasDefault(prop) || !c.siblingsLack(p, name, prop) {
			continue
		}
		if value, ok := c.defaultOf(prop); ok {
			fields[name] = value
		}
	}
	// A default of the object or around it may set the fields. Then it also has to satisfy
	// the rules.
	for _, s := range p.trail {
		if _, ok := c.defaultOf(s); !ok {
			return nil
		}
	}
	return fields
}

// siblingsLack reports whether no object of another version brings along a field of the object at
// p that differs from what the schema of the field, prop, makes of an absent one.
func (c *comparer) siblingsLack(p place, name string, prop *schema.Structural) bool {
	for _, v := range c.siblings.old {
		if !c.lacks(c.side(schema.NewCursor(v, c.Semantics, pruning(c.oldAll))), p.path, name) {
			return false
		}
	}
	for _, v := range c.siblings.new {
		// With a default, an object of the only old version gets the field before another
		// version can set it.
		if !sameDefaults(v, p, name, prop, c.siblings.first && hasDefault(prop)) {
			return false
		}
	}
	return true
}

// lacks reports whether the field of the object at path, below s, is pruned.
func (c *comparer) lacks(s side, path schema.SchemaPath, name string) bool {
	for _, step := range path {
		f := stays
		switch {
		case step.Keyword == "items":
			s = c.items(s)
		case step.Form == schema.StepNamed:
			s, f = c.field(s, step.Name)
		case len(s.node.Properties) > 0:
			return false
		default:
			s, f = c.others(s)
		}
		if f != stays {
			return f == pruned
		}
	}
	_, f := c.field(s, name)
	return f == pruned
}

// sameDefaults reports whether the schema s of another version sets the field of the object at p
// no differently than the compared version does. isSet reports whether the field is always set
// before.
func sameDefaults(s *schema.Structural, p place, name string, prop *schema.Structural, isSet bool) bool {
	for i, step := range p.path {
		switch {
		case step.Keyword == "items":
			s = s.Items
		case step.Form == schema.StepNamed && s.AdditionalProperties == nil:
			s = s.Properties[step.Name]
		case step.Form != schema.StepNamed && len(s.Properties) == 0:
			if s.AdditionalProperties == nil {
				return true
			}
			s = s.AdditionalProperties.Structural
		default:
			return false
		}
		if s == nil {
			return true
		}
		if !reflect.DeepEqual(s.Default, p.trail[i+1].Default) {
			return false
		}
	}
	other := s.Properties[name]
	if other == nil {
		return s.AdditionalProperties == nil
	}
	return isSet || other.Default == nil || reflect.DeepEqual(other, prop)
}
