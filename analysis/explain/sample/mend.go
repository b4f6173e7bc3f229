package sample

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"

	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

const (
	// maxTrials is how many objects are put to the checks, at most.
	maxTrials = 2000
	// maxDetours is how often an object that is no better may be gone on from.
	maxDetours = 60
)

// mender looks for a valid object near a given one.
type mender struct {
	*generator
	ctx     context.Context
	version *crd.Version
	root    *schema.Structural
	// seen are the objects that were tried, taken those that were gone on from.
	seen, taken map[digest]bool
	// helped is the number of the edit that fixed the last violation of a kind.
	helped map[string]int
	left   int
}

func newMender(ctx context.Context, v *crd.Version, s *schema.Structural, g *generator) *mender {
	return &mender{
		generator: g, ctx: ctx, version: v, root: s, left: maxTrials,
		seen: map[digest]bool{}, taken: map[digest]bool{}, helped: map[string]int{},
	}
}

// trial is an object with what the checks say about it.
type trial struct {
	obj        schema.Object
	violations schema.Violations
	problem    error
	score      float64
}

// fix changes an object until nothing is wrong with it, or nothing helps.
func (m *mender) mend(obj schema.Object) *Sample {
	current := m.try(obj)
	best := current
	failed := map[string]int{}
	for detours := 0; best.score > 0 && m.left > 0 && m.ctx.Err() == nil; {
		next := m.improve(current, failed)
		if next == nil && detours < maxDetours {
			detours++
			next = m.detour(current)
		}
		if next == nil {
			break
		}
		current = next
		if current.score < best.score {
			best = current
		}
	}
	return &Sample{Object: best.obj, Violations: best.violations, Problem: best.problem}
}

// try puts an object to the checks.
func (m *mender) try(obj schema.Object) *trial {
	m.left--
	t := &trial{obj: obj}
	t.violations, t.problem = admit(m.ctx, m.version, obj)
	var contradictions *schema.ContradictionError
	if errors.As(t.problem, &contradictions) {
		// In these semantics a wrong type is found earlier, but fixed alike.
		for _, c := range contradictions.Contradictions {
			t.violations = append(t.violations, schema.Violation{Path: c.Path, Kind: schema.WrongType, Schema: c.Schema, Value: c.Value, Want: schema.Operand{Types: []string{c.Want}}, Closest: -1})
		}
		t.problem = nil
	}
	t.score = score(t.violations)
	if t.problem != nil {
		t.score += 1e9
	}
	return t
}

// score says how bad violations are. Rules count least: they are evaluated only when
// nothing else is wrong, so that fixing the rest uncovers them.
func score(vs schema.Violations) (sum float64) {
	for i := range vs {
		v := &vs[i]
		switch v.Kind {
		case schema.RulesSkipped:
			sum += 1
		case schema.Rule:
			sum += 1
		case schema.AnyOf, schema.OneOf:
			sum += 1000
			if v.Closest >= 0 && v.Closest < len(v.Branches) {
				sum += float64(min(len(v.Branches[v.Closest]), 100))
			} else {
				sum += float64(min(v.Holding, 100))
			}
		default:
			sum += 1000
		}
	}
	return sum
}

// improve returns an object with less wrong in it, or nil if it finds none.
func (m *mender) improve(t *trial, failed map[string]int) *trial {
	order := make([]int, len(t.violations))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(failed[key(&t.violations[i])], failed[key(&t.violations[j])])
	})
	for _, i := range order {
		edits := m.edits(t.obj, &t.violations[i])
		same := t.violations[i].Kind.String() + " " + operand(&t.violations[i])
		if n, ok := m.helped[same]; ok && n < len(edits) {
			// What helped against the same violation elsewhere is tried first.
			if next := m.apply(t, edits[n]); next != nil && next.score < t.score {
				return next
			}
		}
		for n, e := range edits {
			if next := m.apply(t, e); next != nil && next.score < t.score {
				m.helped[same] = n
				return next
			}
		}
		failed[key(&t.violations[i])]++
	}
	return nil
}

// detour returns an object from which one of the violations is gone, although it is
// no better than t as a whole; nil if there is none that was not tried before.
func (m *mender) detour(t *trial) (best *trial) {
	for i := range t.violations {
		v := &t.violations[i]
		for _, e := range m.edits(t.obj, v) {
			obj := jsonx.CopyObject(t.obj)
			if m.left <= 0 || !e(obj) || m.taken[fingerprint(obj)] {
				continue
			}
			next := m.try(obj)
			gone := !slices.ContainsFunc(next.violations, func(x schema.Violation) bool { return key(&x) == key(v) })
			if gone && (best == nil || next.score < best.score) {
				best = next
			}
		}
		if best != nil {
			m.taken[fingerprint(best.obj)] = true
			return best
		}
	}
	return nil
}

// apply tries an edit on a copy, unless the outcome was tried before.
func (m *mender) apply(t *trial, e edit) *trial {
	if m.left <= 0 {
		return nil
	}
	obj := jsonx.CopyObject(t.obj)
	if !e(obj) {
		return nil
	}
	id := fingerprint(obj)
	if m.seen[id] {
		return nil
	}
	m.seen[id] = true
	return m.try(obj)
}

// key tells violations apart.
func key(v *schema.Violation) string {
	return v.Path.Pointer() + " " + v.Kind.String() + " " + operand(v)
}

// operand returns the operand of a keyword that is a text.
func operand(v *schema.Violation) string {
	switch v.Kind {
	case schema.Rule:
		return v.Want.Rule
	case schema.Pattern:
		return v.Want.Pattern
	case schema.WrongFormat:
		return v.Want.Format
	case schema.WrongDiscriminator:
		return v.Want.Discriminator
	case schema.Dependency, schema.Metadata:
		return v.Want.Name
	}
	return ""
}

// digest tells objects apart.
type digest [sha256.Size]byte

func fingerprint(obj schema.Object) digest {
	// An object that was made here is JSON. If it were not, it would be tried once.
	data, _ := json.Marshal(obj)
	return sha256.Sum256(data)
}
