package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// Stored is an object as an API server would store it, without validation.
type Stored struct {
	// Object is the stored object, or nil if the object cannot be decoded.
	Object schema.Object
	// Failures are the reasons why the object cannot be decoded.
	Failures []analysis.Finding
	// Preview is set if the schema of the object's version is not structural. No API server
	// prunes with such a schema, so Object is a preview.
	Preview *Preview

	checker *Checker
	version *crd.Version
	source  []byte
	report  *schema.Report
}

// Prune returns the object in source, which is JSON, as an API server stores it, including
// its status. It does not validate the object.
func (c *Checker) Prune(source []byte) *Stored {
	s := &Stored{checker: c, source: source}
	fail := func(rule string, err error) *Stored {
		s.Failures = []analysis.Finding{{Rule: rule, Severity: analysis.Error, Message: err.Error()}}
		return s
	}
	var err error
	if s.version, err = c.version(source); err != nil {
		return fail(RuleDecode, err)
	}
	if s.Preview, err = c.previews[s.version.Name()](); err != nil {
		return fail(RuleInvalidDefinition, err)
	}
	var program *schema.Program
	if s.Preview != nil {
		program = s.Preview.program
	} else if program, err = s.version.Program(); err != nil {
		return fail(RuleInvalidDefinition, err)
	}
	if s.Object, s.report, err = program.Decode(source, schema.DecodeOptions{Report: true}); err != nil {
		s.Object, s.Failures = nil, c.rejection(s.version, err)
	}
	return s
}

// Reasons reports the pruned, dropped and defaulted fields, and the schemas that cause it.
func (s *Stored) Reasons() (findings []analysis.Finding) {
	if s.Object == nil {
		return nil
	}
	c, v := s.checker, s.version
	given := sync.OnceValue(func() any {
		value, _ := jsonx.Parse(s.source) // it has been decoded
		return value
	})
	for i := range s.report.Changes {
		change := &s.report.Changes[i]
		f := analysis.Finding{Severity: analysis.Info, Path: change.Path.String(), Pointer: change.Path.Pointer(), Part: analysis.FieldName}
		switch change.Kind {
		case schema.Pruned:
			f.Rule, f.Severity = RulePruned, analysis.Warning
			f.Message = "pruned: not specified by " + c.pruning(v, change)
			if name := change.Nearest(); name != "" {
				f.Message += fmt.Sprintf("; did you mean %q?", name)
			}
		case schema.NullDropped:
			f.Rule, f.Message = RuleNullDropped, "removed: null is not allowed by "+c.locate(v, change.Schema.Path())
		case schema.Defaulted:
			value, _ := valueAt(s.Object, change.Path)
			f.Rule, f.Message = RuleDefaulted, fmt.Sprintf("defaulted to %s by %s", oneLine(value), c.locate(v, change.Schema.Path()))
			if _, isNull := valueAt(given(), change.Path); isNull {
				f.Message = "null is not allowed: " + f.Message
			}
		case schema.Duplicate:
			f.Rule, f.Severity, f.Part = RuleDuplicateField, analysis.Warning, analysis.RepeatedName
			f.Message = "duplicate field: the last one takes effect"
		case schema.MetadataDropped:
			f.Rule, f.Message = RuleMetadataDropped, "dropped: malformed"
		}
		findings = append(findings, f)
	}
	if s.report.Truncated {
		findings = append(findings, analysis.Finding{Rule: RulePruned, Severity: analysis.Info, Message: "there are more changes than listed here"})
	}
	return findings
}

// Edits returns the edits that turn the object in source into the stored one. It returns an
// error if edits cannot do that.
func (s *Stored) Edits() (edits []analysis.Edit, err error) {
	switch {
	case s.Object == nil:
		return nil, errors.New("the object cannot be decoded")
	case s.report.Truncated:
		return nil, errors.New("the list of changes is incomplete")
	}
	for _, c := range s.report.Changes {
		switch c.Kind {
		case schema.Pruned, schema.NullDropped, schema.MetadataDropped:
			edits = append(edits, analysis.Edit{Op: yamledit.Remove, Pointer: c.Path.Pointer()})
		case schema.Defaulted:
			value, ok := valueAt(s.Object, c.Path)
			if !ok {
				return nil, fmt.Errorf("%s has no value", c.Path)
			}
			edits = append(edits, analysis.Edit{Op: yamledit.Set, Pointer: c.Path.Pointer(), Value: value})
		default:
			return nil, errors.New("the text has a duplicate field")
		}
	}
	return edits, nil
}

// Difference reports whether the other semantics stores a different object, in at most one finding.
func (s *Stored) Difference() []analysis.Finding {
	c := s.checker
	if s.Object == nil || s.Preview != nil || !c.differences[s.version.Name()].pruning {
		return nil
	}
	admitter, err := c.other()
	if err != nil {
		return nil
	}
	program, err := admitter.Definition().Version(s.version.Name()).Program()
	if err != nil {
		return nil
	}
	f := analysis.Finding{Rule: RuleSemantics, Severity: analysis.Info}
	there, report, err := program.Decode(s.source, schema.DecodeOptions{Report: true})
	switch {
	case err != nil:
		f.Message = fmt.Sprintf("under %s semantics it would be rejected: %v", c.otherSemantics(), err)
	case !reflect.DeepEqual(s.Object, there):
		f.Message = fmt.Sprintf("under %s semantics it would be stored differently", c.otherSemantics())
		f.Detail = changeDifference(s.report.Changes, report.Changes, c.otherSemantics())
	default:
		return nil
	}
	return []analysis.Finding{f}
}

// oneLine formats a value for a message and truncates it if it is long.
func oneLine(v any) string {
	const most = 60
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if runes := []rune(string(text)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(text)
}
