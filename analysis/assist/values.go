package assist

import (
	"reflect"
	"regexp/syntax"
	"slices"

	"espalier.dev/schema"
)

// fixedValues returns the values that a schema allows, the default first, if it lists them: an enum,
// a boolean, a pattern that few strings match.
func fixedValues(s *schema.Structural) (values []any) {
	add := func(v any) {
		if !slices.ContainsFunc(values, func(o any) bool { return reflect.DeepEqual(o, v) }) {
			values = append(values, v)
		}
	}
	if s.Default != nil && s.Default.Value != nil {
		add(s.Default.Value)
	}
	for _, v := range enumValues(s.ValueValidation) {
		add(v)
	}
	if s.Type == "boolean" {
		add(true)
		add(false)
	}
	if v := s.ValueValidation; v != nil && v.Pattern != "" {
		for _, text := range matches(v.Pattern) {
			add(text)
		}
	}
	return values
}

// enumValues returns the values of the enum, or those of the branches of logical operators.
func enumValues(v *schema.ValueValidation) (values []any) {
	if v == nil {
		return nil
	}
	for _, e := range v.Enum {
		values = append(values, e.Value)
	}
	if len(values) > 0 {
		return values
	}
	for _, branches := range [][]schema.NestedValueValidation{v.AllOf, v.AnyOf, v.OneOf} {
		for i := range branches {
			values = append(values, enumValues(&branches[i].ValueValidation)...)
		}
	}
	return values
}

// example is a value that shows a format.
type example struct{ text, detail string }

// formatExamples returns values of a format.
func formatExamples(s *schema.Structural) []example {
	format := ""
	if s.ValueValidation != nil {
		format = s.ValueValidation.Format
	}
	switch format {
	case "date-time":
		return []example{{"2006-01-02T15:04:05Z", "RFC 3339 date and time"}}
	case "date":
		return []example{{"2006-01-02", "RFC 3339 date"}}
	case "duration":
		return []example{{"30s", "seconds"}, {"5m", "minutes"}, {"1h30m", "hours and minutes"}}
	case "quantity":
		return []example{{"100m", "a tenth"}, {"128Mi", "mebibytes"}, {"1Gi", "gibibytes"}}
	case "ipv4", "ip":
		return []example{{"192.0.2.1", "IPv4 address"}}
	case "ipv6":
		return []example{{"2001:db8::1", "IPv6 address"}}
	case "cidr":
		return []example{{"192.0.2.0/24", "IPv4 network"}}
	case "uri":
		return []example{{"https://example.com", "URI"}}
	case "hostname", "dns1123subdomain":
		return []example{{"host.example.com", "DNS name"}}
	case "email":
		return []example{{"user@example.com", "email address"}}
	case "uuid", "uuid4":
		return []example{{"f81d4fae-7dec-4d1d-a765-00a0c91e6bf6", "UUID"}}
	}
	return nil
}

// maxMatches limits the strings that matches returns.
const maxMatches = 32

// matches returns the strings that a pattern matches if it is anchored and they are few, such as
// those of ^(Always|Never)$, and nothing otherwise.
func matches(pattern string) []string {
	if len(pattern) > 1000 {
		return nil
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	re = re.Simplify()
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 || !begins(re.Sub[0]) || !ends(re.Sub[len(re.Sub)-1]) {
		return nil
	}
	texts, ok := language(&syntax.Regexp{Op: syntax.OpConcat, Sub: re.Sub[1 : len(re.Sub)-1]})
	if !ok {
		return nil
	}
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func begins(re *syntax.Regexp) bool {
	return re.Op == syntax.OpBeginText || re.Op == syntax.OpBeginLine
}

func ends(re *syntax.Regexp) bool { return re.Op == syntax.OpEndText || re.Op == syntax.OpEndLine }

// language returns the strings that a regular expression matches, and reports whether they are few.
func language(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return nil, false
		}
		return []string{string(re.Rune)}, true
	case syntax.OpCharClass:
		var out []string
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if out = append(out, string(r)); len(out) > 8 {
					return nil, false
				}
			}
		}
		return out, true
	case syntax.OpCapture:
		return language(re.Sub[0])
	case syntax.OpQuest:
		texts, ok := language(re.Sub[0])
		return append([]string{""}, texts...), ok
	case syntax.OpAlternate:
		var out []string
		for _, sub := range re.Sub {
			texts, ok := language(sub)
			if out = append(out, texts...); !ok || len(out) > maxMatches {
				return nil, false
			}
		}
		return out, true
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			texts, ok := language(sub)
			if !ok || len(out)*len(texts) > maxMatches {
				return nil, false
			}
			var next []string
			for _, a := range out {
				for _, b := range texts {
					next = append(next, a+b)
				}
			}
			out = next
		}
		return out, true
	}
	return nil, false
}
