package crd

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// rules validates x-kubernetes-validations without compiling them. convertible reports
// whether s can be converted to a Structural.
func (w *schemaWalk) rules(s *api.JSONSchemaProps, p *place, convertible bool) {
	reasons := []string{string(api.FieldValueDuplicate), string(api.FieldValueForbidden),
		string(api.FieldValueInvalid), string(api.FieldValueRequired)}
	for i := range s.XValidations {
		r := &s.XValidations[i]
		at := func(name string) func(*field.Path) *field.Path {
			return func(p *field.Path) *field.Path { return p.Child("x-kubernetes-validations").Index(i).Child(name) }
		}
		rule, message := strings.TrimSpace(r.Rule), strings.TrimSpace(r.Message)
		switch {
		case rule == "":
			w.require(p, at("rule"), "rule is not specified")
		case r.Message != "" && message == "":
			w.invalid(p, at("message"), r.Message, "must be non-empty if specified")
		case hasLineBreak(message):
			w.invalid(p, at("message"), r.Message, "must not contain line breaks")
		case hasLineBreak(rule) && message == "":
			w.require(p, at("message"), "message must be specified if rule contains line breaks")
		}
		if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
			w.require(p, at("messageExpression"), "messageExpression must be non-empty if specified")
		}
		if r.Reason != nil && !slices.Contains(reasons, string(*r.Reason)) {
			w.unsupported(p, at("reason"), *r.Reason, reasons)
		}
		if r.FieldPath == "" {
			continue
		}
		if strings.TrimSpace(r.FieldPath) == "" {
			w.invalid(p, at("fieldPath"), r.FieldPath, "must be non-empty if specified")
		}
		if hasLineBreak(r.FieldPath) {
			w.invalid(p, at("fieldPath"), r.FieldPath, "must not contain line breaks")
		}
		if convertible {
			if _, _, err := resolve(r.FieldPath, s, true); err != nil {
				w.invalid(p, at("fieldPath"), r.FieldPath, "must be a valid path")
			}
		}
	}
}

func hasLineBreak(s string) bool { return strings.ContainsAny(s, "\n\r") }

// compiledRules compiles the rules of a schema at path and checks their cost. compiles
// is false if there are errors that rules would only repeat; w has the schemas in root
// for which that is the case. unchanged is true on an update that does not change the
// schema.
func (d *demands) compiledRules(ctx context.Context, root *schema.Structural, w *schemaWalk, compiles,
	unchanged bool, path *field.Path) field.ErrorList {
	switch {
	case d.rules == nil && !d.ignoreRules:
		return field.ErrorList{field.InternalError(path, schema.ErrRules)}
	case d.rules == nil || !compiles:
		return nil
	}
	report := d.rules.CheckRules(ctx, RuleCheck{
		Root: root, Path: path,
		Skip:          func(p schema.SchemaPath) bool { return w.skipAll || w.skipped[p.String()] },
		StoredRule:    func(text string) bool { return d.storedExpressions().rules[text] },
		StoredMessage: func(text string) bool { return d.storedExpressions().messages[text] },
	})
	if err := ctx.Err(); err != nil {
		// The report is not complete.
		return field.ErrorList{field.InternalError(path, err)}
	}
	// A schema that does not change is not rejected because of the cost of a single
	// rule.
	return append(report.FieldErrors(path, unchanged), report.TotalErrors(path)...)
}

// expressions are the rules and message expressions of a CRD.
type expressions struct {
	rules, messages map[string]bool
}

// storedExpressions returns the expressions of the stored CRD.
func (d *demands) storedExpressions() *expressions {
	if d.expressions != nil {
		return d.expressions
	}
	d.expressions = &expressions{map[string]bool{}, map[string]bool{}}
	if d.stored != nil {
		d.stored.spec.anySchema(func(s *api.JSONSchemaProps) bool {
			for _, r := range s.XValidations {
				d.expressions.rules[r.Rule] = true
				d.expressions.messages[r.MessageExpression] = true
			}
			return false
		})
	}
	return d.expressions
}
