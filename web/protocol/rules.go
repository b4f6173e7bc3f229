package protocol

import (
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/schema"
)

// ruleDetail is the start of the detail of a finding about a CEL rule, which has the rule on one line.
const ruleDetail = "rule: "

// ruleLocation returns the location of the CEL rule that a finding about an object is about, or nil. The
// rule is at the field of the finding or, with a fieldPath, at a field around it.
func ruleLocation(checker *object.Checker, v *crd.Version, f *analysis.Finding) *analysis.Location {
	i := slices.IndexFunc(f.Detail, func(d string) bool { return strings.HasPrefix(d, ruleDetail) })
	if i < 0 || f.Rule != object.ViolationRule(schema.Rule) {
		return nil
	}
	rule := strings.TrimPrefix(f.Detail[i], ruleDetail)
	var found *analysis.Location
	at, s := schema.SchemaPath{}, v.Structural()
	look := func() {
		if s == nil {
			return
		}
		for i := range s.XValidations {
			if strings.Join(strings.Fields(s.XValidations[i].Rule), " ") == rule {
				found = checker.SchemaLocation(v, append(slices.Clip(at), schema.SchemaStep{Keyword: "x-kubernetes-validations", Form: schema.StepIndexed, Index: i}))
				return
			}
		}
	}
	look()
	for _, key := range jsonptr.Split(f.Pointer) {
		switch {
		case s == nil:
			return found
		case s.Properties[key] != nil:
			at, s = append(at, schema.SchemaStep{Keyword: "properties", Form: schema.StepNamed, Name: key}), s.Properties[key]
		case s.Items != nil:
			at, s = append(at, schema.SchemaStep{Keyword: "items"}), s.Items
		case s.AdditionalProperties != nil:
			at, s = append(at, schema.SchemaStep{Keyword: "additionalProperties"}), s.AdditionalProperties.Structural
		default:
			return found
		}
		look()
	}
	return found
}
