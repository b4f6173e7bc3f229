package main

import (
	"cmp"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// placed adds positions to findings about a CRD and sorts them by position. Conversion loses nothing
// if a kustomization adds a webhook to the CRD.
func placed(it *input.Item, findings []analysis.Finding) []report.Finding {
	isLoss := func(f analysis.Finding) bool { return f.Rule == lint.ConversionLoss }
	if slices.ContainsFunc(findings, isLoss) && it.ConvertedByPatch() {
		findings = slices.DeleteFunc(slices.Clone(findings), isLoss)
	}
	all := make([]report.Finding, len(findings))
	for i, f := range findings {
		if lint.AboutKey(f.Rule) {
			f.Part = analysis.FieldName
		}
		all[i] = report.At(it, f)
	}
	slices.SortStableFunc(all, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(a.Span.Line, b.Span.Line), cmp.Compare(a.Span.Column, b.Span.Column))
	})
	return all
}
