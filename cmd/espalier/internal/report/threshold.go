package report

import (
	"errors"

	"espalier.dev/analysis"
)

// Threshold is the lowest severity of findings that make the exit code 1: a severity, or
// [Never]. The zero value is error.
type Threshold string

// Never is the threshold that no finding reaches.
const Never Threshold = "never"

// Thresholds returns the names of all thresholds.
func Thresholds() []string {
	return []string{string(analysis.Error), string(analysis.Warning), string(analysis.Info), string(Never)}
}

// Set parses a threshold.
func (t *Threshold) Set(s string) error {
	if v := Threshold(s); v != Never {
		if _, err := analysis.ParseSeverity(s); err != nil {
			return errors.New("must be error, warning, info or never")
		}
	}
	*t = Threshold(s)
	return nil
}

// String returns the name of the threshold.
func (t Threshold) String() string {
	if t == "" {
		return string(analysis.Error)
	}
	return string(t)
}

// Type returns the name of the value in help texts.
func (t Threshold) Type() string { return "severity" }

// Fails reports whether a finding of severity s reaches the threshold.
func (t Threshold) Fails(s analysis.Severity) bool {
	return t != Never && s.Compare(analysis.Severity(t.String())) <= 0
}
