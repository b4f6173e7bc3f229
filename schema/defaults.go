package schema

import (
	"math"

	"espalier.dev/internal/jsonx"
)

// missing fills in the defaults of the fields that obj does not have.
func (z *normalizer) missing(n *node, obj map[string]any) {
	if !z.defaults || obj == nil {
		return
	}
	for _, i := range n.props.defaulted {
		prop := &n.props.list[i]
		if _, found := obj[prop.name]; !found {
			z.fill(obj, prop)
		}
	}
}

// fill fills in the default of a field.
func (z *normalizer) fill(obj map[string]any, prop *property) {
	if z.fits(prop.node, nameBytes(prop.name)) {
		obj[prop.name] = z.p.defaultOf(prop.node)
		z.record(Defaulted, prop.node, Step{Key: prop.name})
	}
}

// fits reports whether there is room for a default, and for its name in an object. After the first one that
// does not fit, none is built, and the result is an error.
func (z *normalizer) fits(id int32, name int) bool {
	if z.room -= name + int(z.p.nodes[id].dfltBytes); z.room < 0 && z.exceeded == nowhere {
		z.exceeded = id
	}
	return z.exceeded == nowhere
}

// Default fills in the defaults of an object in place, and changes nothing else. The error is a
// *DefaultsError; the object is unchanged then.
func (p *Program) Default(obj Object) error {
	if !p.hasDefaults {
		return nil
	}
	missing := p.missingBytes(root, obj)
	if missing.bytes > MaxDefaultBytes {
		return &DefaultsError{p.ref(missing.last)}
	}
	z := normalizer{p: p, defaults: true, room: math.MaxInt}
	z.fillIn(root, obj)
	return nil
}

// fillIn fills in defaults and changes nothing else.
func (z *normalizer) fillIn(id int32, v any) {
	n := &z.p.nodes[id]
	if n.flags&defaultsBelow == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			child, isMapValue := n.child(k)
			if child <= nowhere {
				continue
			}
			step := Step{Key: k}
			if isMapValue {
				step.Kind = MapKey
			}
			c := &z.p.nodes[child]
			if x == nil && c.flags&(nullable|hasDefault) == hasDefault {
				if z.fits(child, nameBytes(k)) {
					v[k] = z.p.defaultOf(child)
					z.record(Defaulted, child, step)
				}
				continue
			}
			z.push(step)
			z.fillIn(child, x)
			z.pop()
		}
		z.missing(n, v)
	case []any:
		if n.items <= nowhere {
			return
		}
		c := &z.p.nodes[n.items]
		for i, x := range v {
			if x == nil && c.flags&(nullable|hasDefault) == hasDefault {
				if z.fits(n.items, 0) {
					v[i] = z.p.defaultOf(n.items)
					z.record(Defaulted, n.items, Step{Index: i, Kind: Index})
				}
				continue
			}
			z.push(Step{Index: i, Kind: Index})
			z.fillIn(n.items, x)
			z.pop()
		}
	}
}

// defaultOf returns a copy of the default of a node, with the defaults below it filled
// in.
func (p *Program) defaultOf(id int32) any {
	n := &p.nodes[id]
	if !isContainer(n.dflt) {
		return n.dflt
	}
	v := jsonx.Copy(n.dflt)
	if n.flags&defaultsBelow != 0 {
		z := normalizer{p: p, defaults: true, room: math.MaxInt} // dfltBytes has them
		z.fillIn(id, v)
	}
	return v
}

// pruneDefault returns the default of a node as it is after pruning. It builds the
// smallest object that contains the default and normalizes it. The result is nil if
// nothing is left.
func (p *Program) pruneDefault(id int32) any {
	var way []int32
	for i := id; i != root; i = p.nodes[i].parent {
		way = append(way, i)
	}
	v := p.nodes[id].dflt
	for _, i := range way {
		switch step := p.nodes[i].step; step.Keyword {
		case "items":
			v = []any{v}
		case "properties":
			v = map[string]any{step.Name: v}
		default:
			v = map[string]any{"*": v}
		}
	}
	obj, ok := v.(map[string]any)
	if !ok {
		// The default is below items of the root, which no object has.
		return p.nodes[id].dflt
	}
	// Malformed metadata is dropped, so there are no errors.
	z := normalizer{p: p, dropMetadata: true}
	_ = z.object(root, obj)
	for _, k := range [...]string{"apiVersion", "kind", "metadata"} {
		if v, found := obj[k]; found {
			_ = z.metaField(none, obj, k, v)
		}
	}
	v = obj
	for i := len(way) - 1; i >= 0; i-- {
		switch x := v.(type) {
		case map[string]any:
			key := "*"
			if step := p.nodes[way[i]].step; step.Keyword == "properties" {
				key = step.Name
			}
			v = x[key]
		case []any:
			v = x[0]
		default:
			return nil
		}
	}
	return v
}
