package schema

// proves says whether a value is certainly valid, without saying why not. It is
// the quick half of Validate: almost all objects are valid, and for them this walk
// is all there is. Of what a schema says itself the answer is exact (a junctor
// relies on it); of metadata and lists a no may also mean "look closer".
func (w *prover) proves(id int32, v any) bool {
	n := &w.p.nodes[id]
	switch v := v.(type) {
	case string:
		if n.accepts&kString.bit() == 0 {
			return false
		}
		if c := n.checks; c != nil {
			if c.string(v) != 0 || c.format != nil && !c.format(v) || c.enum != nil && !enumHasString(c.enum, v) {
				return false
			}
		}
	case map[string]any:
		if n.accepts&kObject.bit() == 0 || !w.object(n, v) {
			return false
		}
	case int64:
		if n.accepts&kInt.bit() == 0 {
			return false
		}
		if c := n.checks; c != nil && (c.int(v) != 0 || c.enum != nil && !inEnum(c.enum, v)) {
			return false
		}
	case bool:
		if n.accepts&kBool.bit() == 0 || n.checks != nil && n.checks.enum != nil && !inEnum(n.checks.enum, v) {
			return false
		}
	case []any:
		if n.accepts&kArray.bit() == 0 || !w.array(n, v) {
			return false
		}
	case float64:
		if !n.accepts.has(kFloat, v) {
			return false
		}
		if c := n.checks; c != nil && (c.float(v) != 0 || c.enum != nil && !inEnum(c.enum, v)) {
			return false
		}
	case nil:
		// Of null only the type counts, and that no enum has it.
		return n.accepts&kNull.bit() != 0 && (n.checks == nil || n.checks.enum == nil)
	default:
		return false
	}
	return n.junctors == nil || w.junctors(n.junctors, v)
}

// prover is one walk.
type prover struct {
	p       *Program
	scratch *scratch
	shared  *sharedVerdicts
}

func enumHasString(allowed []any, s string) bool {
	for _, v := range allowed {
		if v == s {
			return true
		}
	}
	return false
}

func (w *prover) object(n *node, obj map[string]any) bool {
	if n.checks != nil && (n.checks.object(obj) != 0 || n.checks.enum != nil && !inEnum(n.checks.enum, obj)) {
		return false
	}
	for _, name := range n.required {
		if _, ok := obj[name]; !ok {
			return false
		}
	}
	if n.flags&embedded != 0 && !provesEmbedded(obj) {
		return false
	}
	for i := range n.unions {
		if !n.unions[i].holds(obj) {
			return false
		}
	}
	if n.draft4 != nil && !w.draft4Object(n, obj) {
		return false
	}
	if n.additional <= nowhere && n.flags&refusesOthers == 0 && len(n.props.list) <= 2*len(obj) && n.draft4 == nil {
		for i := range n.props.list {
			prop := &n.props.list[i]
			if v, ok := obj[prop.name]; ok && !w.part(prop.node, v, prop.name, 0) {
				return false
			}
		}
		return true
	}
	for k, v := range obj {
		child := n.props.find(k)
		if child == none {
			if n.draft4 != nil && n.draft4.matches(k) {
				continue
			}
			if n.refuses(k) {
				return false
			}
			if child = n.additional; child <= nowhere {
				continue
			}
		}
		if !w.part(child, v, k, 0) {
			return false
		}
	}
	return true
}

func (w *prover) array(n *node, a []any) bool {
	if n.checks != nil && (n.checks.array(a) != 0 || n.checks.enum != nil && !inEnum(n.checks.enum, a)) {
		return false
	}
	if n.list != nil && !n.list.proves(a, w.scratch) {
		return false
	}
	if n.draft4 != nil && !w.draft4Array(n, a) {
		return false
	}
	if n.items <= nowhere {
		return true
	}
	for i, v := range a {
		if !w.part(n.items, v, "", i) {
			return false
		}
	}
	return true
}

// part goes into a part of a value.
func (w *prover) part(child int32, v any, key string, index int) bool {
	if w.shared == nil {
		return w.proves(child, v)
	}
	w.shared.enter(key, index)
	ok := w.branch(child, v)
	w.shared.leave()
	return ok
}

// branch looks at the same value with another schema. A schema that several others
// refer to judges each value once.
func (w *prover) branch(id int32, v any) bool {
	if w.shared == nil {
		return w.proves(id, v)
	}
	if verdict, known := w.shared.verdict(id); known {
		return verdict
	}
	ok := w.proves(id, v)
	w.shared.remember(id, ok)
	return ok
}

func (w *prover) junctors(j *junctors, v any) bool {
	for _, id := range j.allOf {
		if !w.branch(id, v) {
			return false
		}
	}
	if len(j.anyOf) > 0 {
		matched := false
		for _, id := range j.anyOf {
			if matched = w.branch(id, v); matched {
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
			if w.branch(id, v) {
				if matched++; matched > 1 {
					return false
				}
			}
		}
		if matched != 1 {
			return false
		}
	}
	return j.not == none || !w.branch(j.not, v)
}

// refuses says whether additionalProperties: false forbids a field that nothing
// else in the schema names.
func (n *node) refuses(name string) bool {
	return n.flags&refusesOthers != 0 && (n.flags&excusesMeta == 0 || !IsMetaField(name))
}
