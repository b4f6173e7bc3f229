package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// diagnosticSource is the name of the program in diagnostics.
const diagnosticSource = "espalier"

// placer converts findings to diagnostics. It reads the files that findings refer to once.
type placer struct {
	dir    workdir.Dir
	client *lsp.Client
	docs   *lsp.Documents
	texts  map[string]*lsp.Text
}

// maxRelatedFile is the maximum size of a file to which a finding refers by line and column: a
// larger one is referred to as a whole.
const maxRelatedFile = 16 << 20

// diagnosticData is what a diagnostic has for code actions, and for programs.
type diagnosticData struct {
	Pointer string   `json:"pointer"`
	Path    string   `json:"path,omitempty"`
	Details []string `json:"details,omitempty"`
	// Recovered is set if the document does not parse: validate does not report the finding.
	Recovered bool `json:"recovered,omitempty"`
}

// maxDiagnostics is the maximum number of findings that are shown in a document.
const maxDiagnostics = 5000

// diagnostics returns the diagnostics of a document.
func (p *placer) diagnostics(text *lsp.Text, of *fileFindings) []lsp.Diagnostic {
	all := []lsp.Diagnostic{}
	for i, f := range of.reported {
		if i == maxDiagnostics {
			return append(all, lsp.Diagnostic{Range: all[0].Range, Severity: lsp.SeverityInformation, Source: diagnosticSource,
				Message: fmt.Sprintf("%d more findings are not shown", len(of.reported)-i)})
		}
		all = append(all, p.diagnostic(text, &f, false))
	}
	for _, f := range of.recovered {
		all = append(all, p.diagnostic(text, &f, true))
	}
	return all
}

func (p *placer) diagnostic(text *lsp.Text, f *report.Finding, recovered bool) lsp.Diagnostic {
	d := lsp.Diagnostic{Range: rangeOf(text, f.Span), Severity: severityOf(f.Severity), Code: f.Rule, Source: diagnosticSource,
		Message: f.Message, Tags: tagsOf(f)}
	if f.Rendered {
		exact := false
		if d.Range, exact = renderedRange(text, f); !exact {
			d.Message = "in what helm renders of this template: " + d.Message
		}
	}
	if f.Rule == input.Unrendered {
		d.Severity = lsp.SeverityWarning // a chart may need values that are not here
	}
	d.Data, _ = json.Marshal(diagnosticData{Pointer: f.Pointer, Path: f.Path, Details: f.Detail, Recovered: recovered}) // strings never fail
	for _, detail := range f.Detail {
		d.RelatedInformation = append(d.RelatedInformation, lsp.DiagnosticRelatedInformation{
			Location: lsp.Location{URI: text.URI(), Range: d.Range}, Message: detail})
	}
	for _, related := range []struct {
		at   *analysis.Location
		what string
	}{{f.Schema, "schema"}, {f.Policy, "policy"}, {f.Old, "old"}} {
		if related.at == nil {
			continue
		}
		message := related.what
		if related.at.Path != "" {
			message += ": " + related.at.Path
		}
		if at, ok := p.location(related.at); ok {
			d.RelatedInformation = append(d.RelatedInformation, lsp.DiagnosticRelatedInformation{Location: at, Message: message})
		}
	}
	return d
}

// rangeOf returns the range of a finding. One without an end is up to the end of the line, so that
// editors show it.
func rangeOf(text *lsp.Text, p yamlx.Position) lsp.Range {
	r := text.Span(p)
	if r.Start != r.End {
		return r
	}
	start := text.Offset(r.Start)
	_, end := text.Line(r.Start.Line)
	return text.Range(start, max(start, end))
}

func severityOf(s analysis.Severity) lsp.DiagnosticSeverity {
	switch s {
	case analysis.Error:
		return lsp.SeverityError
	case analysis.Warning:
		return lsp.SeverityWarning
	}
	return lsp.SeverityInformation
}

// tagsOf returns how editors show a finding: what is pruned has no effect, and deprecated versions
// are struck through.
func tagsOf(f *report.Finding) []lsp.DiagnosticTag {
	switch {
	case f.Rule == object.RuleUnknownField || f.Rule == object.RuleStorageVersion:
		return []lsp.DiagnosticTag{lsp.TagUnnecessary}
	case f.Pointer == "/apiVersion" && (f.Rule == object.RuleServerWarning || f.Rule == lint.DeprecatedVersion):
		return []lsp.DiagnosticTag{lsp.TagDeprecated}
	}
	return nil
}

// location returns a location in another file.
func (p *placer) location(at *analysis.Location) (lsp.Location, bool) {
	if at.File == "" {
		return lsp.Location{}, false
	}
	path := absolute(p.dir, at.File)
	text := p.text(path)
	if text == nil {
		return lsp.Location{}, false
	}
	return lsp.Location{URI: text.URI(), Range: text.Span(yamlx.Position{
		Line: at.Line, Column: at.Column, EndLine: at.EndLine, EndColumn: at.EndColumn})}, true
}

// text returns the text of a file, or nil if it cannot be read.
func (p *placer) text(path string) *lsp.Text {
	if text := p.docs.ByPath(path); text != nil {
		return text
	}
	if text, ok := p.texts[path]; ok {
		return text
	}
	p.texts[path] = nil
	f, err := input.Open("", path)
	if err != nil {
		return nil
	}
	defer f.Close()
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(f, maxRelatedFile+1)); err != nil || data.Len() > maxRelatedFile {
		return nil
	}
	p.texts[path] = p.client.FileText(lsp.FileURI(path), data.Bytes())
	return p.texts[path]
}
