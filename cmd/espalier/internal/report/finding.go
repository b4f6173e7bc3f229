// Package report writes findings as text with the offending line, JSON, YAML, SARIF, JUnit
// or GitHub annotations, in several formats at once. It also determines the exit code, which
// depends on the findings and not on the format.
package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamlx"
)

// Finding is a finding with its position in a file.
type Finding struct {
	analysis.Finding
	// File is the file as the user named it. It is empty if the finding is not about a file.
	File string
	// Span is the position in the file. Lines and columns count from 1; a zero Line stands
	// for the file as a whole.
	Span yamlx.Position
	// Source is the line, or the part of a long line around the position.
	Source input.Excerpt
	// Doc is the document that the position is in, if it is known to [At].
	Doc *yamlx.Document
	// Failed is set for an input that could not be processed.
	Failed bool
	// Case is the name of the test case, if the finding is about one. Reports use the same
	// name whether the test case passes or fails.
	Case string
}

// record is a finding in JSON and YAML. The field names are part of the interface.
type record struct {
	File     string            `json:"file"`
	Line     int               `json:"line"`
	Column   int               `json:"column"`
	Rule     string            `json:"rule"`
	Severity analysis.Severity `json:"severity"`
	Path     string            `json:"path"`
	Pointer  string            `json:"pointer"`
	Message  string            `json:"message"`
	Fix      *fixRecord        `json:"fix,omitempty"`
}

type fixRecord struct {
	Message string       `json:"message"`
	Edits   []editRecord `json:"edits,omitempty"`
}

type editRecord struct {
	Op      string `json:"op"`
	Pointer string `json:"pointer"`
	To      string `json:"to,omitempty"`
	Value   any    `json:"value,omitempty"`
}

// fullMessage returns the message with its details.
func (f *Finding) fullMessage() string {
	if len(f.Detail) == 0 {
		return f.Message
	}
	return f.Message + "\n" + strings.Join(f.Detail, "\n")
}

func newRecord(f *Finding) record {
	r := record{
		File: f.File, Line: f.Span.Line, Column: f.Span.Column, Rule: f.Rule, Severity: f.Severity,
		Path: f.Path, Pointer: f.Pointer, Message: f.fullMessage(),
	}
	if f.Fix != nil {
		r.Fix = &fixRecord{Message: f.Fix.Message}
		for _, e := range f.Fix.Edits {
			r.Fix.Edits = append(r.Fix.Edits, editRecord{Op: fmt.Sprint(e.Op), Pointer: e.Pointer, To: e.To, Value: e.Value})
		}
	}
	return r
}

// Summary counts inputs and findings.
type Summary struct {
	// Semantics is the schema semantics of the run.
	Semantics string `json:"semantics"`
	// Files and Objects count the input.
	Files   int `json:"files"`
	Objects int `json:"objects"`
	// Errors, Warnings and Infos count the findings of each severity.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Failures counts the inputs that could not be processed: files that cannot be read,
	// documents that cannot be parsed. Errors includes them.
	Failures int `json:"failures"`
	// Suppressed counts the findings that [Options].Filter suppressed. They are not included
	// in the other counts.
	Suppressed int `json:"suppressed,omitempty"`
	// Interrupted is set if the run was interrupted before the end of the input.
	Interrupted bool `json:"interrupted,omitempty"`
	// Aborted is set if the command was aborted by an error, which the caller reports.
	Aborted bool `json:"-"`
	// Extra holds additional counts of a command.
	Extra map[string]any `json:"-"`
	// Verdict, if set, replaces the number of findings in the text of the summary.
	Verdict string `json:"-"`
}

// MarshalJSON writes Extra beside the other counts.
func (s Summary) MarshalJSON() ([]byte, error) {
	type plain Summary
	base, err := json.Marshal(plain(s))
	if err != nil || len(s.Extra) == 0 {
		return base, err
	}
	extra, err := json.Marshal(s.Extra)
	if err != nil {
		return nil, err
	}
	base[len(base)-1] = ','
	return append(base, extra[1:]...), nil
}
