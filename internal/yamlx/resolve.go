package yamlx

import (
	"math"
	"strconv"
	"strings"
)

// Resolve returns the value of a plain scalar in the YAML 1.1 of go.yaml.in/yaml/v2: nil,
// bool, int64, uint64, float64 or string. Timestamps stay strings.
func Resolve(s string) any {
	if s == "" {
		return nil
	}
	switch hint(s[0]) {
	case 'M':
		if v, ok := word(s); ok {
			return v
		}
	case '.':
		switch s {
		case ".nan", ".NaN", ".NAN":
			return math.NaN()
		case ".inf", ".Inf", ".INF":
			return math.Inf(1)
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	case 'D':
		return number(s)
	}
	return s
}

// hint classifies plain scalars by their first byte: 'M' for possible keywords such as true,
// 'D' for numbers, '.' for possible numbers, 0 for strings.
func hint(c byte) byte {
	switch c {
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '-':
		return 'D'
	case '.':
		return '.'
	case 'y', 'Y', 'n', 'N', 't', 'T', 'f', 'F', 'o', 'O', '~':
		return 'M'
	}
	return 0
}

// word returns the value of a keyword such as true or null.
func word[T string | []byte](s T) (v any, ok bool) {
	if len(s) > 5 {
		return nil, false
	}
	switch string(s) {
	case "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON":
		return true, true
	case "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF":
		return false, true
	case "~", "null", "Null", "NULL":
		return nil, true
	}
	return nil, false
}

// number resolves a scalar that starts with a digit or a sign.
func number(s string) any {
	switch s {
	case "+.inf", "+.Inf", "+.INF":
		return math.Inf(1)
	case "-.inf", "-.Inf", "-.INF":
		return math.Inf(-1)
	}
	plain := strings.ReplaceAll(s, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return i
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return u
	}
	if looksFloat(plain) {
		if f, err := strconv.ParseFloat(plain, 64); err == nil {
			return f
		}
	}
	if bits, ok := strings.CutPrefix(plain, "0b"); ok {
		if i, err := strconv.ParseInt(bits, 2, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(bits, 2, 64); err == nil {
			return u
		}
	} else if bits, ok := strings.CutPrefix(plain, "-0b"); ok {
		if i, err := strconv.ParseInt("-"+bits, 2, 64); err == nil {
			return i
		}
	}
	return s
}

// looksFloat reports whether s is [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
func looksFloat(s string) bool {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	rest := strings.TrimLeft(s, "0123456789")
	whole := len(s) - len(rest)
	if after, ok := strings.CutPrefix(rest, "."); ok {
		rest = strings.TrimLeft(after, "0123456789")
		if whole == 0 && len(rest) == len(after) {
			return false
		}
	} else if whole == 0 {
		return false
	}
	if rest == "" {
		return true
	}
	if rest[0] != 'e' && rest[0] != 'E' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	return rest != "" && strings.Trim(rest, "0123456789") == ""
}
