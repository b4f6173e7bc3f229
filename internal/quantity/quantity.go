// Package quantity recognizes Kubernetes quantities that nobody should parse. The time and the
// memory that k8s.io/apimachinery needs for a quantity such as 1e-9999999 grow with the value of
// the exponent, and those for a long number with the square of its length.
package quantity

import "strings"

const (
	// maxExponent is the largest exponent, and maxDigits the largest number of digits. The
	// largest quantity that Kubernetes distinguishes from others has 19 digits.
	maxExponent = 999
	maxDigits   = 1000
	// exponentDigits is the number of digits of exponents that are larger.
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

// MayBeIn reports whether a text in any format may contain a costly quantity. It is quick, and
// almost always false.
func MayBeIn(text []byte) bool {
	run, exponent := 0, false
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9':
			if run++; run > maxDigits/2 || exponent && run >= exponentDigits {
				return true
			}
			continue
		case c == '.' && !exponent:
			continue
		case (c == 'e' || c == 'E') && i > 0 && (isDigit(text[i-1]) || text[i-1] == '.'):
			exponent = true
		case (c == '+' || c == '-') && exponent && (text[i-1] == 'e' || text[i-1] == 'E'):
		case c == '\\' && i+1 < len(text) && (text[i+1] == 'u' || text[i+1] == 'x' || text[i+1] == 'U' || text[i+1] == '\n'):
			return true // an escape may hide anything
		default:
			exponent = false
		}
		run = 0
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
