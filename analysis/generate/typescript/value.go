package typescript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis/generate"
	"espalier.dev/schema"
)

// value returns the type of a value.
func (w *writer) value(v *generate.Value) string {
	union := w.alternatives(v)
	if v.Schema.Nullable && !slices.Contains(union, "null") && !slices.Contains(union, "unknown") {
		union = append(union, "null")
	}
	return strings.Join(union, " | ")
}

// alternatives returns the types of which a value has one.
func (w *writer) alternatives(v *generate.Value) []string {
	if literals := literals(v); literals != nil {
		return literals
	}
	switch v.Kind {
	case generate.String:
		return []string{"string"}
	case generate.Integer, generate.Number:
		return []string{"number"}
	case generate.Boolean:
		return []string{"boolean"}
	case generate.IntOrString:
		return []string{"number", "string"}
	case generate.List:
		item := w.value(v.Elem)
		if strings.Contains(item, " | ") {
			item = "(" + item + ")"
		}
		return []string{item + "[]"}
	case generate.Map:
		return []string{"{ [key: string]: " + w.value(v.Elem) + " }"}
	case generate.Object:
		return []string{v.Type.Name}
	case generate.Resource:
		w.usesResource = true
		return []string{w.resource}
	}
	switch v.Schema.Type {
	case "object":
		return []string{"{ [key: string]: unknown }"}
	case "array":
		return []string{"unknown[]"}
	}
	return []string{"unknown"}
}

// literals returns the values of an enum of strings, numbers or booleans. It returns nil if
// there is no enum, or if it has other values.
func literals(v *generate.Value) (all []string) {
	if v.Schema.ValueValidation == nil {
		return nil
	}
	switch v.Kind {
	case generate.List, generate.Map, generate.Object, generate.Resource:
		return nil
	}
	for _, value := range v.Schema.ValueValidation.Enum {
		switch value.Value.(type) {
		case []any, map[string]any:
			return nil
		}
		if text := literal(value.Value); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// propertyDoc returns the comment of a property: its description, and a tag for each
// validation that its type does not express.
func propertyDoc(s *schema.Structural) string {
	var b strings.Builder
	b.WriteString(s.Description)
	tag := func(name string, value any) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "@%s %v", name, value)
	}
	if s.Default != nil {
		tag("default", literal(s.Default.Value))
	}
	if v := s.ValueValidation; v != nil {
		addTags(v, tag)
	}
	return b.String()
}

func addTags(v *schema.ValueValidation, tag func(name string, value any)) {
	if v.Format != "" {
		tag("format", v.Format)
	}
	exclusive := func(name string, is bool) string {
		if is {
			return "exclusive" + strings.ToUpper(name[:1]) + name[1:]
		}
		return name
	}
	if v.Minimum != nil {
		tag(exclusive("minimum", v.ExclusiveMinimum), *v.Minimum)
	}
	if v.Maximum != nil {
		tag(exclusive("maximum", v.ExclusiveMaximum), *v.Maximum)
	}
	if v.MultipleOf != nil {
		tag("multipleOf", *v.MultipleOf)
	}
	for _, limit := range []struct {
		name  string
		value *int64
	}{
		{"minLength", v.MinLength}, {"maxLength", v.MaxLength}, {"minItems", v.MinItems}, {"maxItems", v.MaxItems},
		{"minProperties", v.MinProperties}, {"maxProperties", v.MaxProperties},
	} {
		if limit.value != nil {
			tag(limit.name, *limit.value)
		}
	}
	if v.UniqueItems {
		tag("uniqueItems", true)
	}
	if v.Pattern != "" {
		tag("pattern", v.Pattern)
	}
}

// comment writes a doc comment. The text cannot end the comment.
func (w *writer) comment(indent, text string) {
	lines := generate.CommentLines(text)
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "%s/**\n", indent)
	for _, line := range lines {
		line = strings.ReplaceAll(line, "*/", `*\/`)
		w.WriteString(strings.TrimRight(indent+" * "+line, " ") + "\n")
	}
	fmt.Fprintf(w, "%s */\n", indent)
}

// literal returns a JSON value as TypeScript.
func literal(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // a value that was decoded from JSON
	return strings.TrimSuffix(b.String(), "\n")
}
