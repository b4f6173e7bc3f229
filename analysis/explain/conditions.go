package explain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"espalier.dev/schema"
)

// constraints lists the conditions of v on one value, except logical operators, enum and
// required.
func constraints(v *schema.ValueValidation) (list Constraints) {
	add := func(keyword string, value any) { list = append(list, Constraint{keyword, value}) }
	if v.Format != "" {
		add("format", v.Format)
	}
	number := func(keyword string, n *float64) {
		if n != nil {
			add(keyword, *n)
		}
	}
	size := func(keyword string, n *int64) {
		if n != nil {
			add(keyword, *n)
		}
	}
	flag := func(keyword string, b bool) {
		if b {
			add(keyword, true)
		}
	}
	number("minimum", v.Minimum)
	flag("exclusiveMinimum", v.ExclusiveMinimum)
	number("maximum", v.Maximum)
	flag("exclusiveMaximum", v.ExclusiveMaximum)
	number("multipleOf", v.MultipleOf)
	size("minLength", v.MinLength)
	size("maxLength", v.MaxLength)
	if v.Pattern != "" {
		add("pattern", v.Pattern)
	}
	size("minItems", v.MinItems)
	size("maxItems", v.MaxItems)
	flag("uniqueItems", v.UniqueItems)
	size("minProperties", v.MinProperties)
	size("maxProperties", v.MaxProperties)
	return list
}

// conditions describes the logical operators of v, one per line.
func conditions(v *schema.ValueValidation) (lines []string) {
	for i := range v.AllOf {
		lines = append(lines, phrase(&v.AllOf[i]))
	}
	if len(v.AnyOf) > 0 {
		lines = append(lines, "at least one of: "+branches(v.AnyOf))
	}
	if len(v.OneOf) > 0 {
		lines = append(lines, "exactly one of: "+branches(v.OneOf))
	}
	if v.Not != nil {
		lines = append(lines, "not: "+phrase(v.Not))
	}
	return lines
}

// branches describes the branches of a logical operator.
func branches(list []schema.NestedValueValidation) string {
	var parts []string
	for i := range list {
		parts = append(parts, "("+phrase(&list[i])+")")
	}
	return strings.Join(parts, " ")
}

// phrase describes a schema under a logical operator.
func phrase(n *schema.NestedValueValidation) string {
	parts := phrases(n, "")
	if len(parts) == 0 {
		return "anything"
	}
	return strings.Join(parts, "; ")
}

// phrases describes the conditions of n on the value at path, which is relative to the
// value that has the logical operator.
func phrases(n *schema.NestedValueValidation, path string) (parts []string) {
	add := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if path != "" {
			text = path + " " + text
		}
		parts = append(parts, text)
	}
	if n.ForbiddenGenerics.Type != "" {
		add("is of type %s", n.ForbiddenGenerics.Type)
	}
	if len(n.Required) > 0 {
		add("has %s", strings.Join(n.Required, ", "))
	}
	switch values := enumValues(n.Enum); len(values) {
	case 0:
	case 1:
		add("is %s", values[0])
	default:
		add("is one of %s", strings.Join(values, ", "))
	}
	for _, c := range constraints(&n.ValueValidation) {
		add("%s %s", c.Keyword, Literal(c.Value))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		parts = append(parts, phrases(n.Properties[name], below(path, name))...)
	}
	if n.Items != nil {
		parts = append(parts, phrases(n.Items, path+"[]")...)
	}
	for _, r := range n.XValidations {
		add("rule %s", r.Rule)
	}
	for _, line := range conditions(&n.ValueValidation) {
		add("%s", line)
	}
	return parts
}

func enumValues(enum []schema.JSON) (values []string) {
	for _, e := range enum {
		values = append(values, Literal(e.Value))
	}
	return values
}

// Literal formats a value of a schema in one line: as JSON, but with readable numbers and
// without quotes around plain strings.
func Literal(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case string:
		if v != "" && v == strings.TrimSpace(v) && !strings.ContainsAny(v, "\n\t\",") {
			return v
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}
