package impact

import (
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

// Revealed returns the fields of a stored object that are not served under the old CRD, because
// it does not specify them, and are served under the new one. They may hold what nobody has
// validated.
func (c *Comparison) Revealed(stored []byte) ([]schema.Path, error) {
	if c.old == nil {
		return nil, nil
	}
	return compliance.New(c.old).Revealed(compliance.New(c.new), stored)
}

// RevealedFinding returns the finding for the paths of a pattern at which a number of objects
// hold data that only the new CRD serves. The lines name objects.
func (c *Comparison) RevealedFinding(pattern string, count, of int, lines []string) Finding {
	f := Finding{Finding: analysis.Finding{
		Rule: RuleRevealed, Severity: c.options.Config.severity(RuleRevealed, analysis.Warning),
		Message: fmt.Sprintf("data at %s is stored, but not served under the old CRD, which does not specify it: the new CRD would serve it", pattern),
		Detail:  []string{fmt.Sprintf("in %d of %d objects:", count, of)},
	}}
	for _, line := range lines {
		f.Detail = append(f.Detail, "  "+line)
	}
	f.Detail = append(f.Detail, "espalier migrate removes it while the old CRD is in place")
	return f
}
