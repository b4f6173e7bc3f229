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

// difference reports where the two semantics can treat a valid object differently. It
// depends only on the schema.
type difference struct {
	// pruning is about stored fields, validation about accepted objects.
	pruning, validation bool
}

// differenceOf returns the possible differences for the schema of a version.
func differenceOf(v *crd.Version) (d difference) {
	s := v.Structural()
	d.pruning = v.Definition().PreservesUnknownFields()
	d.validation = d.pruning || s != nil && s.AdditionalProperties != nil
	d.look(s)
	return d
}

func (d *difference) look(s *schema.Structural) {
	if s == nil || d.pruning && d.validation {
		return
	}
	d.pruning = d.pruning || s.XPreserveUnknownFields || s.XEmbeddedResource
	d.validation = d.validation || s.XEmbeddedResource || len(s.XUnions) > 0
	for _, p := range s.Properties {
		d.look(p)
	}
	if s.AdditionalProperties != nil {
		d.look(s.AdditionalProperties.Structural)
	}
	d.look(s.Items)
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
		return x.Kind != schema.Rule && x.Kind != schema.RulesSkipped
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
	case accepted && otherAccepted && !reflect.DeepEqual(result.Object, there.Object):
		f.Message = fmt.Sprintf("under %s semantics it would be stored differently", other)
		f.Detail = changeDifference(result.Changes, there.Changes, other)
	default:
		return nil
	}
	return []analysis.Finding{f}
}

// comparePruning is like compare, for a valid object that the other semantics can only fail
// to decode or prune differently.
func (c *Checker) comparePruning(ctx context.Context, version string, source []byte,
	old schema.Object, result *espalier.Result) []analysis.Finding {
	admitter, err := c.other()
	if err != nil {
		return nil
	}
	v := admitter.Definition().Version(version)
	program, err := v.Program()
	if err != nil {
		return nil
	}
	_, there, err := program.Decode(source, schema.DecodeOptions{Report: true, Old: old})
	if err == nil && !there.Truncated && !result.Truncated && sameChanges(result.Changes, there.Changes, v.HasStatus()) {
		return nil
	}
	return c.compare(ctx, source, old, result, nil)
}

// sameChanges reports whether two lists of changes are equal. With dropStatus, it ignores
// changes below status, which only the second list has.
func sameChanges(a, b []schema.Change, dropStatus bool) bool {
	i := 0
	for j := range b {
		if dropStatus && len(b[j].Path) > 0 && b[j].Path[0].Key == "status" {
			continue
		}
		if i == len(a) || a[i].Kind != b[j].Kind || !slices.Equal(a[i].Path, b[j].Path) {
			return false
		}
		i++
	}
	return i == len(a)
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
