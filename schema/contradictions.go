package schema

import (
	"fmt"
	"slices"
	"strings"
)

// ContradictionError is returned by Decode and Normalize if values contradict the types
// of the schema and Semantics.RefusesContradictions is true. Otherwise Validate reports
// them.
type ContradictionError struct {
	// Contradictions are sorted by path.
	Contradictions []Contradiction
}

// Contradiction is a value that does not have the type that the schema requires.
type Contradiction struct {
	Path Path
	// Got is the type of the value.
	Got string
	// Want is the type that the schema requires.
	Want string
	// Value is the value.
	Value any
	// Schema is the schema that requires the type.
	Schema NodeRef
}

// maxContradictionText is the size of the text of an error after which no contradiction is added.
const maxContradictionText = 1 << 16

// Error lists the contradictions, in the form of Violations.Messages. If there are very many, it lists
// the first ones.
func (e *ContradictionError) Error() string {
	var b strings.Builder
	for i, c := range e.Contradictions {
		if i > 0 {
			b.WriteString("; ")
		}
		if b.Len() > maxContradictionText {
			fmt.Fprintf(&b, "and %d more", len(e.Contradictions)-i)
			break
		}
		fmt.Fprintf(&b, "%s in body must be of type %s: %q", c.Path, c.Want, c.Got)
	}
	return b.String()
}

// contradiction records v if it does not have the type that node id requires. The path
// is completed by below, on the way up.
func (z *normalizer) contradiction(id int32, v any) {
	n := &z.p.nodes[id]
	k := jsonTypeOf(v)
	if n.shape == acceptsAll || n.shape.has(k, v) {
		return
	}
	z.found = append(z.found, Contradiction{
		Got: k.typeName(), Want: strings.Join(n.types.names, " or "), Value: v, Schema: z.p.ref(id),
	})
}

// contradictionsFound returns an error with all contradictions that the old object does
// not have too.
func (z *normalizer) contradictionsFound() error {
	list := z.found[:0]
	for _, c := range z.found {
		slices.Reverse(c.Path)
		if old, found := c.Path.Find(z.old); !found || !Equal(old, c.Value) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b Contradiction) int { return a.Path.compare(b.Path) })
	return &ContradictionError{Contradictions: list}
}
