package rules

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IntOrPercent rejects numbers below zero and strings that are not percentages.
func IntOrPercent(value intstr.IntOrString, path *field.Path) field.ErrorList {
	switch value.Type {
	case intstr.String:
		return Invalid(value, path, validation.IsValidPercent(value.StrVal))
	case intstr.Int:
		return Nonnegative(value.IntVal, path)
	default:
		return field.ErrorList{field.Invalid(path, value, "must be an integer or percentage (e.g '5%%')")}
	}
}

// AtMostHundredPercent rejects percentages above 100%.
func AtMostHundredPercent(value intstr.IntOrString, path *field.Path) field.ErrorList {
	if percent, ok := Percent(value); ok && percent > 100 {
		return field.ErrorList{field.Invalid(path, value, "must not be greater than 100%")}
	}
	return nil
}

// Percent returns the number of a percentage.
func Percent(value intstr.IntOrString) (percent int, ok bool) {
	if value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	// A number that is too large is the largest one.
	percent, _ = strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return percent, true
}
