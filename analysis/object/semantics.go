package object

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"espalier.dev"
	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// differences are where the two semantics can treat the objects of a version differently, apart from
// their status. They depend only on the schema.
type differences struct {
	// everywhere is set if they can treat all objects differently.
	everywhere bool
	root       *differing
}

// differing is a value that the two semantics can treat differently, or that contains one.
type differing struct {
	here bool
	// properties, values and items are the parts of the value, if one of theirs differs.
	properties    map[string]*differing
	values, items *differing
}

func differencesOf(v *crd.Version) differences {
	s := v.Structural()
	return differences{
		everywhere: v.Definition().PreservesUnknownFields() || s != nil && s.AdditionalProperties != nil,
		root:       differingAt(s),
	}
}

// differingAt returns what differs at a schema and below it, or nil.
func differingAt(s *schema.Structural) *differing {
	if s == nil {
		return nil
	}
	d := differing{here: hasDifferences(s), items: differingAt(s.Items)}
	for name, p := range s.Properties {
		if below := differingAt(p); below != nil {
			if d.properties == nil {
				d.properties = map[string]*differing{}
			}
			d.properties[name] = below
		}
	}
	if s.AdditionalProperties != nil {
		d.values = differingAt(s.AdditionalProperties.Structural)
	}
	if !d.here && d.properties == nil && d.values == nil && d.items == nil {
		return nil
	}
	return &d
}

// hasDifferences reports whether a schema has a keyword that the two semantics define differently.
// x-kubernetes-preserve-unknown-fields decides about specified parts only: a value without them is
// kept in both.
func hasDifferences(s *schema.Structural) bool {
	specifies := len(s.Properties) > 0 || s.Items != nil || s.AdditionalProperties != nil
	return s.XPreserveUnknownFields && specifies || s.XEmbeddedResource || s.XUnions != nil
}

// possible reports whether there are any.
func (d differences) possible() bool { return d.everywhere || d.root != nil }

// concern reports whether the two semantics can treat an object differently, with the result of one
// of them.
func (d differences) concern(result *espalier.Result) bool {
	switch {
	case d.everywhere:
		return true
	case d.root == nil:
		return false
	case len(result.Violations) > 0 || result.Truncated:
		return true
	}
	if slices.ContainsFunc(result.Changes, func(c schema.Change) bool { return c.Kind != schema.Defaulted }) {
		return true // the values that differ may be gone
	}
	return d.root.in(result.Object)
}

// in reports whether a value contains one that differs.
func (d *differing) in(value any) bool {
	if d.here {
		return true
	}
	switch value := value.(type) {
	case map[string]any:
		for name, below := range d.properties {
			if x, ok := value[name]; ok && below.in(x) {
				return true
			}
		}
		if d.values != nil {
			for _, x := range value {
				if d.values.in(x) {
					return true
				}
			}
		}
	case []any:
		if d.items != nil {
			return slices.ContainsFunc(value, d.items.in)
		}
	}
	return false
}

// same is [reflect.DeepEqual] for the values of objects, without reflection.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for key, x := range a {
			if y, ok := b[key]; !ok || !same(x, y) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, same)
	case nil, string, bool, int64, float64:
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// otherSemantics returns the semantics that the definition does not use.
func (c *Checker) otherSemantics() schema.Semantics {
	return c.definition.Semantics().Other()
}

// compare reports where the other semantics has a different result. It ignores CEL rules,
// which see the same fields in both. result is nil if the object was rejected with an
// error.
func (c *Checker) compare(ctx context.Context, source []byte, old schema.Object,
	result *espalier.Result, rejected error) []analysis.Finding {
	admitter, err := c.other()
	if err != nil {
		return nil
	}
	there, otherErr := admit(ctx, admitter, source, old)
	accepted := rejected == nil && !slices.ContainsFunc(result.Violations, func(x schema.Violation) bool {
		return x.Kind != schema.Rule
	})
	otherAccepted := otherErr == nil && len(there.Violations) == 0
	f := analysis.Finding{Rule: RuleSemantics, Severity: analysis.Info}
	other := c.otherSemantics()
	switch {
	case accepted && !otherAccepted:
		f.Message = fmt.Sprintf("under %s semantics it would be rejected", other)
		if otherErr != nil {
			f.Detail = []string{otherErr.Error()}
			break
		}
		version := admitter.Definition().Version(c.versionOf(result.Object).Name())
		for _, e := range c.violationFindings(version, there.Violations) {
			f.Detail = append(f.Detail, e.Path+": "+e.Message)
		}
	case !accepted && otherAccepted:
		f.Message = fmt.Sprintf("under %s semantics it would be accepted", other)
	case accepted && !same(result.Object, there.Object):
		f.Message = fmt.Sprintf("under %s semantics it would be stored differently", other)
		f.Detail = changeDifference(result.Changes, there.Changes, other)
	default:
		return nil
	}
	return []analysis.Finding{f}
}

// changeDifference lists the changes that only one of the semantics makes. there are the
// changes under the other semantics.
func changeDifference(here, there []schema.Change, other schema.Semantics) (lines []string) {
	key := func(c *schema.Change) string { return c.Path.String() + " is " + changeWord(c.Kind) }
	set := map[string]bool{}
	for i := range here {
		set[key(&here[i])] = true
	}
	for i := range there {
		if k := key(&there[i]); set[k] {
			delete(set, k)
		} else {
			lines = append(lines, fmt.Sprintf("%s under %s semantics only", k, other))
		}
	}
	for i := range here {
		if k := key(&here[i]); set[k] {
			lines = append(lines, fmt.Sprintf("%s under %s semantics only", k, other.Other()))
		}
	}
	return lines
}

// changeWord names a kind of change.
func changeWord(kind schema.ChangeKind) string {
	switch kind {
	case schema.Pruned:
		return "pruned"
	case schema.NullDropped:
		return "dropped as null"
	case schema.Defaulted:
		return "defaulted"
	case schema.Duplicate:
		return "a duplicate"
	}
	return "dropped from metadata"
}
