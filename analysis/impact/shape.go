package impact

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// lists compares the conditions on an array and its items.
func (c *comparer) lists(p place, o, n side) {
	ot, nt := listType(o.node), listType(n.node)
	sameKeys := slices.Equal(o.node.XListMapKeys, n.node.XListMapKeys)
	if ot != nt || !sameKeys {
		effects := []Effect{at(Clients, p.path, "server-side apply merges and owns its items differently")}
		if nt == "set" || nt == "map" && !(ot == nt && sameKeys) {
			effects = append(effects, at(Invalid, p.path, "duplicate items are rejected"))
		}
		keyword, message := "x-kubernetes-list-type", fmt.Sprintf("list type %s → %s", ot, nt)
		if nt == "map" {
			noun := " with the keys "
			if len(n.node.XListMapKeys) == 1 {
				noun = " with the key "
			}
			message += noun + strings.Join(n.node.XListMapKeys, ", ")
		}
		if ot == nt {
			keyword, message = "x-kubernetes-list-map-keys", fmt.Sprintf("list map keys %s → %s",
				show(o.node.XListMapKeys), show(n.node.XListMapKeys))
		}
		c.emitAltering(p, retyped, "list-type", keyword, message, effects...).of(o.node.XListMapKeys, n.node.XListMapKeys)
	}
	if o.node.Items == nil && n.node.Items == nil {
		if !o.Prunes() && n.Prunes() {
			c.turnOn(p, extend(p.path, itemsStep))
		}
		return
	}
	oi, ni := c.items(o), c.items(n)
	before := len(c.changes)
	c.value(p.down(itemsStep, itemsStep, itemsStep, viaItems, ni.node), oi, ni)
	if (o.node.Items == nil || n.node.Items == nil) && len(c.changes) == before {
		c.emit(p, "items", "items", "items are specified in a different way, with the same effect")
	}
}

// rejection returns the effects on a field at path if its object, at p, may no longer have
// it. The field is kept so that validation can reject it, but its content is pruned.
func rejection(p place, path schema.SchemaPath, o, n side) []Effect {
	effects := tightened(p.path, "")
	if n.Prunes() && o.kinds()&(arrays|objects) != 0 {
		effects = append(effects, at(Loses, path, "fields in it are pruned"))
	}
	return effects
}

// turnOn records that fields at path, in the value at p, were kept and are now pruned.
func (c *comparer) turnOn(p place, path schema.SchemaPath) {
	if c.switched == nil {
		c.switched = c.emit(p, "pruning", "x-kubernetes-preserve-unknown-fields", "unknown fields were preserved and are now pruned",
			at(Loses, path, ""), at(Clients, path, ""))
		return
	}
	// Where fields are pruned, those of the values below are, too. It is enough to name the
	// outermost value.
	reason := ""
	if len(c.switched.Path) == 0 && len(p.path) > 0 && !slices.ContainsFunc(c.switched.Effects, func(e Effect) bool {
		return e.Class == Loses && len(e.Path) <= len(path) && related(e.Path[:max(len(e.Path)-1, 0)], path)
	}) {
		reason = "unknown fields of " + FieldPath(p.path)
	}
	c.affect(c.switched, p, at(Loses, path, reason), at(Clients, path, ""))
}

func (c *comparer) extensions(p place, o, n *schema.Structural) {
	if a, b := mapType(o), mapType(n); a != b {
		// Rules see objects of both map types alike.
		c.emit(p, "map-type", "x-kubernetes-map-type", fmt.Sprintf("map type %s → %s", a, b),
			at(Clients, p.path, "server-side apply merges and owns its fields differently"))
	}
	switch was, is := o.XEmbeddedResource, n.XEmbeddedResource; {
	case !was && is:
		c.emitAltering(p, retyped, "embedded-resource", "x-kubernetes-embedded-resource", "is now an embedded resource",
			at(Invalid, p.path, "apiVersion, kind and metadata are required and validated"),
			at(Loses, extend(p.path, property("metadata")), "unknown and malformed fields of metadata are pruned"),
			at(Loses, p.path, "an apiVersion, kind or metadata of the wrong type is dropped"), at(Clients, p.path, ""))
	case was && !is:
		c.emitAltering(p, retyped, "embedded-resource", "x-kubernetes-embedded-resource", "is no longer an embedded resource",
			at(Clients, p.path, "apiVersion, kind and metadata are no longer implicitly specified and validated"))
	}
	if !reflect.DeepEqual(o.XUnions, n.XUnions) {
		var effects []Effect
		if c.Semantics.KnowsUnions() && slices.ContainsFunc(n.XUnions, func(u api.Union) bool {
			return !slices.ContainsFunc(o.XUnions, func(x api.Union) bool { return reflect.DeepEqual(x, u) })
		}) {
			effects = tightened(p.path, "exactly one member may be set, and the discriminator must name it")
		}
		c.emit(p, "unions", "x-kubernetes-unions", "unions changed", effects...).of(o.XUnions, n.XUnions)
	}
}

