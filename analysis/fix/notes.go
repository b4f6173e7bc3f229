package fix

import (
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonptr"
)

// The IDs of the rules.
const (
	conflicting     = "conflicting-values"
	conditionWeaker = "weaker-condition"
	conditionGone   = "dropped-condition"
	typeOpen        = "open-type"
	unknownKept     = "unknown-fields-kept"
)

// Rules returns the rules of the notes, in addition to those of package lint.
func Rules() []analysis.Rule {
	return []analysis.Rule{
		{ID: conflicting, Severity: analysis.Error,
			Summary: "A v1beta1 CRD sets a field for all versions and for a single version, and v1 can hold only one of them."},
		{ID: conditionWeaker, Severity: analysis.Warning,
			Summary: "A structural schema cannot express the condition: the rewritten schema accepts more objects."},
		{ID: conditionGone, Severity: analysis.Warning,
			Summary: "v1 does not allow the keyword there: the condition is removed, and the schema accepts more objects."},
		{ID: typeOpen, Severity: analysis.Info,
			Summary: "The schema does not give the value a single type: values of all types stay allowed."},
		{ID: unknownKept, Severity: analysis.Info, Summary: "Unknown fields were preserved and still are."},
	}
}

// add adds a note about a location in the new document.
func (f *fixer) add(rule string, severity analysis.Severity, at []string, message string, detail ...string) {
	pointer := jsonptr.New(at...)
	f.notes = append(f.notes, analysis.Finding{
		Rule: rule, Severity: severity, Path: jsonptr.Display(pointer, "properties"), Pointer: pointer, Message: message, Detail: detail,
	})
}

// noteSchema adds a note about a rewritten schema.
func (f *fixer) noteSchema(kind noteKind, at []string, keyword string) {
	switch kind {
	case leftOpen:
		f.add(typeOpen, analysis.Info, at,
			"the schema does not give the value a single type, so values of all types stay allowed and nothing in them is pruned",
			"if the value has a type, set it instead of x-kubernetes-preserve-unknown-fields (and of nullable, unless null is allowed)")
	case weakened:
		f.add(conditionWeaker, analysis.Warning, below(at, keyword),
			fmt.Sprintf("%s contains types or other keywords that a structural schema does not allow there: without them it accepts more objects", keyword),
			"an x-kubernetes-validations rule may express the condition")
	case dropped:
		f.add(conditionGone, analysis.Warning, below(at, keyword),
			fmt.Sprintf("v1 does not allow %s here: it is removed, and the schema accepts more objects", keyword))
	}
}
