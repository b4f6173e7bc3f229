package schema

import (
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"espalier.dev/internal/intern"
	"espalier.dev/internal/rx"
)

// typeCheck is the type keyword of a node, for messages. The set of accepted values is
// node.accepts.
type typeCheck struct {
	names  []string
	format string
}

// checks are the validations of a value that are not about its fields or items.
type checks struct {
	bounds
	format formatFunc // of formatName
	enum   []any
}

// bounds are the checks that can be compared.
type bounds struct {
	has checkSet

	numberType   string // integer, number, or empty if the type is not one of them alone
	numberFormat string
	maximum      float64
	minimum      float64
	multipleOf   float64

	maxLength int64
	minLength int64
	pattern   *pattern
	// formatName is the format as the schema writes it.
	formatName string

	maxItems      int64
	minItems      int64
	maxProperties int64
	minProperties int64
}

type checkSet uint32

const (
	cMaximum checkSet = 1 << iota
	cExclusiveMaximum
	cMinimum
	cExclusiveMinimum
	cMultipleOf
	// The number type cannot represent these bounds, so no number satisfies them.
	cMaximumOutOfRange
	cMinimumOutOfRange
	cMultipleOfOutOfRange
	cNumberRange // the number type restricts the range of values
	cMaxLength
	cMinLength
	cMaxItems
	cMinItems
	cUniqueItems
	cMaxProperties
	cMinProperties

	cNumber = cMaximum | cMinimum | cMultipleOf | cNumberRange
	cString = cMaxLength | cMinLength
)

// Patterns are compiled regular expressions that Programs share: the same few are in most
// schemas. A pattern that no Program uses is garbage collected. The zero value is ready for
// use, by several goroutines.
type Patterns struct{ pool intern.Pool[string, pattern] }

// get returns the pattern of a source.
func (p *Patterns) get(source string) *pattern {
	if p == nil {
		return &pattern{source: source}
	}
	return p.pool.Get(source, func() *pattern { return &pattern{source: source} })
}

// pattern is a regular expression that is compiled on first use: a CRD has hundreds
// that no object ever needs.
type pattern struct {
	source string
	once   sync.Once
	re     *rx.Regexp
	err    error
}

func (p *pattern) compile() (*rx.Regexp, error) {
	p.once.Do(func() { p.re, p.err = rx.Compile(p.source, 16) })
	return p.re, p.err
}

// match reports whether the pattern matches a text. Nothing matches an invalid pattern, and no
// pattern a text that is too long for it, or for the work that is left.
func (p *pattern) match(s string, w *rx.Work) bool {
	re, err := p.compile()
	return err == nil && w.Match(re, s)
}

// failure returns why the last match was impossible, or nil if the text merely did not match.
func (p *pattern) failure(w *rx.Work) error {
	if _, err := p.compile(); err != nil {
		return err
	}
	return w.Err()
}

// failures is the set of number, string, array or object keywords that a value
// violates.
type failures uint16

const (
	fRange failures = 1 << iota
	fMaximum
	fMinimum
	fMultipleOf
	fMultipleOfNotPositive
	fMaximumOutOfRange
	fMinimumOutOfRange
	fMultipleOfOutOfRange
	fMaxLength
	fMinLength
	fPattern
	fMaxItems
	fMinItems
	fUniqueItems
	fMaxProperties
	fMinProperties
)

// int checks an integer.
func (c *checks) int(v int64) (f failures) {
	if c.has&cNumber == 0 {
		return 0
	}
	if c.numberType == "integer" && c.numberFormat == "int32" && int64(int32(v)) != v {
		f |= fRange
	}
	if c.has&cMultipleOf != 0 {
		if c.has&cMultipleOfOutOfRange != 0 {
			f |= fMultipleOfOutOfRange | c.floatMultiple(float64(v))
		} else if factor := int64(c.multipleOf); factor <= 0 {
			f |= fMultipleOfNotPositive
		} else if v%factor != 0 {
			f |= fMultipleOf
		}
	}
	if c.has&cMaximum != 0 {
		if c.has&cMaximumOutOfRange != 0 {
			f |= fMaximumOutOfRange | c.aboveMaximum(float64(v))
		} else if bound := int64(c.maximum); v > bound || v == bound && c.has&cExclusiveMaximum != 0 {
			f |= fMaximum
		}
	}
	if c.has&cMinimum != 0 {
		if c.has&cMinimumOutOfRange != 0 {
			f |= fMinimumOutOfRange | c.belowMinimum(float64(v))
		} else if bound := int64(c.minimum); v < bound || v == bound && c.has&cExclusiveMinimum != 0 {
			f |= fMinimum
		}
	}
	return f
}

