package impact

import (
	"fmt"
	"reflect"
	"slices"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// schemas compares the schemas of a version that both CRDs have.
func (d *definitions) schemas(o, n *crd.Version, i, j int) {
	c := d.comparer(o, n, i, j)
	c.siblings = siblingsOf(o.Definition(), n.Definition(), n.Name())
	if d.legacy(c) {
		return
	}
	c.roots(o.Structural(), n.Structural())
	d.changes = append(d.changes, c.changes...)
}

// across compares the schemas of two versions between which objects move unconverted. Only
// the effects on objects are new; the schemas differed before.
func (d *definitions) across(from, to *crd.Version, prefix string) {
	c := d.comparer(from, to, indexOf(from), indexOf(to))
	c.oldAll = c.newAll
	c.siblings.unsure = true
	c.roots(from.Structural(), to.Structural())
	for _, ch := range c.changes {
		if ch.Class() > Clients {
			ch.Message, ch.prefix = prefix+ch.Message, prefix
			d.changes = append(d.changes, ch)
		}
	}
}

func indexOf(v *crd.Version) int { return slices.Index(v.Definition().Versions(), v) }

func (d *definitions) comparer(o, n *crd.Version, i, j int) *comparer {
	c := newComparer(d.ctx, d.Options)
	c.oldAll, c.newAll = o.Definition().PreservesUnknownFields(), n.Definition().PreservesUnknownFields()
	c.oldVersion, c.newVersion = o.Name(), n.Name()
	c.oldBase = fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema", i)
	c.newBase = fmt.Sprintf("/spec/versions/%d/schema/openAPIV3Schema", j)
	if scale := subresources(n.Spec()).Scale; scale != nil {
		c.scaled = scalePaths(scale)
		c.selector = scalePath(deref(scale.LabelSelectorPath))
	}
	return c
}

// roots compares the schemas of whole objects.
func (c *comparer) roots(o, n *schema.Structural) {
	o, n = wholeObject(o), wholeObject(n)
	p := place{via: viaRoot, trail: []*schema.Structural{n}}
	if c.oldAll && !c.newAll {
		c.switched = c.emit(p, "pruning", "", "")
		c.switched.OldPointer, c.switched.NewPointer = "/spec/preserveUnknownFields", "/spec/preserveUnknownFields"
		if o.Any(defaultsNull) {
			c.turnOn(p, nil)
		}
	}
	switched := c.switched
	c.value(p, c.side(schema.NewCursor(o, c.Semantics, pruning(c.oldAll))), c.side(schema.NewCursor(n, c.Semantics, pruning(c.newAll))))
	if switched == nil {
		return
	}
	switched.Message = "unknown fields were preserved by preserveUnknownFields, and now are by x-kubernetes-preserve-unknown-fields"
	if switched.Class() > Safe {
		switched.Message = "unknown fields were preserved and are now pruned"
		switched.Leniency = leniency(switched, p.trail)
	}
}

// wholeObject returns the schema of whole objects, which have the type object even if the
// schema has no type.
func wholeObject(s *schema.Structural) *schema.Structural {
	var out schema.Structural
	if s != nil {
		out = *s
	}
	if out.Type == "" {
		out.Type = "object"
	}
	return &out
}

// pruning returns the pruning of the root that preserveUnknownFields of a CRD implies.
func pruning(preserveUnknownFields bool) schema.Pruning {
	if preserveUnknownFields {
		return schema.PruningOff
	}
	return schema.PruningOn
}

// legacy compares draft-4 schemas, which replace other schemas. It reports whether there is
// one.
func (d *definitions) legacy(c *comparer) bool {
	if !d.Semantics.KnowsJSONSchema() {
		return false
	}
	o, _ := api.LegacySchema(d.old)
	n, _ := api.LegacySchema(d.new)
	if o == nil && n == nil {
		return false
	}
	if reflect.DeepEqual(o, n) && c.oldAll == c.newAll {
		return true
	}
	effects := []Effect{effect(Invalid, "draft-4 schemas cannot be compared in detail"), effect(Defaulted, ""), effect(Clients, "")}
	if n == nil {
		effects = append(effects, effect(Loses, "the schema that replaces it may prune fields"))
	}
	ch := d.add("/spec/validation/jsonSchema", "json-schema", "draft-4 schema changed", effects...)
	ch.OldVersion, ch.NewVersion = c.oldVersion, c.newVersion
	return true
}
