package report

import (
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamlx"
)

// At gives a finding about an object its place in the file: that of the value, if
// it stands on the line of its name, otherwise that of the name.
func At(it *input.Item, f analysis.Finding) Finding { return at(it, f, it.Position(f.Pointer), false) }

// AtKey gives a finding the place of the field's name.
func AtKey(it *input.Item, f analysis.Finding) Finding {
	return at(it, f, it.Position(f.Pointer), true)
}

// AtAgain gives a finding the place where the field's name occurs again.
func AtAgain(it *input.Item, f analysis.Finding) Finding {
	return at(it, f, it.Doc.FindAgain(it.Base+f.Pointer), true)
}

func at(it *input.Item, f analysis.Finding, span yamlx.Span, key bool) Finding {
	p := span.Value
	if span.Key.Line > 0 && (key || !span.Exact || span.Key.Line != span.Value.Line || span.Value.EndLine != span.Value.Line) {
		p = span.Key
	}
	if p.Line == 0 {
		p = yamlx.Position{Line: it.Doc.Line(), Column: 1}
	}
	if it.Base != "" {
		// In the file the value stands below the list.
		f.Pointer = it.Base + f.Pointer
		f.Fix = below(it.Base, f.Fix)
	}
	return Finding{Finding: f, File: it.File, Span: p, Source: input.ExcerptAt(it.Doc, p)}
}

// below is a fix whose edits are made below base.
func below(base string, fix *analysis.Fix) *analysis.Fix {
	if fix == nil {
		return nil
	}
	out := &analysis.Fix{Message: fix.Message, Edits: slices.Clone(fix.Edits)}
	for i := range out.Edits {
		e := &out.Edits[i]
		e.Pointer = base + e.Pointer
		if e.Op == yamlx.Move || e.Op == yamlx.Copy {
			e.To = base + e.To
		}
	}
	return out
}
