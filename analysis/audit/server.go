package audit

import (
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
)

// ServerProblems returns the problems that a server has found in a stored object of a CRD.
func ServerProblems(d *crd.Definition, found []compliance.StoredProblem) (all []compliance.Problem) {
	for _, f := range found {
		p := compliance.Problem{Kind: compliance.Unreadable, Version: d.Version(f.Version), Message: f.Message}
		for _, k := range compliance.Kinds() {
			if strings.EqualFold(k.String(), f.Reason) {
				p.Kind = k
			}
		}
		if p.Version != nil {
			p.Path = ParsePath(f.Path, p.Version.Structural())
		}
		all = append(all, p)
	}
	return all
}

// Finding returns a problem of one object as a finding.
func Finding(p *compliance.Problem) analysis.Finding {
	return analysis.Finding{Rule: RuleID(p.Kind), Severity: severity(p.Kind), Path: p.Path.String(), Pointer: p.Path.Pointer(), Message: p.Message}
}
