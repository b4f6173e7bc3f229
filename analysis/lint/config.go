package lint

import (
	"fmt"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/internal/nearest"
)

// All stands for every rule in Enable and Disable.
const All = "all"

// Config enables and disables rules, and overrides their severities.
type Config struct {
	// Disable and Enable list rule IDs, profiles, or All. A rule that is listed by its ID
	// takes precedence over a profile and All, and Enable over Disable.
	Disable []string `json:"disable,omitempty"`
	Enable  []string `json:"enable,omitempty"`
	// Severity overrides the severity of rules.
	Severity map[string]analysis.Severity `json:"severity,omitempty"`
}

// selection holds the enabled rules and the severity overrides.
type selection struct {
	on       map[string]bool
	severity map[string]analysis.Severity
	// conventions is set if a rule of the conventions is on.
	conventions bool
}

// defaultSelection returns the rules that are on by default. None of them is a convention.
func defaultSelection() *selection {
	s := &selection{on: map[string]bool{}, severity: map[string]analysis.Severity{}}
	for _, r := range table() {
		s.on[r.ID] = !r.Off
	}
	return s
}

// newSelection applies configurations in order.
func newSelection(configs ...Config) (*selection, error) {
	s, rules := defaultSelection(), table()
	isGroup := func(id string) bool { return id == All || slices.Contains(Profiles(), id) }
	setGroups := func(ids []string, on bool) {
		for _, id := range ids {
			for _, r := range rules {
				if isGroup(id) && (id == All || r.Profile == id) {
					s.on[r.ID] = on
				}
			}
		}
	}
	set := func(ids []string, on bool) error {
		for _, id := range ids {
			if isGroup(id) {
				continue
			}
			if _, known := s.on[id]; !known {
				if meant := nearest.Name(id, slices.Values(append(Profiles(), All))); meant != "" {
					return fmt.Errorf("unknown rule %q: did you mean %s?", id, meant)
				}
				_, err := Lookup(id)
				return err
			}
			s.on[id] = on
		}
		return nil
	}
	for _, c := range configs {
		setGroups(c.Disable, false)
		setGroups(c.Enable, true)
		if err := set(c.Disable, false); err != nil {
			return nil, fmt.Errorf("disable: %w", err)
		}
		if err := set(c.Enable, true); err != nil {
			return nil, fmt.Errorf("enable: %w", err)
		}
		for _, id := range sortedNames(c.Severity) {
			if _, err := Lookup(id); err != nil {
				return nil, fmt.Errorf("severity: %w", err)
			}
			severity, err := analysis.ParseSeverity(string(c.Severity[id]))
			if err != nil {
				return nil, fmt.Errorf("severity: %s: %w", id, err)
			}
			s.severity[id] = severity
		}
	}
	s.conventions = slices.ContainsFunc(rules, func(r Rule) bool { return r.Profile == Conventions && s.on[r.ID] })
	return s, nil
}

// Configured returns all rules as the configurations set them.
func Configured(configs ...Config) ([]Rule, error) {
	s, err := newSelection(configs...)
	if err != nil {
		return nil, err
	}
	rules := Rules()
	for i := range rules {
		r := &rules[i]
		r.Off = !s.on[r.ID]
		if severity, ok := s.severity[r.ID]; ok {
			r.Severity = severity
		}
	}
	return rules, nil
}
