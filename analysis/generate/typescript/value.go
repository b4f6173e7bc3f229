package typescript

import (
	"fmt"
	"slices"
	"strings"

	"espalier.dev/analysis/generate"
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
	for _, value := range v.Schema.ValueValidation.Enum {
		switch value.Value.(type) {
		case []any, map[string]any:
			return nil
		}
		if text := generate.JSONText(value.Value); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
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