func (c *comparer) objects(p place, o, n side) {
	c.extensions(p, o.node, n.node)
	c.required(p, o, n)
	outer := c.switched
	defer func() { c.switched = outer }()

	c.otherFields(p, o, n)
	names := map[string]bool{}
	for name := range o.node.Properties {
		names[name] = true
	}
	for name := range n.node.Properties {
		names[name] = true
	}
	if o.IsResource() || n.IsResource() {
		names["apiVersion"], names["kind"], names["metadata"] = true, true, true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c.property(p, o, n, name)
	}
}

// required compares the required fields.
func (c *comparer) required(p place, o, n side) {
	was := map[string]bool{}
	for _, f := range facts(&schema.NestedValueValidation{ValueValidation: *vv(o.node)}) {
		for _, name := range f.Required {
			was[name] = true
		}
	}
	for _, name := range vv(n.node).Required {
		if slices.Contains(vv(o.node).Required, name) {
			continue
		}
		path := extend(p.path, property(name))
		var effects []Effect
		prop := n.node.Properties[name]
		switch {
		case was[name]:
		case prop != nil && hasDefault(prop) && !(n.IsResource() && schema.IsMetaField(name)):
		default:
			effects = tightened(path, "objects without it are rejected")
			effects[0].missing = true
		}
		c.emit(p, "required-added", "required", name+" is now required", effects...)
	}
	for _, name := range vv(o.node).Required {
		if !slices.Contains(vv(n.node).Required, name) {
			c.emit(p, "required-removed", "required", name+" is no longer required")
		}
	}
}

// otherFields compares the treatment of fields that neither side names.
func (c *comparer) otherFields(p place, o, n side) {
	oc, of := c.others(o)
	nc, nf := c.others(n)
	path := extend(p.path, mapStep)
	hadMap, hasMap := o.node.AdditionalProperties != nil, n.node.AdditionalProperties != nil
	down := p.down(mapStep, mapStep, mapStep, viaMap, nc.node)
	switch {
	case of != stays:
		if hadMap != hasMap || of != nf && (o.node.XPreserveUnknownFields != n.node.XPreserveUnknownFields || hasMap) {
			var effects []Effect
			if nf == rejected {
				effects = []Effect{at(Clients, p.path, "fields that were pruned are now rejected")}
			}
			c.emit(p, "additional-properties", "additionalProperties", "unknown fields are "+nf.verb(), effects...)
		} else if o.node.XPreserveUnknownFields != n.node.XPreserveUnknownFields {
			c.preserveFlag(p, n.node)
		}
	case nf == rejected:
		c.emit(p, "additional-properties", "additionalProperties", "unknown fields are rejected", rejection(p, path, oc, n)...)
	case nf == pruned && hadMap:
		c.emit(p, "additional-properties", "additionalProperties",
			"is no longer a map: its entries are pruned", at(Loses, path, ""), at(Clients, path, ""))
	case nf == pruned:
		c.turnOn(p, path)
	default:
		c.value(down, oc, nc)
		if hadMap == hasMap && o.node.XPreserveUnknownFields != n.node.XPreserveUnknownFields {
			c.preserveFlag(p, n.node)
		}
	}
}

func (f fate) verb() string {
	switch f {
	case pruned:
		return "now pruned"
	case rejected:
		return "now rejected"
	}
	return "now preserved"
}

// preserveFlag records that x-kubernetes-preserve-unknown-fields was added or removed where
// it has no effect by itself.
func (c *comparer) preserveFlag(p place, n *schema.Structural) {
	message := "x-kubernetes-preserve-unknown-fields removed"
	if n.XPreserveUnknownFields {
		message = "x-kubernetes-preserve-unknown-fields added"
	}
	c.emitAltering(p, retyped, "pruning", "x-kubernetes-preserve-unknown-fields", message)
}

