package generate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// Doc returns the comment of a field for targets that cannot express validations: the
// description, and a line for each keyword, such as
//
//	@minimum 1
//	@items @pattern ^[a-z]+$
//	@schema {"oneOf":[{"required":["a"]},{"required":["b"]}]}
//
// Keywords of items and of the values of maps have the prefixes @items and @values. @schema has
// all keywords without a tag of their own, as JSON. Structure has no tags, and neither has
// required. Enums have none if the type of the value expresses them.
func Doc(s *schema.Structural, withEnum bool) string {
	lines := tags(s, withEnum)
	if s.Description != "" {
		lines = slices.Insert(lines, 0, s.Description)
	}
	return strings.Join(lines, "\n")
}

// tags returns the lines for the keywords of a value.
func tags(s *schema.Structural, withEnum bool) []string {
	var t tagList
	if s.Default != nil {
		t.add("default", JSONText(s.Default.Value))
	}
	if s.XListType != nil {
		t.add("listType", *s.XListType)
	}
	for _, key := range s.XListMapKeys {
		t.add("listMapKey", key)
	}
	if s.XMapType != nil {
		t.add("mapType", *s.XMapType)
	}
	if s.ValueValidation != nil {
		t.validations(s.ValueValidation, withEnum)
	}
	if rest := JSONText(untagged(s)); rest != "{}" && rest != intOrStringPattern {
		t.add("schema", rest)
	}
	switch {
	case s.Items != nil:
		t.below("items", s.Items, withEnum)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		t.below("values", s.AdditionalProperties.Structural, withEnum)
	}
	return t
}

// intOrStringPattern is what the schemas of most int-or-string values contain.
const intOrStringPattern = `{"anyOf":[{"type":"integer"},{"type":"string"}]}`

// tagList collects tags.
type tagList []string

func (t *tagList) add(name string, value any) { *t = append(*t, fmt.Sprintf("@%s %v", name, value)) }

// below adds the tags of items or of the values of a map.
func (t *tagList) below(name string, s *schema.Structural, withEnum bool) {
	for _, tag := range tags(s, withEnum) {
		t.add(name, tag)
	}
}

func (t *tagList) validations(v *schema.ValueValidation, withEnum bool) {
	if v.Format != "" {
		t.add("format", v.Format)
	}
	if withEnum && len(v.Enum) > 0 {
		values := make([]string, len(v.Enum))
		for i, value := range v.Enum {
			values[i] = JSONText(value.Value)
		}
		t.add("enum", strings.Join(values, " | "))
	}
	for _, bound := range []struct {
		name      string
		value     *float64
		exclusive bool
	}{{"inimum", v.Minimum, v.ExclusiveMinimum}, {"aximum", v.Maximum, v.ExclusiveMaximum}} {
		switch {
		case bound.value == nil:
		case bound.exclusive:
			t.add("exclusiveM"+bound.name, *bound.value)
		default:
			t.add("m"+bound.name, *bound.value)
		}
	}
	if v.MultipleOf != nil {
		t.add("multipleOf", *v.MultipleOf)
	}
	for _, limit := range []struct {
		name  string
		value *int64
	}{
		{"minLength", v.MinLength}, {"maxLength", v.MaxLength}, {"minItems", v.MinItems}, {"maxItems", v.MaxItems},
		{"minProperties", v.MinProperties}, {"maxProperties", v.MaxProperties},
	} {
		if limit.value != nil {
			t.add(limit.name, *limit.value)
		}
	}
	if v.UniqueItems {
		t.add("uniqueItems", true)
	}
	if v.Pattern != "" {
		t.add("pattern", v.Pattern)
	}
}

// untagged returns the keywords of a value that are neither structure nor annotations and have
// no tag of their own.
func untagged(s *schema.Structural) *api.JSONSchemaProps {
	rest := schema.Structural{ValidationExtensions: s.ValidationExtensions}
	rest.XUnions = s.XUnions
	if v := s.ValueValidation; v != nil {
		rest.ValueValidation = &schema.ValueValidation{AllOf: v.AllOf, AnyOf: v.AnyOf, OneOf: v.OneOf, Not: v.Not}
	}
	return rest.ToJSONSchemaProps()
}

// JSONText returns a value as JSON on one line, without escapes for HTML.
func JSONText(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a value that was decoded from JSON, or a schema
	return strings.TrimSuffix(b.String(), "\n")
}
