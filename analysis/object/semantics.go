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

// canDiffer reports whether the two semantics can treat objects of a version differently, apart from
// their status. It depends only on the schema.
func canDiffer(v *crd.Version) bool {
	s := v.Structural()
	return v.Definition().PreservesUnknownFields() || s != nil && s.AdditionalProperties != nil || hasDifferences(s)
}

// hasDifferences reports whether a schema has a keyword that the two semantics define differently.
func hasDifferences(s *schema.Structural) bool {
	if s == nil {
		return false
	}
	if s.XPreserveUnknownFields || s.XEmbeddedResource || s.XUnions != nil {
		return true
	}
	for _, p := range s.Properties {
		if hasDifferences(p) {
			return true
		}
	}
	return hasDifferences(s.Items) || s.AdditionalProperties != nil && hasDifferences(s.AdditionalProperties.Structural)
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
	case accepted && !reflect.DeepEqual(result.Object, there.Object):
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
