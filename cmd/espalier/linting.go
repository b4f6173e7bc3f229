package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// lintOptions are the flags of lint.
type lintOptions struct {
	input    input.Flags
	source   sourceFlags
	report   reportFlags
	list     bool
	explain  string
	enable   []string
	disable  []string
	severity []string
	release  releaseFlag
}

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

// readLintInput reads CRDs and policies, and skips other objects. Input without any is a problem.
func (a *app) readLintInput(ctx context.Context, flags input.Flags, r *report.Reporter, in *lintInput) error {
	in.filtered = flags.Keep != input.Everything
	failed := false
	fail := func(p input.Problem) {
		failed = true
		r.Failure(p)
	}
	type found struct {
		items   []*input.Item
		problem *input.Problem
	}
	work := func(d *input.Document) (f found) {
		f.items, f.problem = d.Items()
		return f
	}
	emit := func(f found) error {
		if f.problem != nil {
			fail(*f.problem)
		}
		for _, it := range f.items {
			in.names = append(in.names, nameOf(it))
			switch p := misspelledProblem(it); {
			case isDefinition(it):
				in.all, in.crds = append(in.all, it), append(in.crds, it)
				r.Progress("CRDs read")
			case lint.IsPolicy(it.TypeMeta()):
				in.all, in.policies = append(in.all, it), append(in.policies, it)
			case p != nil:
				fail(*p)
			default:
				r.Skipped(it, "neither a CRD nor an admission policy")
			}
		}
		return nil
	}
	if err := input.Parallel(ctx, a.stdin, flags, work, emit, fail); err != nil {
		return err
	}
	if len(in.all) == 0 && !failed && flags.Keep == input.Everything && !flags.Excluded() {
		r.Failure(input.Problem{Rule: ruleNoDefinitions, File: strings.Join(flags.Paths, ", "), Message: "no CRD and no admission policy found"})
	}
	return nil
}

// lintConfigs returns the configuration of the rules by file and by flags.
func (a *app) lintConfigs(o lintOptions) ([]lint.Config, error) {
	flags := lint.Config{Enable: o.enable, Disable: o.disable, Severity: map[string]analysis.Severity{}}
	for _, s := range o.severity {
		rule, severity, ok := strings.Cut(s, "=")
		if !ok {
			return nil, fmt.Errorf("--severity=%s: must be RULE=error, RULE=warning or RULE=info", s)
		}
		flags.Severity[rule] = analysis.Severity(severity)
	}
	return []lint.Config{a.config.Lint, flags}, nil
}
