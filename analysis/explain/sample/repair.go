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
	// maxTrials limits the number of objects that are validated.
	maxTrials = 2000
	// maxDetours limits how often the search continues from an object that is no better.
	maxDetours = 60
)

// repairer searches for a valid object close to a given one.
type repairer struct {
	*generator
	ctx     context.Context
	version *crd.Version
	root    *schema.Structural
	// seen are the objects that were tried, taken those that the search continued from.
	seen, taken map[digest]bool
	// helped is the index of the edit that fixed the last violation of a kind.
	helped map[string]int
	left   int
}

func newRepairer(ctx context.Context, v *crd.Version, s *schema.Structural, g *generator) *repairer {
	return &repairer{
		generator: g, ctx: ctx, version: v, root: s, left: maxTrials,
		seen: map[digest]bool{}, taken: map[digest]bool{}, helped: map[string]int{},
	}
}

// trial is an object with the result of its validation.
type trial struct {
	obj        schema.Object
	violations schema.Violations
	problem    error
	score      float64
}

// repair changes an object until it is valid or no edit helps.
func (m *repairer) repair(obj schema.Object) *Sample {
	current := m.try(obj)
	best := current
	failed := map[string]int{}
	for detours := 0; best.score > 0 && m.ctx.Err() == nil; {
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

// try validates an object.
func (m *repairer) try(obj schema.Object) *trial {
	m.left--
	t := &trial{obj: obj}
	t.violations, t.problem = admit(m.ctx, m.version, obj)
	var contradictions *schema.ContradictionError
	if errors.As(t.problem, &contradictions) {
		// In the kep semantics decoding already finds a wrong type. The fix is the same.
		for _, c := range contradictions.Contradictions {
			t.violations = append(t.violations, schema.Violation{Path: c.Path, Kind: schema.WrongType, Schema: c.Schema,
				Value: c.Value, Want: schema.Operand{Types: []string{c.Want}}, Closest: -1})
		}
		t.problem = nil
	}
	t.score = score(t.violations)
	if t.problem != nil {
		t.score += 1e9
	}
	return t
}

// score rates violations; higher is worse. Rules count least: they are evaluated only when
// nothing else is wrong, so fixing the rest uncovers them.
func score(vs schema.Violations) (sum float64) {
	for i := range vs {
		v := &vs[i]
		switch v.Kind {
		case schema.RulesSkipped, schema.Rule:
			sum++
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

// improve returns an object with a lower score, or nil if it finds none.
func (m *repairer) improve(t *trial, failed map[string]int) *trial {
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
			// Edits that fixed the same violation elsewhere are tried first.
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

// detour returns an object without one of the violations although its score is no better
// than that of t, or nil if there is none that was not tried before.
func (m *repairer) detour(t *trial) (best *trial) {
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

// apply tries an edit on a copy, unless the result was tried before.
func (m *repairer) apply(t *trial, e edit) *trial {
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

// key identifies a violation.
func key(v *schema.Violation) string {
	return v.Path.Pointer() + " " + v.Kind.String() + " " + operand(v)
}

// operand returns the operand of a keyword whose operand is a string.
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

// digest identifies an object.
type digest [sha256.Size]byte

func fingerprint(obj schema.Object) digest {
	// A generated object always encodes as JSON.
	data, _ := json.Marshal(obj)
	return sha256.Sum256(data)
}
