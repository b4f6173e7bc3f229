package oracle

import (
	"strings"

	kjson "sigs.k8s.io/json"

	"espalier.dev/test/oracle/builtin"
)

// minimize shrinks the case of a difference while the difference remains, and returns the
// smallest one found.
func minimize(d *Difference) *Difference {
	best := d
	budget := 4000
	// again looks for the same difference in a changed case.
	again := func(c Case) bool {
		if budget--; budget < 0 {
			return false
		}
		for _, other := range check(c) {
			if other.What == d.What && other.Known == d.Known {
				best = other
				return true
			}
		}
		return false
	}
	for range 4 {
		before := budget
		if best.Case.Schema != nil {
			tree := clone(best.Case.Schema)
			builtin.Shrink(tree, func() bool {
				c := *best.Case
				c.Schema = clone(tree)
				return sensible(c, d) && again(c)
			})
		}
		for _, part := range []func(*Case) *[]byte{
			func(c *Case) *[]byte { return &c.Doc },
			func(c *Case) *[]byte { return &c.Old },
		} {
			doc := *part(best.Case)
			var tree map[string]any
			if doc == nil || kjson.UnmarshalCaseSensitivePreserveInts(doc, &tree) != nil || tree == nil {
				continue
			}
			builtin.Shrink(tree, func() bool {
				c := *best.Case
				*part(&c) = encode(tree)
				return again(c)
			})
		}
		shrinkBytes(best, again)
		if budget < 0 || before-budget < 2 {
			break
		}
	}
	return best
}

// sensible reports whether a server may hold the smaller schema, if it may hold the original
// one.
func sensible(c Case, d *Difference) bool {
	if d.Case.Doc == nil {
		return true
	}
	props, err := ReferenceSchema(encode(c.Schema))
	if err != nil {
		return false
	}
	_, errs, err := ReferenceStructural(props)
	return err == nil && len(errs) == 0 && accepts(props, true)
}

// check runs a case from its beginning.
func check(c Case) []*Difference {
	if c.Doc == nil {
		return compareStructural(c)
	}
	p, out := newPair(c)
	if p == nil {
		return out
	}
	_, out = p.check(c)
	return out
}

// shrinkBytes removes runs of bytes, for documents whose difference is lost when they are
// parsed.
func shrinkBytes(best *Difference, again func(Case) bool) {
	if best.Case.Doc == nil || parse(best.Case.Doc) != nil && !strings.Contains(best.What, "duplicate") {
		return
	}
	doc := best.Case.Doc
	for size := len(doc) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(doc); {
			without := append(append([]byte{}, doc[:i]...), doc[i+size:]...)
			c := *best.Case
			c.Doc = without
			if again(c) {
				doc = without
			} else {
				i += size
			}
		}
	}
}
