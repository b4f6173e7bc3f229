package main

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/suppress"
	"espalier.dev/internal/yamlx"
)

// maxActions is the maximum number of findings for which code actions are offered at a time.
const maxActions = 50

// CodeActions returns fixes for the findings in a range, and comments that suppress them.
func (s *lspSession) CodeActions(ctx context.Context, docs *lsp.Documents, text *lsp.Text, start, end int,
	request *lsp.CodeActionContext) ([]lsp.CodeAction, error) {
	if !request.Wants(lsp.QuickFix) {
		return nil, nil
	}
	s.mu.Lock()
	last := s.last[text.URI()]
	s.mu.Unlock()
	if last == nil || !bytes.Equal(last.text.Bytes(), text.Bytes()) {
		return nil, nil // it is being diagnosed
	}
	places := &placer{dir: s.a.dir, client: s.client, docs: docs, texts: map[string]*lsp.Text{}}
	var actions []lsp.CodeAction
	offered := 0
	// A file with many documents is split once, if there is a finding.
	documents := sync.OnceValue(func() []*yamlx.Document { return slices.Collect(documentsOf(text.Bytes())) })
	for i := range last.findings {
		f := &last.findings[i]
		first, after := text.Offsets(rangeOf(text, f.Span))
		if after < start || first > end {
			continue
		}
		if offered++; offered > maxActions || ctx.Err() != nil {
			break
		}
		actions = append(actions, s.actions(ctx, text, documents(), f, places.diagnostic(text, f, false))...)
	}
	return actions, ctx.Err()
}

// actions returns the actions for one finding, the best first.
func (s *lspSession) actions(ctx context.Context, text *lsp.Text, documents []*yamlx.Document, f *report.Finding,
	d lsp.Diagnostic) (all []lsp.CodeAction) {
	doc := documentAt(slices.Values(documents), max(f.Span.Line, 1))
	if doc == nil || f.Failed || f.Rendered {
		return nil
	}
	add := func(title string, preferred bool, changed []byte) {
		if edit, ok := editOf(text, doc, changed); ok {
			all = append(all, lsp.CodeAction{Title: title, Kind: lsp.QuickFix, Diagnostics: []lsp.Diagnostic{d}, IsPreferred: preferred,
				Edit: &lsp.WorkspaceEdit{Changes: map[lsp.URI][]lsp.TextEdit{text.URI(): {edit}}}})
		}
	}
	for i, fix := range s.fixes(ctx, text, doc, f) {
		if changed, err := editObjects(&input.Document{Document: doc, File: f.File}, fix.Edits); err == nil {
			add(capitalized(fix.Message), i == 0, changed)
		}
	}
	if changed, ok := suppressed(doc, f); ok {
		add("Suppress "+f.Rule+" here", false, changed)
	}
	return all
}

// fixes returns the fixes for a finding.
func (s *lspSession) fixes(ctx context.Context, text *lsp.Text, doc *yamlx.Document, f *report.Finding) (all []analysis.Fix) {
	if f.Fix != nil && len(f.Fix.Edits) > 0 {
		all = append(all, *f.Fix)
	}
	return append(all, s.assistFixes(ctx, text, doc, f)...)
}

// documentAt returns the document that a line is in, or nil.
func documentAt(documents iter.Seq[*yamlx.Document], line int) (found *yamlx.Document) {
	for d := range documents {
		if d.Line() > line {
			break
		}
		found = d
	}
	return found
}

// editOf returns the edit that gives a document another text. It reports false if there is none.
func editOf(text *lsp.Text, doc *yamlx.Document, changed []byte) (lsp.TextEdit, bool) {
	old := doc.Source()
	if bytes.Equal(old, changed) {
		return lsp.TextEdit{}, false
	}
	start := 0
	for start < min(len(old), len(changed)) && old[start] == changed[start] {
		start++
	}
	end := 0
	for end < min(len(old), len(changed))-start && old[len(old)-1-end] == changed[len(changed)-1-end] {
		end++
	}
	// An edit does not split characters.
	for start > 0 && !utf8.RuneStart(byteAt(old, start)) {
		start--
	}
	for end > 0 && !utf8.RuneStart(old[len(old)-end]) {
		end--
	}
	offset := int(doc.Offset())
	return lsp.TextEdit{Range: text.Range(offset+start, offset+len(old)-end), NewText: string(changed[start : len(changed)-end])}, true
}

func byteAt(src []byte, i int) byte {
	if i < len(src) {
		return src[i]
	}
	return 0
}

// suppressed returns the text of a document with a comment that suppresses a finding: at the end of
// its line or, if that is no place for a comment, above it. A comment of the line that suppresses
// other findings gets another rule.
func suppressed(doc *yamlx.Document, f *report.Finding) ([]byte, bool) {
	before, err := doc.JSON()
	if f.Rule == suppress.RuleUnused || f.Span.Line == 0 || doc.IsJSON() || err != nil {
		return nil, false
	}
	src := doc.Source()
	start := 0
	for range f.Span.Line - doc.Line() {
		next := bytes.IndexByte(src[start:], '\n')
		if next < 0 {
			return nil, false
		}
		start += next + 1
	}
	line, _, _ := bytes.Cut(src[start:], []byte{'\n'})
	line = bytes.TrimRight(line, "\r")
	comment := "# " + suppress.Marker + " " + f.Rule + " -- reason"
	indent := line[:len(line)-len(bytes.TrimLeft(line, " "))]
	eol := "\n"
	if bytes.Contains(src, []byte("\r\n")) {
		eol = "\r\n"
	}
	candidates := [][]byte{
		join(src[:start+len(line)], " "+comment, src[start+len(line):]),
		join(src[:start], string(indent)+comment+eol, src[start:]),
	}
	if _, after, has := bytes.Cut(line, []byte(suppress.Marker)); has {
		rules, _, _ := bytes.Cut(after, []byte("--"))
		end := start + len(line) - len(after) + len(bytes.TrimRight(rules, " \t"))
		candidates = [][]byte{join(src[:end], ", "+f.Rule, src[end:])}
	}
	for _, candidate := range candidates {
		changed, err := yamlx.Parse(candidate)
		if err != nil {
			continue
		}
		if after, err := changed.JSON(); err == nil && bytes.Equal(before, after) {
			return candidate, true
		}
	}
	return nil, false
}

// join returns a text with an insertion.
func join(before []byte, insertion string, after []byte) []byte {
	out := make([]byte, 0, len(before)+len(insertion)+len(after))
	return append(append(append(out, before...), insertion...), after...)
}

// capitalized returns a sentence with a capital.
func capitalized(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + strings.TrimSuffix(s[n:], ".")
}
