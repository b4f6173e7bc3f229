package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"espalier.dev/internal/jsonptr"
)

// Severity is the severity of a finding.
type Severity string

const (
	// Error is for what the API server rejects, and for obvious mistakes.
	Error Severity = "error"
	// Warning is for what is accepted, but probably not intended.
	Warning Severity = "warning"
	// Info is for what is worth knowing. It fails no build.
	Info Severity = "info"
)

// ParseSeverity reads the name of a severity.
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

// Finding is a result of a tool about one location in a document.
type Finding struct {
	// Rule is the name of the rule that found it.
	Rule     string
	Severity Severity
	// Path is the place for people to read, such as spec.versions[0].name. It is
	// empty for the document as a whole.
	Path string
	// Pointer is the place as a JSON pointer (RFC 6901) into the document. What it
	// names may be missing in the document: the finding is then about its absence.
	Pointer string
	// Part is the part of the field at Pointer that the finding is about.
	Part Part
	// Message is one sentence, without the path.
	Message string
	// Detail are further lines: causes, consequences, what could be done.
	Detail []string
	// Fix is what a machine can do about it, or nil if it takes a person.
	Fix *Fix
}

// Part is the part of a field that a finding is about. It decides which position in the
// text of a document is shown.
type Part uint8

const (
	// FieldValue is the value of the field.
	FieldValue Part = iota
	// FieldName is the name of the field: the finding is about the field being there.
	FieldName
	// RepeatedName is the name of the field where it occurs again.
	RepeatedName
)

// Rule describes the findings that have its ID as their Rule.
type Rule struct {
	ID string
	// Severity is that of its findings, unless they have another.
	Severity Severity
	// Summary is one sentence, Help what to do about it.
	Summary string
	Help    string
}

// String is the finding in one line.
func (f Finding) String() string {
	s := string(f.Severity) + ": "
	if f.Path != "" {
		s += f.Path + ": "
	}
	return s + f.Message + " (" + f.Rule + ")"
}

// Sort orders findings by place, then by severity, rule and message. Findings that
// are alike keep their order.
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
