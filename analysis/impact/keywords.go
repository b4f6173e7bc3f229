package impact

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"espalier.dev/crd"
	"espalier.dev/schema"
)

// kinds is a set of JSON types, without null.
type kinds uint8

const (
	booleans kinds = 1 << iota
	integers
	fractions
	strs
	arrays
	objects

	numbers  = integers | fractions
	allKinds = booleans | numbers | strs | arrays | objects
)

// kindsOf returns the kinds of values that a type allows.
func kindsOf(typ string, intOrString bool) kinds {
	if intOrString {
		return integers | strs
	}
	switch typ {
	case "boolean":
		return booleans
	case "integer":
		return integers
	case "number":
		return numbers
	case "string":
		return strs
	case "array":
		return arrays
	case "object":
		return objects
	}
	return allKinds
}

// keyword is a condition on a value that can be compared by itself.
type keyword struct {
	name string
	// on is the kinds of values that the keyword applies to.
	on kinds
	// of returns the operand of the keyword, or nil.
	of func(*schema.ValueValidation) any
	// implied reports whether every value of b's type that meets the condition in a meets
	// the one in b. It may return false although the answer is yes.
	implied func(a, b *schema.ValueValidation, typ string) bool
}

// whole turns an exclusive bound of integers into an inclusive one.
func whole(v float64, exclusive bool, typ string, inward float64) (float64, bool) {
	if typ == "integer" && exclusive && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return v + inward, false
	}
	return v, exclusive
}

// meets reports whether all values of the enum in a meet the condition in b, if that only
// depends on their lengths, or whether the patterns in a and b are spellings of the same one.
func (k *keyword) meets(a, b *schema.ValueValidation) bool {
	if k.name == "pattern" {
		return samePattern(a.Pattern, b.Pattern)
	}
	if len(a.Enum) == 0 || k.name != "maxLength" && k.name != "minLength" {
		return false
	}
	return !slices.ContainsFunc(a.Enum, func(v schema.JSON) bool {
		s, ok := v.Value.(string)
		n := int64(utf8.RuneCountInString(s))
		return ok && (k.name == "maxLength" && n > *b.MaxLength || k.name == "minLength" && n < *b.MinLength)
	})
}

