package crd

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// rules checks x-kubernetes-validations as far as that goes without compiling them.
// convertible says whether s can be made structural.
func (w *schemaWalk) rules(s *api.JSONSchemaProps, p *place, convertible bool) {
	reasons := []string{string(api.FieldValueDuplicate), string(api.FieldValueForbidden), string(api.FieldValueInvalid), string(api.FieldValueRequired)}
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
