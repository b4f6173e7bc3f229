// Package quantity recognizes Kubernetes quantities that are too costly to parse. The time and the
// memory that k8s.io/apimachinery needs for a quantity such as 1e-9999999 grow with the value of
// the exponent, and those for a long number with the square of its length.
package quantity

import "strings"

const (
	// maxDigits is the largest number of digits. The largest quantity that Kubernetes distinguishes
	// from others has 19.
	maxDigits = 1000
	// exponentDigits is the number of digits of exponents that are too large.
	exponentDigits = 4
)

// IsCostly reports whether text is a quantity that must not be parsed.
func IsCostly(text string) bool {
	text = strings.TrimSpace(text)
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	number := text
	i := strings.IndexAny(text, "eE")
	if i >= 0 {
		number = text[:i]
	}
	digits := len(number) - len(strings.TrimLeft(number, "0123456789."))
	if digits > maxDigits {
		return true
	}
	if i < 0 || digits == 0 || digits < len(number) {
		return false
	}
	exponent := strings.TrimLeft(text[i+1:], "+-0")
	return len(exponent) >= exponentDigits && strings.Trim(exponent, "0123456789") == ""
}
