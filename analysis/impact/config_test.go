package impact_test

import (
	"slices"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestConfigValidate checks that names are checked before they are used.
func TestConfigValidate(t *testing.T) {
	for name, tt := range map[string]struct {
		severity map[string]analysis.Severity
		want     string
	}{
		"empty":            {},
		"class":            {severity: map[string]analysis.Severity{"clients-break": analysis.Error}},
		"rule":             {severity: map[string]analysis.Severity{"update-refused": analysis.Warning}},
		"misspelled class": {severity: map[string]analysis.Severity{"client-break": analysis.Error}, want: `severity: unknown rule or class of change "client-break": did you mean clients-break?`},
		"unknown class":    {severity: map[string]analysis.Severity{"everything": analysis.Error}, want: `severity: unknown rule or class of change "everything"`},
		"unknown severity": {severity: map[string]analysis.Severity{"safe": "fatal"}, want: `severity: safe: unknown severity "fatal": use error, warning or info`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			c := impact.Config{Severity: tt.severity}
			if err := c.Validate(); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			_, err := impact.Compare(t.Context(), crdOf(t, `{type: string}`), crdOf(t, `{type: string}`), impact.Options{Config: c})
			if (err != nil) != (tt.want != "") {
				t.Errorf("Compare returned %v", err)
			}
		})
	}
}

// TestConfigSeverity checks that a configuration overrides the severity of every rule.
func TestConfigSeverity(t *testing.T) {
	severity := map[string]analysis.Severity{}
	for _, r := range impact.Rules() {
		severity[r.ID] = analysis.Info
		if r.Severity == analysis.Info {
			severity[r.ID] = analysis.Error
		}
	}
	config := impact.Config{Severity: severity}
	for _, r := range config.Rules() {
		if r.Severity != severity[r.ID] {
			t.Errorf("rule %s has severity %s", r.ID, r.Severity)
		}
	}
	old := crdOf(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {f: {type: object, x-kubernetes-preserve-unknown-fields: true}}}`)
	new := crdOf(t, `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {f: {type: object}}}`)
	new.Name, new.Spec.Scope = "others.example.com", api.ClusterScoped
	c, err := impact.Compare(t.Context(), old, new, impact.Options{Semantics: schema.KEP, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	findings := slices.Concat(c.Names(), c.Rejections(), c.OtherSemantics(t.Context()))
	findings = append(findings, c.RevealedFinding("spec.f", 1, 2, nil))
	findings = append(findings, unevaluated(t, config)...)
	for _, class := range impact.Classes() {
		findings = append(findings, c.Finding(&impact.Change{Effects: []impact.Effect{{Class: class}}}))
	}
	seen := map[string]bool{}
	for _, f := range findings {
		seen[f.Rule] = true
		if f.Severity != severity[f.Rule] {
			t.Errorf("%s: %s has severity %s", f.Rule, f.Message, f.Severity)
		}
	}
	for id := range severity {
		if !seen[id] {
			t.Errorf("no finding of rule %s", id)
		}
	}
	for _, r := range impact.Rules() {
		if r.Severity == severity[r.ID] {
			t.Errorf("the default severity of %s changed", r.ID)
		}
	}
}
