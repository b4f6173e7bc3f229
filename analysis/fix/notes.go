package fix

import (
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonptr"
)

// The names of the rules.
const (
	conflicting     = "conflicting-values"
	conditionWeaker = "weaker-condition"
	conditionGone   = "dropped-condition"
	typeOpen        = "open-type"
	unknownKept     = "unknown-fields-kept"
)

// Rules lists the rules of notes, beside those of package lint.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: conflicting, Severity: analysis.Error, Summary: "A v1beta1 definition says something for all versions and for one, and v1 has room for one of them."},
		{ID: conditionWeaker, Severity: analysis.Warning, Summary: "A structural schema cannot state the condition: what is left of it accepts more."},
		{ID: conditionGone, Severity: analysis.Warning, Summary: "v1 does not have the keyword there: the condition is gone, and more is accepted."},
		{ID: typeOpen, Severity: analysis.Info, Summary: "No type is stated that all values have: values of all types stay allowed."},
		{ID: unknownKept, Severity: analysis.Info, Summary: "Nothing was pruned, and nothing will be."},
	}
}

// add notes something about a place in the new document.
func (f *fixer) add(rule string, severity analysis.Severity, at []string, message string, detail ...string) {
	pointer := jsonptr.New(at...)
	f.notes = append(f.notes, analysis.Finding{
		Rule: rule, Severity: severity, Path: jsonptr.Display(pointer, "properties"), Pointer: pointer, Message: message, Detail: detail,
	})
}

// noteSchema is told about a schema that is rewritten.
func (f *fixer) noteSchema(kind noteKind, at []string, keyword string) {
	switch kind {
	case leftOpen:
		f.add(typeOpen, analysis.Info, at,
			"no type is stated that every value has, so values of all types stay allowed and nothing in them is pruned",
			"if there is a type, write it in place of x-kubernetes-preserve-unknown-fields (and of nullable, unless null is meant)")
	case weakened:
		f.add(conditionWeaker, analysis.Warning, below(at, keyword),
			fmt.Sprintf("%s has types or other things in it that a structural schema may not have there: without them it accepts more", keyword),
			"x-kubernetes-validations may say the same")
	case dropped:
		f.add(conditionGone, analysis.Warning, below(at, keyword),
			fmt.Sprintf("%s cannot stand here in v1, and is left out: more is accepted", keyword))
	}
}
