package impact

import (
	"fmt"
	"maps"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
)

// Config overrides the severities of findings. Its zero value has no overrides.
type Config struct {
	// Severity holds severities by rule ID. The ID of a class is a rule ID, too: it stands for
	// all changes of that class.
	Severity map[string]analysis.Severity `json:"severity,omitempty"`
}

// Validate returns an error if the configuration names an unknown rule or severity.
func (c Config) Validate() error {
	for _, id := range slices.Sorted(maps.Keys(c.Severity)) {
		if !slices.ContainsFunc(Rules(), func(r analysis.Rule) bool { return r.ID == id }) {
			return unknownRule(id)
		}
		if _, err := analysis.ParseSeverity(string(c.Severity[id])); err != nil {
			return fmt.Errorf("severity: %s: %w", id, err)
		}
	}
	return nil
}

func unknownRule(id string) error {
	var ids []string
	for _, r := range Rules() {
		ids = append(ids, r.ID)
	}
	if meant := nearest.Name(id, slices.Values(ids)); meant != "" {
		return fmt.Errorf("severity: unknown rule or class of change %q: did you mean %s?", id, meant)
	}
	return fmt.Errorf("severity: unknown rule or class of change %q", id)
}

// Rules returns the rules of findings about two CRDs, with the severities of the
// configuration.
func (c Config) Rules() []analysis.Rule {
	rules := Rules()
	for i := range rules {
		rules[i].Severity = c.severity(rules[i].ID, rules[i].Severity)
	}
	return rules
}

// severity returns the severity of the findings of a rule.
func (c Config) severity(rule string, otherwise analysis.Severity) analysis.Severity {
	if s, ok := c.Severity[rule]; ok {
		return s
	}
	return otherwise
}
