package schema

import "espalier.dev/internal/rx"

// proves reports whether a value is certainly valid. It is the fast half of Validate:
// almost all objects are valid, and for them no other walk is needed. For schemas the
// result is exact, which logical operators rely on. For metadata and list types, false
// may also mean that the thorough walk has to decide.
func (w *prover) proves(id int32, v any) bool {
	n := &w.p.nodes[id]
	switch v := v.(type) {
	case string:
		if !n.provesString(v, &w.work) {
			return false
		}
	case map[string]any:
		if n.accepts&kObject.bit() == 0 || !w.object(n, v) {
			return false
		}
	case int64:
		if !n.provesInt(v) {
			return false
		}
	case bool:
		if !n.provesBool(v) {
			return false
		}
	case []any:
		if n.accepts&kArray.bit() == 0 || !w.array(n, v) {
			return false
		}
	case float64:
		if !n.provesFloat(v) {
			return false
		}
	case nil:
		return n.provesNull()
	default:
		return false
	}
	return n.operators == nil || n.operators.hold(func(id int32) bool { return w.proves(id, v) })
}

// prover is one walk.
type prover struct {
	p       *Program
	scratch *scratch
	work    rx.Work
}

func (w *prover) object(n *node, obj map[string]any) bool {
	if !n.provesObject(obj) || n.flags&embedded != 0 && !provesEmbedded(obj) {
		return false
	}
	unions := n.unions.all()
	for i := range unions {
		if !unions[i].holds(obj) {
			return false
		}
	}
	if n.additional <= nowhere && n.flags&closed == 0 && len(n.props.list) <= 2*len(obj) {
		for i := range n.props.list {
			prop := &n.props.list[i]
			if v, ok := obj[prop.name]; ok && !w.proves(prop.node, v) {
				return false
			}
		}
		return true
	}
	for k, v := range obj {
		child := n.props.find(k)
		if child == none {
			if n.forbids(k) {
				return false
			}
			if child = n.additional; child <= nowhere {
				continue
			}
		}
		if !w.proves(child, v) {
			return false
		}
	}
	return true
}

func (w *prover) array(n *node, a []any) bool {
	if !n.provesArray(a) || n.list != nil && !n.list.proves(a, w.scratch) {
		return false
	}
	if n.items <= nowhere {
		return true
	}
	for _, v := range a {
		if !w.proves(n.items, v) {
			return false
		}
	}
	return true
}

func (n *node) provesString(s string, w *rx.Work) bool {
	if n.accepts&kString.bit() == 0 {
		return false
	}
	c := n.checks
	return c == nil || c.string(s, w) == 0 && (c.format == nil || c.format(s)) && (c.enum == nil || enumHasString(c.enum, s))
}

func enumHasString(allowed []any, s string) bool {
	for _, v := range allowed {
		if v == s {
			return true
		}
	}
	return false
}

func (n *node) provesInt(v int64) bool {
	if n.accepts&kInt.bit() == 0 {
		return false
	}
	c := n.checks
	return c == nil || c.int(v) == 0 && (c.enum == nil || inEnum(c.enum, v))
}

func (n *node) provesFloat(v float64) bool {
	if !n.accepts.has(kFloat, v) {
		return false
	}
	c := n.checks
	return c == nil || c.float(v) == 0 && (c.enum == nil || inEnum(c.enum, v))
}

func (n *node) provesBool(v bool) bool {
	return n.accepts&kBool.bit() != 0 && (n.checks == nil || n.checks.enum == nil || inEnum(n.checks.enum, v))
}

// provesNull checks the type and enum, which never contains null.
func (n *node) provesNull() bool {
	return n.accepts&kNull.bit() != 0 && (n.checks == nil || n.checks.enum == nil)
}

// provesObject checks an object without the values of its fields.
func (n *node) provesObject(obj map[string]any) bool {
	if n.checks != nil && (n.checks.object(obj) != 0 || n.checks.enum != nil && !inEnum(n.checks.enum, obj)) {
		return false
	}
	for _, name := range n.required {
		if _, ok := obj[name]; !ok {
			return false
		}
	}
	return true
}

// provesArray checks an array without its items.
func (n *node) provesArray(a []any) bool {
	return n.checks == nil || n.checks.array(a) == 0 && (n.checks.enum == nil || inEnum(n.checks.enum, a))
}

// hold reports whether a value satisfies the logical operators. branch reports whether
// it satisfies one of their schemas.
func (j *operators) hold(branch func(int32) bool) bool {
	for _, id := range j.allOf {
		if !branch(id) {
			return false
		}
	}
	if len(j.anyOf) > 0 {
		matched := false
		for _, id := range j.anyOf {
			if matched = branch(id); matched {
				break
			}
		}
		if !matched {
			return false
		}
	}
	if len(j.oneOf) > 0 {
		matched := 0
		for _, id := range j.oneOf {
			if branch(id) {
				if matched++; matched > 1 {
					return false
				}
			}
		}
		if matched != 1 {
			return false
		}
	}
	return j.not == none || !branch(j.not)
}

// forbids reports whether additionalProperties: false forbids a field that the schema
// does not otherwise allow.
func (n *node) forbids(name string) bool {
	return n.flags&closed != 0 && (n.flags&excusesMeta == 0 || !IsMetaField(name))
}
