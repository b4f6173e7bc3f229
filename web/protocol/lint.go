//go:build !small

package protocol

import (
	"context"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/api"
)

// LintRequest asks for problems in CRDs.
type LintRequest struct {
	CRDs      string    `json:"crds"`
	Semantics Semantics `json:"semantics"`
	// Conventions enables the rules of the Kubernetes API conventions.
	Conventions bool `json:"conventions,omitempty"`
}

// LintAnswer is the answer to a LintRequest.
type LintAnswer struct {
	// Problems are texts that cannot be read.
	Problems []Finding `json:"problems"`
	Findings []Finding `json:"findings"`
	// Checked is the number of CRDs.
	Checked int `json:"checked"`
	// More is set if there are more findings.
	More bool `json:"more,omitempty"`
}

// lint answers a LintRequest.
func (e *Engine) lint(ctx context.Context, r LintRequest) (*LintAnswer, error) {
	t, err := newCRDs(r.CRDs)
	if err != nil {
		return nil, err
	}
	answer := &LintAnswer{Problems: append([]Finding{}, t.problems...), Findings: []Finding{}}
	var items []*item
	var texts [][]byte
	for _, it := range t.objects {
		if api.IsDefinition(it.TypeMeta) {
			items, texts = append(items, it), append(texts, it.json)
		}
	}
	o := lint.Options{Semantics: r.Semantics.Semantics, Rules: e.options.Rules}
	if r.Conventions {
		o.Configs = []lint.Config{{Enable: []string{lint.Conventions}}}
	}
	found, err := lint.Run(ctx, texts, o)
	if err != nil {
		return nil, err
	}
	answer.Checked = len(items)
	for i, it := range items {
		for _, f := range found[i] {
			if lint.AboutKey(f.Rule) {
				f.Part = analysis.FieldName
			}
			answer.Findings = append(answer.Findings, it.finding(f))
		}
	}
	answer.More = len(answer.Findings) > maxFindings
	answer.Findings = sorted(answer.Findings)
	return answer, nil
}

// RuleRequest asks for the page of a rule of lint.
type RuleRequest struct {
	Rule string `json:"rule"`
}

// RuleAnswer is the answer to a RuleRequest.
type RuleAnswer struct {
	Rule     string            `json:"rule"`
	Severity analysis.Severity `json:"severity"`
	Title    string            `json:"title"`
	// Markdown is the page.
	Markdown string `json:"markdown"`
}

// rule answers a RuleRequest.
func (e *Engine) rule(_ context.Context, r RuleRequest) (*RuleAnswer, error) {
	rule, err := lint.Lookup(r.Rule)
	if err != nil {
		return nil, failf(Failed, "%v", err)
	}
	return &RuleAnswer{rule.ID, rule.Severity, rule.Title, rule.Doc}, nil
}