// keywords returns the conditions that do not contain other schemas.
func keywords() []keyword {
	atMost := func(name string, on kinds, get func(*schema.ValueValidation) *int64) keyword {
		return keyword{name, on, func(v *schema.ValueValidation) any { return operand(get(v)) },
			func(a, b *schema.ValueValidation, _ string) bool {
				return get(a) != nil && *get(a) <= *get(b)
			}}
	}
	atLeast := func(name string, on kinds, get func(*schema.ValueValidation) *int64) keyword {
		return keyword{name, on, func(v *schema.ValueValidation) any { return operand(get(v)) },
			func(a, b *schema.ValueValidation, _ string) bool {
				return *get(b) <= 0 || get(a) != nil && *get(a) >= *get(b)
			}}
	}
	return []keyword{
		{"format", allKinds, func(v *schema.ValueValidation) any { return text(v.Format) },
			func(a, b *schema.ValueValidation, typ string) bool {
				return a.Format == b.Format || !restricts(typ, b.Format)
			}},
		{"maximum", numbers, func(v *schema.ValueValidation) any {
			return bound(v.Maximum,
				v.ExclusiveMaximum)
		}, func(a, b *schema.ValueValidation, typ string) bool {
			if a.Maximum == nil || !fits(*b.Maximum, typ, b.Format) {
				return false
			}
			was, open := whole(*a.Maximum, a.ExclusiveMaximum, typ, -1)
			is, opens := whole(*b.Maximum, b.ExclusiveMaximum, typ, -1)
			return below(was, open, is, opens)
		}},
		{"minimum", numbers, func(v *schema.ValueValidation) any {
			return bound(v.Minimum,
				v.ExclusiveMinimum)
		}, func(a, b *schema.ValueValidation, typ string) bool {
			if a.Minimum == nil || !fits(*b.Minimum, typ, b.Format) {
				return false
			}
			was, open := whole(*a.Minimum, a.ExclusiveMinimum, typ, 1)
			is, opens := whole(*b.Minimum, b.ExclusiveMinimum, typ, 1)
			return below(-was, open, -is, opens)
		}},
		{"multipleOf", numbers, func(v *schema.ValueValidation) any { return operand(v.MultipleOf) },
			func(a, b *schema.ValueValidation, typ string) bool {
				if same(a.MultipleOf, b.MultipleOf) {
					return true
				}
				// For fractions, divisibility depends on rounding.
				return typ == "integer" && a.MultipleOf != nil && *b.MultipleOf >= 1 && fits(*b.MultipleOf, typ, b.Format) &&
					math.Mod(*a.MultipleOf, *b.MultipleOf) == 0
			}},
		atMost("maxLength", strs, func(v *schema.ValueValidation) *int64 { return v.MaxLength }),
		atLeast("minLength", strs, func(v *schema.ValueValidation) *int64 { return v.MinLength }),
		{"pattern", strs, func(v *schema.ValueValidation) any { return text(v.Pattern) },
			func(a, b *schema.ValueValidation, _ string) bool {
				return a.Pattern == b.Pattern
			}},
		atMost("maxItems", arrays, func(v *schema.ValueValidation) *int64 { return v.MaxItems }),
		atLeast("minItems", arrays, func(v *schema.ValueValidation) *int64 { return v.MinItems }),
		{"uniqueItems", arrays, func(v *schema.ValueValidation) any {
			if !v.UniqueItems {
				return nil
			}
			return true
		}, func(a, _ *schema.ValueValidation, _ string) bool { return a.UniqueItems }},
		atMost("maxProperties", objects, func(v *schema.ValueValidation) *int64 { return v.MaxProperties }),
		atLeast("minProperties", objects, func(v *schema.ValueValidation) *int64 { return v.MinProperties }),
		{"enum", allKinds, func(v *schema.ValueValidation) any {
			if len(v.Enum) == 0 {
				return nil
			}
			values := make([]any, len(v.Enum))
			for i := range v.Enum {
				values[i] = v.Enum[i].Value
			}
			return values
		}, func(a, b *schema.ValueValidation, _ string) bool {
			return len(a.Enum) > 0 && !slices.ContainsFunc(a.Enum, func(x schema.JSON) bool {
				return !slices.ContainsFunc(b.Enum, func(y schema.JSON) bool { return reflect.DeepEqual(x.Value, y.Value) })
			})
		}},
	}
}

// fits reports whether the number type can represent a bound. No number satisfies a bound
// that it cannot represent.
func fits(v float64, typ, format string) bool {
	switch {
	case typ == "integer" && format == "int32":
		return v == math.Trunc(v) && v >= math.MinInt32 && v <= math.MaxInt32
	case typ == "integer":
		return v == math.Trunc(v) && math.Abs(v) < 1<<62
	case typ == "number" && format == "float":
		return math.Abs(v) <= math.MaxFloat32
	}
	return true
}

// below reports whether x ≤ a (or x < a) implies x ≤ b (or x < b), for fractions and for
// integers, which are compared with the integer part of the bound.
func below(a float64, aExcluded bool, b float64, bExcluded bool) bool {
	implied := func(a, b float64) bool { return a < b || a == b && (aExcluded || !bExcluded) }
	return implied(a, b) && implied(math.Trunc(a), math.Trunc(b))
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func operand[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func bound(v *float64, exclusive bool) any {
	if v == nil {
		return nil
	}
	if exclusive {
		return excluded(*v)
	}
	return *v
}

// excluded is an exclusive bound.
type excluded float64

// show formats the operand of a keyword for a message.
func show(v any) string {
	const most = 80
	var s string
	switch v := v.(type) {
	case nil:
		return "none"
	case excluded:
		return number(float64(v)) + " (exclusive)"
	case float64:
		s = number(v)
	case string:
		if s = v; s == "" {
			return `""`
		}
	default:
		b, _ := json.Marshal(v) // it is from a schema
		s = string(b)
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// number formats a bound as manifests have it: integers without an exponent.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// restricts reports whether a format rejects any value of a type.
func restricts(typ, format string) bool {
	switch format {
	case "", "password", "int64", "double":
		return false
	}
	return crd.KnownFormat(typ, format)
}
