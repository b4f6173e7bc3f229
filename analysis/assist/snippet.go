package assist

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"espalier.dev/analysis/explain/sample"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

// part is a piece of a text to insert: literal text, or a placeholder with its default text or
// choices.
type part struct {
	text        string
	placeholder bool
	choices     []string
}

// writer writes the text of an item.
type writer struct {
	parts []part
	// step and dash are the indentation of mappings and lists, eol is the line break.
	step, dash int
	eol        string
	// flow is set in braces, json if all strings have quotes.
	flow, json bool
	// lines limits the length.
	lines int
}

// newWriter returns a writer in the style of the document around a place.
func newWriter(p *Place) *writer {
	return &writer{step: p.Step, dash: p.Dash, eol: p.EOL, flow: p.Flow, json: p.JSON, lines: maxLines}
}

const (
	// maxLines limits the lines of a snippet, maxNested the depth of the required fields in it.
	maxLines  = 60
	maxNested = 8
)

func (w *writer) write(text string) *writer {
	w.parts = append(w.parts, part{text: text})
	return w
}

func (w *writer) placeholder(text string, choices ...string) *writer {
	w.parts = append(w.parts, part{text: text, placeholder: true, choices: choices})
	return w
}

// line begins a line in a column.
func (w *writer) line(col int) *writer {
	w.lines--
	return w.write(w.eol + strings.Repeat(" ", col))
}

// key writes a key and its colon.
func (w *writer) key(name string) *writer {
	if w.json {
		return w.write(string(jsonx.AppendString(nil, name)) + ":")
	}
	return w.write(yamledit.ScalarText(name, w.flow) + ":")
}

// literal returns the text of a scalar.
func (w *writer) literal(v any) string { return literal(v, w.flow, w.json) }

// literal returns the text of a value: a scalar, or a collection in braces or brackets.
func literal(v any, flow, json bool) string {
	if s, ok := v.(string); ok && !json {
		return yamledit.ScalarText(s, flow)
	}
	text, err := jsonx.Append(nil, v)
	if err != nil {
		return "null"
	}
	return string(text)
}

// value writes the value of an entry whose key is in a column.
func (w *writer) value(s *schema.Structural, col, depth int) {
	if w.flow {
		switch shapeOf(s) {
		case objectShape, mapShape:
			w.write(" {").placeholder("").write("}")
		case listShape:
			w.write(" [").placeholder("").write("]")
		default:
			w.write(" ")
			w.scalar(s)
		}
		return
	}
	switch shapeOf(s) {
	case objectShape:
		w.line(col + w.step)
		w.fields(s, requiredFields(s), col+w.step, depth)
	case mapShape:
		w.line(col + w.step).placeholder("key").write(":")
		w.value(s.AdditionalProperties.Structural, col+w.step, depth-1)
	case listShape:
		w.line(col + w.dash).write("- ")
		w.item(s.Items, nil, col+w.dash+2, depth)
	default:
		w.write(" ")
		w.scalar(s)
	}
}

// fields writes entries, the first of which is at the current position.
func (w *writer) fields(s *schema.Structural, names []string, col, depth int) {
	if depth <= 0 || w.lines <= 0 || len(names) == 0 {
		w.placeholder("")
		return
	}
	for i, name := range names {
		if i > 0 {
			w.line(col)
		}
		w.key(name)
		w.value(s.Properties[name], col, depth-1)
	}
}

// item writes an item of a list in a column, after its dash. keys are the list-map keys.
func (w *writer) item(s *schema.Structural, keys []string, col, depth int) {
	switch shapeOf(s) {
	case objectShape:
		names := slices.Clone(keys)
		for _, name := range requiredFields(s) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		w.fields(s, names, col, depth)
	case mapShape:
		w.placeholder("key").write(":")
		w.value(s.AdditionalProperties.Structural, col, depth-1)
	case listShape:
		w.write("- ")
		w.item(s.Items, nil, col+2, depth-1)
	default:
		w.scalar(s)
	}
}