// float checks a number that is not an int64.
func (c *checks) float(v float64) (f failures) {
	if c.has&cNumber == 0 {
		return 0
	}
	if !fitsNumber(v, c.numberType, c.numberFormat) {
		f |= fRange
	}
	if c.has&cMultipleOf != 0 {
		if c.has&cMultipleOfOutOfRange != 0 {
			f |= fMultipleOfOutOfRange
		}
		f |= c.floatMultiple(v)
	}
	if c.has&cMaximum != 0 {
		if c.has&cMaximumOutOfRange != 0 {
			f |= fMaximumOutOfRange
		}
		f |= c.aboveMaximum(v)
	}
	if c.has&cMinimum != 0 {
		if c.has&cMinimumOutOfRange != 0 {
			f |= fMinimumOutOfRange
		}
		f |= c.belowMinimum(v)
	}
	return f
}

func (c *checks) aboveMaximum(v float64) failures {
	if v > c.maximum || v == c.maximum && c.has&cExclusiveMaximum != 0 {
		return fMaximum
	}
	return 0
}

func (c *checks) belowMinimum(v float64) failures {
	if v < c.minimum || v == c.minimum && c.has&cExclusiveMinimum != 0 {
		return fMinimum
	}
	return 0
}

func (c *checks) floatMultiple(v float64) failures {
	if c.multipleOf <= 0 {
		return fMultipleOfNotPositive
	}
	quotient := v / c.multipleOf
	if c.multipleOf < 1 {
		// The order of these operations determines the rounding.
		quotient = 1 / c.multipleOf * v
	}
	if !isJSONInteger(quotient) {
		return fMultipleOf
	}
	return 0
}

// fitsNumber reports whether a number type and format can represent a float.
func fitsNumber(v float64, typ, format string) bool {
	switch typ {
	case "integer":
		if v != math.Trunc(v) {
			return false
		}
		if format == "int32" {
			return v >= math.MinInt32 && v <= math.MaxInt32
		}
		const exact = 1 << 62
		if v > -exact && v < exact {
			return true
		}
		// Close to the limits, the decimal representation decides.
		var buf [32]byte
		_, err := strconv.ParseInt(string(strconv.AppendFloat(buf[:0], v, 'f', -1, 64)), 10, 64)
		return err == nil
	case "number":
		return format != "float" || !math.IsInf(float64(float32(v)), 0)
	}
	return true
}

// string checks a string.
func (c *checks) string(s string, w *rx.Work) failures {
	if c.has&cString != 0 {
		n := int64(len(s))
		if c.has&cMaxLength != 0 && n > c.maxLength || c.has&cMinLength != 0 && n/utf8.UTFMax < c.minLength {
			n = int64(utf8.RuneCountInString(s))
		}
		if c.has&cMaxLength != 0 && n > c.maxLength {
			return fMaxLength
		}
		if c.has&cMinLength != 0 && n < c.minLength {
			return fMinLength
		}
	}
	if c.pattern != nil && !c.pattern.match(s, w) {
		return fPattern
	}
	return 0
}

// array checks an array without its items.
func (c *checks) array(a []any) (f failures) {
	if c.has&cMinItems != 0 && int64(len(a)) < c.minItems {
		f |= fMinItems
	}
	if c.has&cMaxItems != 0 && int64(len(a)) > c.maxItems {
		f |= fMaxItems
	}
	if c.has&cUniqueItems != 0 && hasDuplicates(a) {
		f |= fUniqueItems
	}
	return f
}

// object checks an object without the values of its fields.
func (c *checks) object(m map[string]any) (f failures) {
	if c.has&cMinProperties != 0 && int64(len(m)) < c.minProperties {
		f |= fMinProperties
	}
	if c.has&cMaxProperties != 0 && int64(len(m)) > c.maxProperties {
		f |= fMaxProperties
	}
	return f
}

// inEnum reports whether v is one of the allowed values. Like kube-apiserver, it first
// converts v to the type of the allowed value with a Go conversion: a fraction is
// truncated, and an integer becomes the character with that code point.
func inEnum(allowed []any, v any) bool {
	for _, want := range allowed {
		switch want := want.(type) {
		case string:
			switch v := v.(type) {
			case string:
				if v == want {
					return true
				}
			case int64:
				if string(runeOf(v)) == want {
					return true
				}
			}
		case int64:
			switch v := v.(type) {
			case int64:
				if v == want {
					return true
				}
			case float64:
				if int64(v) == want {
					return true
				}
			}
		case float64:
			switch v := v.(type) {
			case float64:
				if v == want {
					return true
				}
			case int64:
				if float64(v) == want {
					return true
				}
			}
		case nil:
		default:
			if v != nil && Equal(v, want) {
				return true
			}
		}
	}
	return false
}

// runeOf returns the rune to which Go converts an integer in a string conversion.
func runeOf(v int64) rune {
	if v < 0 || v > math.MaxInt32 {
		return utf8.RuneError
	}
	return rune(v)
}
