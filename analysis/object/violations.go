package object

import (
	"fmt"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// violationFindings converts violations to findings. Violations in the branches of an allOf
// become their own findings. For other logical operators, the branch that came closest to
// holding explains the violation.
func (c *Checker) violationFindings(v *crd.Version, vs schema.Violations) (findings []analysis.Finding) {
	sem := v.Definition().Semantics()
	for i := range vs {
		violation := &vs[i]
		if violation.Kind == schema.AllOf {
			for _, branch := range violation.Branches {
				for _, f := range c.violationFindings(v, branch) {
					if sem.SaysViolationsAsDocumented() {
						f.Detail = append([]string{allOfMessage(violation)}, f.Detail...)
					}
					findings = append(findings, f)
				}
			}
			continue
		}
		f := analysis.Finding{
			Rule: ViolationRule(violation.Kind), Severity: analysis.Error,
			Path: violation.Path.String(), Pointer: violation.Path.Pointer(), Message: violationMessage(violation, sem),
		}
		if violation.Kind == schema.RulesSkipped {
			// The rules are not at fault. The violations that are have their own findings.
			f.Severity = analysis.Info
			f.Message = schema.Violations{*violation}.FieldErrors()[0].Detail
			findings = append(findings, f)
			continue
		}
		f.Detail = append(f.Detail, junctorDetail(violation, sem, "")...)
		if rule := violation.Want.Rule; rule != "" {
			f.Detail = append(f.Detail, "rule: "+strings.Join(strings.Fields(rule), " "))
		}
		if violation.Schema != (schema.NodeRef{}) {
			f.Schema = c.SchemaLocation(v, violation.Schema.Path())
		}
		findings = append(findings, f)
	}
	return findings
}

// allOfMessage returns the message of an allOf without those of its branches.
func allOfMessage(v *schema.Violation) string {
	alone := *v
	alone.Branches = nil
	return alone.String()
}

// violationMessage returns the violation as the API server words it, without its path.
func violationMessage(v *schema.Violation, sem schema.Semantics) string {
	// The details list the violations of the branches separately.
	alone := *v
	alone.Branches, alone.Closest = nil, -1
	return schema.Violations{alone}.FieldErrorsIn(sem)[0].ErrorBody()
}

// maxBranches limits the number of branches of a logical operator that are explained.
const maxBranches = 8

// junctorDetail explains why no branch of an anyOf or oneOf holds, the closest first, or
// which branches hold if only one may.
func junctorDetail(v *schema.Violation, sem schema.Semantics, indent string) (lines []string) {
	if v.Kind != schema.AnyOf && v.Kind != schema.OneOf {
		return nil
	}
	name := "anyOf"
	if v.Kind == schema.OneOf {
		name = "oneOf"
	}
	if v.Holding != 0 {
		var holding []string
		for i, branch := range v.Branches {
			if len(branch) == 0 {
				holding = append(holding, fmt.Sprintf("%s[%d]", name, i))
			}
		}
		return []string{fmt.Sprintf("%s%s all match; exactly one must", indent, strings.Join(holding, ", "))}
	}
	branch := func(i int, verb string) {
		lines = append(lines, fmt.Sprintf("%s%s[%d] %s:", indent, name, i, verb))
		for j := range v.Branches[i] {
			w := &v.Branches[i][j]
			lines = append(lines, fmt.Sprintf("%s  %s: %s", indent, displayPath(w), violationMessage(w, sem)))
			lines = append(lines, junctorDetail(w, sem, indent+"    ")...)
		}
	}
	for i := range v.Branches {
		if i == v.Closest {
			branch(i, "is the closest match, but fails on")
		}
	}
	if indent == "" && len(v.Branches) <= maxBranches {
		for i := range v.Branches {
			if i != v.Closest {
				branch(i, "fails on")
			}
		}
	}
	return lines
}

func displayPath(v *schema.Violation) string {
	if p := v.Path.String(); p != "" {
		return p
	}
	return "the object"
}