// scalar writes a placeholder for a scalar.
func (w *writer) scalar(s *schema.Structural) {
	if s == nil {
		w.placeholder("")
		return
	}
	var texts []string
	for _, v := range fixedValues(s) {
		texts = append(texts, w.literal(v))
	}
	switch {
	case len(texts) > 1:
		w.placeholder(texts[0], texts...)
	case len(texts) == 1:
		w.placeholder(texts[0])
	case s.Type == "string" && (s.ValueValidation == nil || s.ValueValidation.Pattern == "" && s.ValueValidation.Format == ""):
		if w.json {
			w.write(`"`).placeholder("").write(`"`)
			return
		}
		w.placeholder("")
	case s.Type == "" && !s.XIntOrString:
		w.placeholder("")
	default:
		w.placeholder(w.literal(sample.Value(s)))
	}
}

// render returns the text to insert. It is a snippet if it has a placeholder that is not empty at
// its end.
func (w *writer) render() (text string, snippet bool) {
	parts := w.parts
	if n := len(parts); n > 0 && parts[n-1].placeholder && parts[n-1].text == "" && !slices.ContainsFunc(parts[:n-1], func(p part) bool { return p.placeholder }) {
		parts = parts[:n-1] // the cursor is there anyway
	}
	snippet = slices.ContainsFunc(parts, func(p part) bool { return p.placeholder })
	var b strings.Builder
	n := 0
	for _, p := range parts {
		switch {
		case !snippet:
			b.WriteString(p.text)
		case !p.placeholder:
			b.WriteString(escapeSnippet(p.text))
		default:
			n++
			switch {
			case len(p.choices) > 1:
				fmt.Fprintf(&b, "${%d|%s|}", n, strings.Join(escapeChoices(p.choices), ","))
			case p.text != "":
				fmt.Fprintf(&b, "${%d:%s}", n, escapeSnippet(p.text))
			default:
				fmt.Fprintf(&b, "$%d", n)
			}
		}
	}
	return b.String(), snippet
}

// plain returns the text with the defaults of all placeholders.
func (w *writer) plain() string {
	var b strings.Builder
	for _, p := range w.parts {
		b.WriteString(p.text)
	}
	return b.String()
}

func escapeSnippet(text string) string {
	return strings.NewReplacer(`\`, `\\`, `$`, `\$`, `}`, `\}`).Replace(text)
}

func escapeChoices(choices []string) []string {
	out := make([]string, len(choices))
	for i, c := range choices {
		out[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`, `|`, `\|`).Replace(c)
	}
	return out
}

// shape is how a value is written.
type shape uint8

const (
	scalarShape shape = iota
	objectShape
	mapShape
	listShape
)

// shapeOf returns the shape of the values of a schema.
func shapeOf(s *schema.Structural) shape {
	switch {
	case s == nil || s.XIntOrString:
		return scalarShape
	case s.Type == "array" || s.Type == "" && s.Items != nil:
		return listShape
	case len(s.Properties) > 0:
		return objectShape
	case s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil:
		return mapShape
	case s.Type == "object":
		return objectShape
	}
	return scalarShape
}

// requiredFields returns the specified fields that an object must have and that are not defaulted.
func requiredFields(s *schema.Structural) (names []string) {
	if s.ValueValidation != nil {
		for _, name := range s.ValueValidation.Required {
			if prop := s.Properties[name]; prop != nil && (prop.Default == nil || prop.Default.Value == nil) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if s.XEmbeddedResource {
		for i, name := range []string{"apiVersion", "kind"} {
			if s.Properties[name] != nil && !slices.Contains(names, name) {
				names = slices.Insert(names, min(i, len(names)), name)
			}
		}
	}
	return names
}

// sortedFields returns the names of the fields of an object.
func sortedFields(s *schema.Structural) []string { return slices.Sorted(maps.Keys(s.Properties)) }
