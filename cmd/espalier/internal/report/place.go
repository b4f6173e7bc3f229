package report

import (
	"cmp"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// At adds the position in the file to a finding about an object. The position is that of
// the value if the finding is about a value on the same line as its name, else that of the
// name.
func At(it *input.Item, f analysis.Finding) Finding {
	span := it.Position(f.Pointer)
	if f.Part == analysis.RepeatedName {
		span = it.Doc.FindAgain(it.Base + f.Pointer)
	}
	p := span.Value
	if span.Key.Line > 0 && (f.Part != analysis.FieldValue || !span.Exact || span.Key.Line != span.Value.Line || span.Value.EndLine != span.Value.Line) {
		p = span.Key
	}
	if p.Line == 0 {
		p = yamlx.Position{Line: it.Doc.Line(), Column: 1}
	}
	if it.Base != "" {
		// Make pointers relative to the document instead of the list item.
		f.Pointer = it.Base + f.Pointer
		f.Fix = below(it.Base, f.Fix)
	}
	return Finding{Finding: f, Object: it.Identity(), Doc: it.Doc, File: it.File, Span: p, Source: input.ExcerptAt(it.Doc, p)}
}

// LocationOf returns the location of a pointer into an object: that of the field's name, if
// there is one.
func LocationOf(it *input.Item, pointer string) analysis.Location {
	f := At(it, analysis.Finding{Pointer: pointer, Part: analysis.FieldName})
	return f.Location()
}

// Sort sorts findings by position. Findings about an object as a whole come last.
func Sort(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		whole := func(f *Finding) int {
			if f.Path == "" {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(whole(&a), whole(&b)), cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column))
	})
}

// below returns a fix whose edits are relative to base.
func below(base string, fix *analysis.Fix) *analysis.Fix {
	if fix == nil {
		return nil
	}
	out := &analysis.Fix{Message: fix.Message, Edits: slices.Clone(fix.Edits)}
	for i := range out.Edits {
		e := &out.Edits[i]
		e.Pointer = base + e.Pointer
		if e.Op == yamledit.Move || e.Op == yamledit.Copy {
			e.To = base + e.To
		}
	}
	return out
}
