package main

import (
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
)

// judge returns the findings of check about an object and the one before the update, or nil. It
// leaves out those about values with variables, which have other values in a cluster.
func (v *validator) judge(it, old *input.Item, check func(src, old []byte) []analysis.Finding) []analysis.Finding {
	var before []byte
	if old != nil {
		before = substituted(old, v.variables)
	}
	var variables *input.Variables
	if v.variables {
		variables = it.Variables()
	}
	if variables == nil {
		return check(it.JSON, before)
	}
	findings := check(substituted(it, v.variables), before)
	var undecoded []string
	for _, f := range findings {
		if is, _ := variables.At(f.Pointer); is && f.Rule == object.RuleDecode {
			undecoded = append(undecoded, f.Pointer)
		}
	}
	if len(undecoded) > 0 {
		// An object that cannot be decoded is not validated: the rest of it is, without these fields.
		if rest, err := variables.Substituted(undecoded); err == nil {
			v.skipped.Add(input.UnjudgedValue, len(undecoded))
			findings = check(rest, before)
		}
	}
	judged := findings[:0]
	for _, f := range findings {
		if unjudged(variables, f) {
			v.skipped.Count(input.UnjudgedValue)
			continue
		}
		judged = append(judged, f)
	}
	return judged
}

// substituted returns an object, with other values in place of its variables if variables is set.
func substituted(it *input.Item, variables bool) []byte {
	if variables {
		if variables := it.Variables(); variables != nil {
			if src, err := variables.Substituted(nil); err == nil {
				return src
			}
		}
	}
	return it.JSON
}

// unjudged reports whether a finding depends on the value of a variable.
func unjudged(variables *input.Variables, f analysis.Finding) bool {
	switch f.Rule {
	case object.RuleUnknownField, object.RuleDuplicateField, object.RuleStorageVersion:
		return false // whatever the value is
	}
	is, contains := variables.At(f.Pointer)
	if is || !contains {
		return is
	}
	rule, isViolation := strings.CutPrefix(f.Rule, "validation/")
	switch rule {
	case "required", "wrong-type", "max-items", "min-items", "max-properties", "forbidden-field", "additional-items":
		return false // whatever the values in it are
	}
	return isViolation
}
