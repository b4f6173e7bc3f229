package object

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// Pruned is an object after it has been written to an API server, without validation.
type Pruned struct {
	// Object is the object as the API server returns it or, from [Checker.PruneStored], as it
	// is stored. It is nil if the object cannot be decoded.
	Object schema.Object
	// Failures are the reasons why the object cannot be decoded.
	Failures []analysis.Finding
	// Preview is set if the schema of the object's version is not structural. No API server
	// prunes with such a schema, so Object is a preview.
	Preview *Preview
	// Webhook is set if a webhook converts the object to the storage version, so that Object
	// lacks its changes. The finding explains it; its pointer points into the CRD. All objects
	// of a version have the same.
	Webhook *analysis.Finding

	checker *Checker
	version *crd.Version
	storage storage
	// stored is set if Object is the stored form.
	stored bool
	source []byte
	steps  []step
	// kind is set for an object of a built-in kind, which has no version and no steps.
	kind *prunedKind
}

// Prune returns the object in source, which is JSON, as an API server returns it after a
// client has written it, in the same version, including its status. If it is stored in
// another version, fields that the storage version does not specify are lost. Prune does not
// validate the object.
func (c *Checker) Prune(source []byte) *Pruned { return c.prune(source, false) }

// PruneStored is like [Checker.Prune], but returns the object as it is stored, in the storage
// version.
func (c *Checker) PruneStored(source []byte) *Pruned { return c.prune(source, true) }

func (c *Checker) prune(source []byte, stored bool) *Pruned {
	s := &Pruned{checker: c, source: source, stored: stored}
	fail := func(rule string, err error) *Pruned {
		s.Failures = []analysis.Finding{{Rule: rule, Severity: analysis.Error, Message: err.Error()}}
		return s
	}
	var err error
	if s.version, err = c.version(source); err != nil {
		return fail(RuleDecode, err)
	}
	s.Preview = c.previews[s.version.Name()]()
	if s.storage, err = c.storages[s.version.Name()](); err != nil {
		return fail(RuleInvalidDefinition, err)
	}
	s.Webhook = s.storage.webhook
	var rejected *crd.Version
	s.steps, rejected, err = steps(s.version, s.storage, source, stored, s.program)
	switch {
	case rejected != nil:
		s.Failures = c.rejection(rejected, err)
	case err != nil:
		return fail(RuleInvalidDefinition, err)
	default:
		s.Object = s.steps[len(s.steps)-1].object
	}
	return s
}

// program returns the program that prunes in a version.
func (s *Pruned) program(v *crd.Version) (*schema.Program, error) {
	if s.Preview != nil {
		if preview := s.checker.previews[v.Name()](); preview != nil {
			return preview.program, preview.err
		}
	}
	return v.Program()
}

// Reasons reports the pruned, dropped and defaulted fields, and the schemas that cause it.
func (s *Pruned) Reasons() (findings []analysis.Finding) {
	if s.kind != nil {
		return s.kind.reasons()
	}
	given := sync.OnceValue(func() any {
		value, _ := jsonx.Parse(s.source) // it has been decoded
		return value
	})
	for i := range s.steps {
		if i == 3 {
			break // it removes only defaults of the storage version
		}
		findings = append(findings, s.reasons(i, given)...)
	}
	return findings
}

// reasons reports the changes of a step. given returns the original object.
func (s *Pruned) reasons(n int, given func() any) (findings []analysis.Finding) {
	c, v, report := s.checker, s.steps[n].version, s.steps[n].report
	in := "" // the storage version, if its schema decides
	if n > 0 {
		in = " in storage version " + v.Name()
	}
	for i := range report.Changes {
		change := &report.Changes[i]
		f := analysis.Finding{Severity: analysis.Info, Path: change.Path.String(), Pointer: change.Path.Pointer(), Part: analysis.FieldName}
		switch change.Kind {
		case schema.Pruned:
			if f.Rule, f.Severity = RuleUnknownField, analysis.Warning; n > 0 {
				f.Rule = RuleStorageVersion
			}
			var special string
			f.Schema, special = c.pruningSchema(v, change)
			f.Message = "pruned" + in + ": " + cmp.Or(special, "not specified by the schema")
			if name := change.Nearest(); name != "" && n == 0 {
				f.Message += fmt.Sprintf("; did you mean %q?", name)
			}
		case schema.NullDropped:
			f.Rule, f.Message, f.Schema = RuleNullDropped, "removed"+in+": null is not allowed", c.SchemaLocation(v, change.Schema.Path())
		case schema.Defaulted:
			result := s.steps[n].object
			if n > 0 {
				result = s.Object // the object's version may specify only a part of it
			}
			value, found := change.Path.Find(result)
			if !found {
				continue
			}
			f.Rule, f.Message, f.Schema = RuleDefaulted, "defaulted to "+oneLine(value)+in, c.SchemaLocation(v, change.Schema.Path())
			if _, isNull := change.Path.Find(given()); isNull && n == 0 {
				f.Message = "null is not allowed: " + f.Message
			}
		case schema.Duplicate:
			f.Rule, f.Severity, f.Part = RuleDuplicateField, analysis.Warning, analysis.RepeatedName
			f.Message = "duplicate field: the last one takes effect"
		case schema.MetadataDropped:
			f.Rule, f.Message = RuleMetadataDropped, "dropped"+in+": malformed"
		}
		findings = append(findings, f)
	}
	if report.Truncated {
		findings = append(findings, analysis.Finding{Rule: RuleUnknownField, Severity: analysis.Info,
			Message: "there are more changes than listed here"})
	}
	return findings
}

