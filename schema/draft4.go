package schema

// draft4Checks are the keywords that only the draft-4 dialect of 2017 has.
type draft4Checks struct {
	// patterns is patternProperties.
	patterns []patternProperty
	// dependencies is what the presence of a field asks for.
	dependencies []dependency
	// tuple is items as a list: the schema of each item by its position.
	tuple []int32
	// more is additionalItems: the schema of the items after the tuple, or none.
	more int32
	// refusesMore is additionalItems: false.
	refusesMore bool
}

type patternProperty struct {
	pattern *pattern
	node    int32
}

type dependency struct {
	field string
	// required are the fields that must be there too.
	required []string
	// node is the schema that the whole object must satisfy, or none.
	node int32
}

// matches says whether some pattern matches the name of a field.
func (d *draft4Checks) matches(name string) bool {
	for i := range d.patterns {
		if d.patterns[i].pattern.match(name) {
			return true
		}
	}
	return false
}

func (w *prover) draft4Object(n *node, obj map[string]any) bool {
	d := n.draft4
	for k, v := range obj {
		for i := range d.patterns {
			if d.patterns[i].pattern.match(k) && !w.part(d.patterns[i].node, v, k, 0) {
				return false
			}
		}
	}
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

func (w *prover) draft4Array(n *node, a []any) bool {
	d := n.draft4
	if len(d.tuple) == 0 {
		return true
	}
	if d.refusesMore && len(a) > len(d.tuple) {
		return false
	}
	for i, v := range a {
		switch {
		case i < len(d.tuple):
			if !w.part(d.tuple[i], v, "", i) {
				return false
			}
		case d.more > nowhere:
			if !w.part(d.more, v, "", i) {
				return false
			}
		}
	}
	return true
}

// sharedVerdicts remembers what schemas that are referred to more than once say of
// the values of one object, so that a web of references costs no more than its
// schemas times the object's values.
type sharedVerdicts struct {
	at       []int32 // the way to the current value, as numbers of values
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

// patterns validates a field against the patternProperties that its name matches,
// and says whether there are any.
func (w *walker) patterns(r *result, id int32, k string, v any) (matched bool) {
	for _, p := range w.p.nodes[id].draft4.patterns {
		if p.pattern.match(k) {
			matched = true
			w.enter(Step{Key: k, Kind: MapKey})
			r.merge(w.branch(p.node, v))
			w.leave()
		}
	}
	return matched
}

func (w *walker) dependencies(id int32, obj map[string]any) (r result) {
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

// tuple validates an array whose items have schemas by their position.
func (w *walker) tuple(r *result, id int32, a []any) {
	d := w.p.nodes[id].draft4
	if len(d.tuple) == 0 {
		return
	}
	for i, v := range a {
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
	if d.refusesMore && len(a) > len(d.tuple) {
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
