package schema

import "espalier.dev/internal/rx"

// draft4Prover is the fast walk for schemas in the draft-4 dialect, as prover is for
// structural schemas. The dialect has keywords of its own, and definitions that several
// schemas can refer to.
type draft4Prover struct {
	p *Program
	// shared is nil if no definition is referred to more than once.
	shared *sharedVerdicts
	work   rx.Work
}

func (w *draft4Prover) proves(id int32, v any) bool {
	n := &w.p.nodes[id]
	switch v := v.(type) {
	case string:
		if !n.provesString(v, &w.work) {
			return false
		}
	case map[string]any:
		if n.accepts&kObject.bit() == 0 || !n.provesObject(v) || !w.fields(n, v) {
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
		if n.accepts&kArray.bit() == 0 || !n.provesArray(v) || !w.items(n, v) {
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
	return n.operators == nil || n.operators.hold(func(id int32) bool { return w.branch(id, v) })
}

func (w *draft4Prover) fields(n *node, obj map[string]any) bool {
	if n.draft4 != nil && !w.dependencies(n.draft4, obj) {
		return false
	}
	for k, v := range obj {
		matched := false
		if n.draft4 != nil {
			for i := range n.draft4.patterns {
				if p := &n.draft4.patterns[i]; p.pattern.match(k, &w.work) {
					matched = true
					if !w.part(p.node, v, k, 0) {
						return false
					}
				}
			}
		}
		child := n.props.find(k)
		if child == none {
			if matched {
				continue
			}
			if n.forbids(k) {
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

func (w *draft4Prover) dependencies(d *draft4Checks, obj map[string]any) bool {
	for i := range d.dependencies {
		dep := &d.dependencies[i]
		if _, ok := obj[dep.field]; !ok {
			continue
		}
		for _, name := range dep.required {
			if _, ok := obj[name]; !ok {
				return false
			}
		}
		if dep.node != none && !w.branch(dep.node, obj) {
			return false
		}
	}
	return true
}

func (w *draft4Prover) items(n *node, a []any) bool {
	if d := n.draft4; d != nil && d.closed && len(d.tuple) > 0 && len(a) > len(d.tuple) {
		return false
	}
	for i, v := range a {
		if child := n.draft4.item(i); child > nowhere && !w.part(child, v, "", i) {
			return false
		}
		if n.items > nowhere && !w.part(n.items, v, "", i) {
			return false
		}
	}
	return true
}

// part validates a field or item of a value.
func (w *draft4Prover) part(child int32, v any, key string, index int) bool {
	if w.shared == nil {
		return w.proves(child, v)
	}
	w.shared.enter(key, index)
	ok := w.branch(child, v)
	w.shared.leave()
	return ok
}

// branch validates the same value against another schema. A schema with several
// references validates each value once.
func (w *draft4Prover) branch(id int32, v any) bool {
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

// sharedVerdicts caches the results of schemas that are referred to more than once, for
// the values of one object. This bounds the cost by the number of schemas times the
// number of values, however many references there are.
type sharedVerdicts struct {
	at       []int32 // the path to the current value, as numbers of values
	values   map[valueKey]int32
	verdicts map[verdictKey]bool
}

type valueKey struct {
	parent int32
	key    string
	index  int
}

type verdictKey struct {
	node, value int32
}

func newSharedVerdicts() *sharedVerdicts {
	return &sharedVerdicts{at: []int32{0}, values: map[valueKey]int32{}, verdicts: map[verdictKey]bool{}}
}

func (s *sharedVerdicts) enter(key string, index int) {
	k := valueKey{s.at[len(s.at)-1], key, index}
	number, known := s.values[k]
	if !known {
		number = int32(len(s.values) + 1)
		s.values[k] = number
	}
	s.at = append(s.at, number)
}

func (s *sharedVerdicts) leave() { s.at = s.at[:len(s.at)-1] }

func (s *sharedVerdicts) verdict(node int32) (verdict, known bool) {
	verdict, known = s.verdicts[verdictKey{node, s.at[len(s.at)-1]}]
	return verdict, known
}

func (s *sharedVerdicts) remember(node int32, verdict bool) {
	s.verdicts[verdictKey{node, s.at[len(s.at)-1]}] = verdict
}