// Edits returns the edits that turn the object in source into Object. It returns an error if
// edits cannot do that.
func (s *Pruned) Edits() ([]analysis.Edit, error) {
	if s.Object == nil {
		return nil, errors.New("the object cannot be decoded")
	}
	if slices.ContainsFunc(s.changes(), func(c schema.Change) bool { return c.Kind == schema.Duplicate }) {
		return nil, errors.New("the text has a duplicate field")
	}
	given, _ := jsonx.Parse(s.source) // it has been decoded
	return edits(nil, "", given, s.Object), nil
}

// changes returns what the API server changes when it decodes the object.
func (s *Pruned) changes() []schema.Change {
	if s.kind != nil {
		return s.kind.changes
	}
	return s.steps[0].report.Changes
}

// edits appends the edits that turn one value into another. It adds fields before it removes
// others, so that no mapping is empty in between.
func edits(list []analysis.Edit, pointer string, from, to any) []analysis.Edit {
	switch to := to.(type) {
	case map[string]any:
		from, ok := from.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(to)) {
			at := jsonptr.Child(pointer, key)
			if value, found := from[key]; found {
				list = edits(list, at, value, to[key])
			} else {
				list = append(list, analysis.Edit{Op: yamledit.Set, Pointer: at, Value: to[key]})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(from)) {
			if _, kept := to[key]; !kept {
				list = append(list, analysis.Edit{Op: yamledit.Remove, Pointer: jsonptr.Child(pointer, key)})
			}
		}
		return list
	case []any:
		from, ok := from.([]any)
		if !ok || len(from) != len(to) {
			break
		}
		for i := range to {
			list = edits(list, jsonptr.Child(pointer, strconv.Itoa(i)), from[i], to[i])
		}
		return list
	}
	if !same(from, to) {
		list = append(list, analysis.Edit{Op: yamledit.Set, Pointer: pointer, Value: to})
	}
	return list
}

// Difference reports whether the other semantics gives a different object, in at most one finding.
func (s *Pruned) Difference() []analysis.Finding {
	c := s.checker
	if s.Object == nil || s.kind != nil || s.Preview != nil || !s.canDiffer() {
		return nil
	}
	admitter, err := c.other()
	if err != nil {
		return nil
	}
	there, rejected, err := steps(s.version, s.storage, s.source, s.stored, func(v *crd.Version) (*schema.Program, error) {
		return admitter.Definition().Version(v.Name()).Program()
	})
	f := analysis.Finding{Rule: RuleSemantics, Severity: analysis.Info}
	switch {
	case rejected != nil:
		f.Message = fmt.Sprintf("under %s semantics it would be rejected: %v", c.otherSemantics(), err)
	case err != nil:
		return nil
	case !same(s.Object, there[len(there)-1].object):
		f.Message = fmt.Sprintf("under %s semantics it would be stored differently", c.otherSemantics())
		for i := range min(len(there), 3) {
			f.Detail = append(f.Detail, changeDifference(s.steps[i].report.Changes, there[i].report.Changes, c.otherSemantics())...)
		}
	default:
		return nil
	}
	return []analysis.Finding{f}
}

// canDiffer reports whether the two semantics can give different objects.
func (s *Pruned) canDiffer() bool {
	if s.storage.version != nil && s.checker.differences[s.storage.version.Name()].possible() {
		return true
	}
	return s.checker.differences[s.version.Name()].possible()
}

// oneLine formats a value for a message and truncates it if it is long.
func oneLine(v any) string {
	text, _ := json.Marshal(v) // it was decoded from JSON
	return jsonx.Excerpt(text)
}
