package schema

import (
	"maps"
	"slices"
)

// draft4Walk is the thorough walk for schemas in the draft-4 dialect.
type draft4Walk struct {
	*walker
	// shared is nil if no definition is referred to more than once.
	shared *sharedResults
}

func newDraft4Walk(w *walker) *draft4Walk {
	d := &draft4Walk{walker: w}
	if w.p.sharing {
		d.shared = newSharedResults()
	}
	return d
}

func (w *draft4Walk) beside(id int32, v any) (r result) {
	n := &w.p.nodes[id]
	if n.operators != nil {
		r.merge(w.operators(id, v))
	}
	if obj, ok := v.(map[string]any); ok && n.draft4 != nil {
		r.merge(w.dependencies(id, obj))
	}
	return r
}

func (w *draft4Walk) branch(id int32, v any) result {
	if w.shared == nil {
		return w.check(id, v, correlation{})
	}
	if r, known := w.shared.result(id); known {
		return r
	}
	r := w.check(id, v, correlation{})
	// The result is shared: appending to it must copy.
	r.violations = slices.Clip(r.violations)
	w.shared.remember(id, r)
	return r
}

func (w *draft4Walk) enter(s Step) {
	w.path = append(w.path, s)
	if w.shared != nil {
		w.shared.enter(s.Key, s.Index)
	}
}

func (w *draft4Walk) leave() {
	w.path = w.path[:len(w.path)-1]
	if w.shared != nil {
		w.shared.leave()
	}
}

func (w *draft4Walk) items(r *result, id int32, a []any, c correlation) {
	n := &w.p.nodes[id]
	if n.items > nowhere {
		old := w.old.items(id, c)
		for i, v := range a {
			if w.full() {
				return
			}
			w.enter(Step{Index: i, Kind: Index})
			r.merge(w.value(n.items, v, old.find(v)))
			w.leave()
		}
	}
	if n.draft4 != nil {
		w.tuple(r, id, a)
	}
}

func (w *draft4Walk) fields(r *result, id int32, obj map[string]any, c correlation) {
	n := &w.p.nodes[id]
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		if w.full() {
			return
		}
		if n.draft4 != nil && w.patterns(r, id, k, obj[k]) && n.props.find(k) == none {
			continue
		}
		switch child, step := n.specified(k); child {
		case none:
			r.violations = append(r.violations, w.violation(ForbiddenField, id, k, Operand{}))
		case nowhere:
		default:
			w.enter(step)
			r.merge(w.value(child, obj[k], w.correlateField(c, k)))
			w.leave()
		}
	}
}

// patterns validates a field against the patternProperties that its name matches,
// and reports whether there are any.
func (w *draft4Walk) patterns(r *result, id int32, k string, v any) (matched bool) {
	for _, p := range w.p.nodes[id].draft4.patterns {
		matches := p.pattern.match(k, &w.work)
		if w.unmatched == nil && w.work.Exceeded() {
			v := w.violation(Pattern, p.node, k, Operand{Pattern: p.pattern.source, PatternErr: w.work.Err()})
			w.unmatched = &v
		}
		if matches {
			matched = true
			w.enter(Step{Key: k, Kind: MapKey})
			r.merge(w.branch(p.node, v))
			w.leave()
		}
	}
	return matched
}

func (w *draft4Walk) dependencies(id int32, obj map[string]any) (r result) {
	for _, dep := range w.p.nodes[id].draft4.dependencies {
		if _, ok := obj[dep.field]; !ok {
			continue
		}
		for _, name := range dep.required {
			if _, ok := obj[name]; !ok {
				r.violations = append(r.violations, w.violation(Dependency, id, dep.field, Operand{Name: name}))
			}
		}
		if dep.node != none {
			r.merge(w.branch(dep.node, obj))
		}
	}
	return r
}

// tuple validates an array whose items have schemas by position.
func (w *draft4Walk) tuple(r *result, id int32, a []any) {
	d := w.p.nodes[id].draft4
	if len(d.tuple) == 0 {
		return
	}
	for i, v := range a {
		if w.full() {
			return
		}
		child := d.more
		if i < len(d.tuple) {
			child = d.tuple[i]
		}
		if child > nowhere {
			w.enter(Step{Index: i, Kind: Index})
			r.merge(w.branch(child, v))
			w.leave()
		}
	}
	if d.closed && len(a) > len(d.tuple) {
		r.violations = append(r.violations, w.violation(AdditionalItems, id, int64(len(a)), Operand{Limit: int64(len(d.tuple))}))
	}
}

// sharedResults is sharedVerdicts for the thorough walk.
type sharedResults struct {
	sharedVerdicts
	results map[verdictKey]result
}

func newSharedResults() *sharedResults {
	return &sharedResults{sharedVerdicts: *newSharedVerdicts(), results: map[verdictKey]result{}}
}

func (s *sharedResults) result(node int32) (result, bool) {
	r, known := s.results[verdictKey{node, s.at[len(s.at)-1]}]
	return r, known
}

func (s *sharedResults) remember(node int32, r result) {
	s.results[verdictKey{node, s.at[len(s.at)-1]}] = r
}
