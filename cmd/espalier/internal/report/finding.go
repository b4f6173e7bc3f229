// Package report writes findings for people and for programs: as text with the
// offending line, and as JSON, YAML, SARIF, JUnit or GitHub annotations, several of
// them at once. What a command's exit code is follows from what was reported, not
// from the format it was written in.
package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamlx"
)

// Finding is a finding at a place in a file.
type Finding struct {
	analysis.Finding
	// File is the file as the user named it; it is empty for what is in no file.
	File string
	// Span is where, in the file: lines and columns from 1. A zero Line stands for
	// the file as a whole.
	Span yamlx.Position
	// Source is the line, or what is around the place if it is a long one.
	Source input.Excerpt
	// Failed says that something could not be looked at.
	Failed bool
	// Case is the name of the test that it is about, if it is about one: reports of
	// test cases call it so, whether it fails or passes.
	Case string
}

// record is a finding as programs read it. The names are part of the interface.
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

// fullMessage is the message with its further lines.
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

// Summary counts what was looked at and what was found.
type Summary struct {
	// Semantics is the schema semantics that the findings follow from.
	Semantics string `json:"semantics"`
	// Files and Objects are how many were read.
	Files   int `json:"files"`
	Objects int `json:"objects"`
	// Errors, Warnings and Infos are the findings of each severity.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Infos    int `json:"infos"`
	// Failures are the errors that kept something from being looked at: files that
	// cannot be read, documents that cannot be parsed. They are among Errors.
	Failures int `json:"failures"`
	// Interrupted says that not all was looked at.
	Interrupted bool `json:"interrupted,omitempty"`
	// Aborted says that the command came to no end: its error is told elsewhere.
	Aborted bool `json:"-"`
	// Extra is what else a command counts.
	Extra map[string]any `json:"-"`
	// Verdict is what the summary says to people in place of the number of findings,
	// if it is set.
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