// metaProperty compares apiVersion, kind or metadata of a resource where only one side
// specifies it.
func (c *comparer) metaProperty(p place, o, n side, wasNamed bool) {
	if wasNamed {
		alters, effects := unaltered, []Effect(nil)
		if o.node.Any(hasDefault) {
			alters, effects = gone, []Effect{at(Clients, p.path, "its defaults are no longer applied")}
		}
		c.emitAltering(p, alters, "property-removed", "", "no longer restricted", effects...)
		return
	}
	c.emit(p, "property-added", "", "mentioned now")
	bare := *o.node
	bare.Properties = nil
	c.value(p, withImplied(newSide(o.Cursor, &bare), n, o.node), n)
}

// withImplied returns o, the old side of apiVersion, kind or metadata of a resource, with the
// implied schemas of the fields that only n specifies: an unspecified field keeps its own.
func withImplied(o, n side, implied *schema.Structural) side {
	known := *o.node
	known.Properties = map[string]*schema.Structural{}
	maps.Copy(known.Properties, o.node.Properties)
	for name := range n.node.Properties {
		if prop := implied.Properties[name]; prop != nil && known.Properties[name] == nil {
			known.Properties[name] = prop
		}
	}
	return newSide(o.Cursor, &known)
}

// metaType returns the side of apiVersion, kind or metadata of a resource, with its type. The
// API server checks the type, even if the schema has none.
func (c *comparer) metaType(s side, name string) side {
	if s.node.Type != "" || s.node.XIntOrString {
		return s
	}
	typed := *s.node
	typed.Type = c.meta[name].Type
	return newSide(s.Cursor, &typed)
}

// property compares a field that at least one side names. A field that only resources have, meta, may
// be named by neither.
func (c *comparer) property(p place, o, n side, name string) {
	oc, of := c.field(o, name)
	nc, nf := c.field(n, name)
	step := property(name)
	oldStep, newStep, how := step, step, viaField
	_, wasNamed := o.node.Properties[name]
	_, isNamed := n.node.Properties[name]
	meta := schema.IsMetaField(name) && (o.IsResource() || n.IsResource())
	if !wasNamed && !meta {
		oldStep = mapStep
	}
	if !isNamed && !meta {
		newStep = mapStep
	}
	if meta && o.IsResource() && n.IsResource() {
		how, oc, nc = viaMeta, c.metaType(oc, name), c.metaType(nc, name)
		if wasNamed {
			oc = withImplied(oc, nc, c.meta[name])
		}
	}
	down := p.down(step, oldStep, newStep, how, nc.node)
	if how == viaMeta && wasNamed != isNamed || o.InMetadata() && n.InMetadata() && wasNamed && !isNamed {
		c.metaProperty(down, oc, nc, wasNamed)
		return
	}
	switch {
	case of != stays && isNamed:
		var effects []Effect
		message := "added"
		if hasDefault(nc.node) {
			effects = []Effect{defaulted(down.path, "")}
			message += " with default " + show(nc.node.Default.Value)
		}
		down.old = p.old
		c.emit(down, "property-added", "", message, effects...).of(defaultValue(nc.node))
	case of != stays:
	case nf == pruned:
		down.new, down.trail = p.new, p.trail
		c.emit(down, "property-removed", "", "removed: stored values are pruned", at(Loses, down.path, ""), at(Clients, down.path, ""))
	case nf == rejected:
		down.new, down.trail = p.new, p.trail
		c.emit(down, "property-removed", "", "removed: objects that have it are rejected", rejection(p, down.path, oc, n)...)
	case !meta && nc == c.anything:
		c.unspecify(down, oc, "property-removed", "removed; stored values are kept, unvalidated")
	case !meta && !isNamed:
		c.emit(down, "property-removed", "", "no longer specified by itself; stored values are kept", at(Clients, down.path, ""))
		c.value(down, oc, nc)
	case !meta && oc == c.anything && c.isUnknown(o):
		c.known(down, nc)
	case !meta && !wasNamed && oc != c.anything:
		c.emit(down, "property-added", "", "now specified by itself; stored objects may already have values")
		if hasDefault(nc.node) && hasDefault(oc.node) {
			// The default of a map's values does not add them.
			c.emit(down, "default-added", "default", "default "+show(nc.node.Default.Value)+" added", at(Defaulted, down.path, "")).
				of(nc.node.Default.Value)
		}
		c.value(down, oc, nc)
	default:
		c.value(down, oc, nc)
	}
}

// isUnknown reports whether the fields of an object that no schema specifies are unknown to
// its clients: the CRD preserves them everywhere, but the object itself specifies others and
// does not ask for more.
func (c *comparer) isUnknown(o side) bool {
	return c.oldAll && len(o.node.Properties) > 0 && !o.node.XPreserveUnknownFields
}
