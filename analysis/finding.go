package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"espalier.dev/internal/jsonptr"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error is the severity of input that the API server rejects, and of obvious mistakes.
	Error Severity = "error"
	// Warning is the severity of input that the API server accepts, but that is probably
	// unintended.
	Warning Severity = "warning"
	// Info is the severity of findings that are informational and fail no build.
	Info Severity = "info"
)

// ParseSeverity returns the severity with the given name.
func ParseSeverity(s string) (Severity, error) {
	switch v := Severity(s); v {
	case Error, Warning, Info:
		return v, nil
	}
	return "", fmt.Errorf("unknown severity %q: use error, warning or info", s)
}

// Compare orders severities, the worst first.
func (s Severity) Compare(t Severity) int { return cmp.Compare(s.rank(), t.rank()) }

func (s Severity) rank() int {
	switch s {
	case Error:
		return 0
	case Warning:
		return 1
	}
	return 2
}

// Finding is a problem or an observation that a tool reports about one location in a
// document.
type Finding struct {
	// Rule is the ID of the rule that reports the finding.
	Rule     string
	Severity Severity
	// Path is the location in human-readable form, such as spec.versions[0].name. It is
	// empty for the document as a whole.
	Path string
	// Pointer is the location as a JSON pointer (RFC 6901) into the document. It may point
	// to a missing field: the finding is then about its absence.
	Pointer string
	// Part is the part of the field at Pointer that the finding is about.
	Part Part
	// Message is one sentence, without the path.
	Message string
	// Detail holds further lines: causes, consequences, possible fixes.
	Detail []string
	// Schema is the location of the schema that causes a finding about an object, Policy that of the
	// expression of an admission policy, and Old the location before a change. They are nil if the
	// finding has none.
	Schema, Policy, Old *Location
	// Fix is an automatic fix, or nil if the finding needs manual work.
	Fix *Fix
}

// Location is a location in another document than the one that a finding is about.
type Location struct {
	// Path is the location in human-readable form. It is empty for the whole document or, for
	// a schema, for its root.
	Path string
	// Pointer is the location as a JSON pointer (RFC 6901) into the document.
	Pointer string
	// File is the file of the document, or empty if it is unknown. Lines and columns count
	// from 1 and are zero if they are unknown; the end is exclusive.
	File                             string
	Line, Column, EndLine, EndColumn int
}

// Position returns file:line:column, as far as they are known.
func (l Location) Position() string {
	switch {
	case l.Line == 0:
		return l.File
	case l.Column == 0:
		return fmt.Sprintf("%s:%d", l.File, l.Line)
	}
	return fmt.Sprintf("%s:%d:%d", l.File, l.Line, l.Column)
}

// Part is the part of a field that a finding is about. It decides which position in the
// text of a document is shown.
type Part uint8

const (
	// FieldValue is the value of the field.
	FieldValue Part = iota
	// FieldName is the name of the field: the finding is about the presence of the field.
	FieldName
	// RepeatedName is the name of the field at its second occurrence.
	RepeatedName
)

// Rule describes the findings that have its ID as their Rule.
type Rule struct {
	ID string
	// Severity is the default severity of the findings.
	Severity Severity
	// Summary is one sentence. Help explains how to fix the findings.
	Summary string
	Help    string
}

// String returns the finding as one line.
func (f Finding) String() string {
	s := string(f.Severity) + ": "
	if f.Path != "" {
		s += f.Path + ": "
	}
	return s + f.Message + " (" + f.Rule + ")"
}

// Sort sorts findings by location, then by severity, rule and message. The sort is stable.
func Sort(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(
			jsonptr.Compare(a.Pointer, b.Pointer),
			a.Severity.Compare(b.Severity),
			cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Message, b.Message),
		)
	})
}

// Plural returns a number with its noun.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
