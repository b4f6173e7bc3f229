package main

import (
	"bytes"
	"errors"

	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// maxRepairs is the maximum number of places at which a document that does not parse is repaired.
const maxRepairs = 8

// repaired returns a document that does not parse without the lines that keep it from that, so that
// a line that is being typed does not hide the findings about the others. All other text keeps its
// position. hidden has the lines that are missing, which count from 1. It returns nil if that is
// not possible.
func repaired(d *input.Document) (_ *input.Document, hidden map[int]bool) {
	src := bytes.Clone(d.Source())
	hidden = map[int]bool{}
	for range maxRepairs {
		fixed, err := d.WithSource(src)
		if err != nil {
			return nil, nil
		}
		_, err = fixed.JSON()
		var bad *yamlx.Error
		switch {
		case err == nil && len(hidden) > 0:
			return fixed, hidden
		case err == nil || !errors.As(err, &bad):
			return nil, nil
		}
		if !hide(src, d.Line(), bad.Line, hidden) {
			return nil, nil
		}
	}
	return nil, nil
}

// hide replaces a line of a document, or the closest one above it that is not hidden yet, with
// blanks, and what is indented below it. The document starts at the line first.
func hide(src []byte, first, line int, hidden map[int]bool) bool {
	type span struct{ start, end int }
	var lines []span
	for start := 0; start < len(src); {
		end := len(src)
		if i := bytes.IndexByte(src[start:], '\n'); i >= 0 {
			end = start + i
		}
		lines = append(lines, span{start, end})
		start = end + 1
	}
	at := min(line-first, len(lines)-1)
	indent := func(s span) int {
		text := src[s.start:s.end]
		return len(text) - len(bytes.TrimLeft(text, " "))
	}
	empty := func(s span) bool { return len(bytes.TrimSpace(src[s.start:s.end])) == 0 }
	for at >= 0 && empty(lines[at]) {
		at--
	}
	if at < 0 {
		return false
	}
	depth := indent(lines[at])
	for i := at; i < len(lines) && (i == at || empty(lines[i]) || indent(lines[i]) > depth); i++ {
		if empty(lines[i]) {
			continue
		}
		hidden[first+i] = true
		for j := lines[i].start; j < lines[i].end; j++ {
			if src[j] != '\r' {
				src[j] = ' '
			}
		}
	}
	return true
}

// recover validates what can be read of a document that does not parse. Findings about missing
// fields are left out: they may be in the lines that are missing.
func (v *validator) recover(d *input.Document) (findings []report.Finding) {
	fixed, hidden := repaired(d)
	if fixed == nil {
		return nil
	}
	items, _ := fixed.Items()
	for _, result := range v.items(items).objects {
		if isDefinition(result.item) {
			continue // what is wrong with a CRD often depends on all of it
		}
		for _, f := range result.findings {
			if f.Rule != object.ViolationRule(schema.Required) && !hidden[f.Span.Line] {
				findings = append(findings, f)
			}
		}
	}
	return findings
}
