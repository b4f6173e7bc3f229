package yamledit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// style describes how a document is written.
type style struct {
	// indent is the indentation of entries below their mapping's key, dash that of the dashes
	// of a list.
	indent, dash int
	eol          string
}

// styleOf detects the style of a document from its first collections.
func styleOf(src []byte, root *yamlx.Node) style {
	st := style{indent: 2, eol: "\n"}
	if bytes.Contains(src, []byte("\r\n")) {
		st.eol = "\r\n"
	}
	var indents, dashes bool
	var visit func(n *yamlx.Node)
	visit = func(n *yamlx.Node) {
		if indents && dashes {
			return
		}
		for _, c := range n.Children {
			if c.Keyed && !c.Flow && len(c.Children) > 0 && !sameLine(src, c.Intro, c.Start) {
				by := column(src, c.Start) - column(src, c.KeyStart)
				switch {
				case c.Kind == yamlx.Mapping && !indents:
					st.indent, indents = by, true
				case c.Kind == yamlx.Sequence && !dashes:
					st.dash, dashes = by, true
				}
			}
			visit(c)
		}
	}
	visit(root)
	return st
}

// column returns the number of bytes before an offset on its line.
func column(src []byte, offset int) int {
	c := offset - (bytes.LastIndexByte(src[:offset], '\n') + 1)
	if c == offset && bytes.HasPrefix(src, []byte(bom)) {
		c -= len(bom)
	}
	return c
}

// sameLine reports whether two offsets are on one line.
func sameLine(src []byte, a, b int) bool {
	return bytes.IndexByte(src[min(a, b):max(a, b)], '\n') < 0
}

// fragment is the text of a value that can follow any colon or dash.
type fragment struct {
	// first is on the line of the key, rest on the lines below, indented relative to the key.
	first string
	rest  []string
	// by is the indentation of a block collection in rest; first is then empty.
	by int
	// head holds the comments above the key, tail the comment after first.
	head []string
	tail string
	// json is the value, for use in braces or brackets.
	json []byte
	// lines is set if the value was written on several lines and should stay so.
	lines bool
}

// below reports whether the value is a block collection on the lines below its key.
func (f *fragment) below() bool { return f.first == "" && len(f.rest) > 0 }

// entry returns the lines of a mapping's entry.
func (f *fragment) entry(key string) []string {
	return append(append(append([]string{}, f.head...), key+":"+f.behind()), f.rest...)
}

// behind returns the text after the colon on its line.
func (f *fragment) behind() string {
	s := ""
	if f.first != "" {
		s += " " + f.first
	}
	if f.tail != "" {
		s += " " + f.tail
	}
	return s
}

// item returns the lines of a list's item.
func (f *fragment) item() []string {
	lines := append([]string{}, f.head...)
	if !f.below() {
		return append(append(lines, "-"+f.behind()), f.rest...)
	}
	rest := f.rest
	if f.tail != "" {
		lines = append(lines, f.tail)
	}
	for i, l := range shift(rest, 2-f.by) {
		if i == 0 {
			l = "- " + strings.TrimLeft(l, " ")
		}
		lines = append(lines, l)
	}
	return lines
}

// shift indents lines by n, or unindents them by -n. Empty lines stay empty.
func shift(lines []string, n int) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		switch {
		case strings.TrimSpace(l) == "":
			// Blank lines of block scalars may be wider than their indentation.
			if n > 0 && len(l) > 0 {
				l = strings.Repeat(" ", n) + l
			} else if n < 0 {
				l = strings.TrimPrefix(l, strings.Repeat(" ", min(-n, len(l))))
			}
			out[i] = l
		case n >= 0:
			out[i] = strings.Repeat(" ", n) + l
		default:
			have := len(l) - len(strings.TrimLeft(l, " "))
			out[i] = l[min(-n, have):]
		}
	}
	return out
}

// fragmentOf writes a JSON text in the document's style.
func (st style) fragmentOf(text []byte) *fragment {
	return st.write(text, valueNodes(text))
}

// write writes the node n of a JSON text.
func (st style) write(text []byte, n *yamlx.Node) *fragment {
	f := &fragment{json: text[n.Start:n.End]}
	switch {
	case n.Kind == yamlx.Mapping && len(n.Children) == 0:
		f.first = "{}"
	case n.Kind == yamlx.Sequence && len(n.Children) == 0:
		f.first = "[]"
	case n.Kind == yamlx.Mapping:
		f.by = st.indent
		for _, c := range n.Children {
			f.rest = append(f.rest, shift(st.write(text, c).entry(ScalarText(c.Key, false)), f.by)...)
		}
	case n.Kind == yamlx.Sequence:
		f.by = st.dash
		for _, c := range n.Children {
			f.rest = append(f.rest, shift(st.write(text, c).item(), f.by)...)
		}
	default:
		if s, ok := n.Text(); ok {
			st.writeString(f, s)
		} else {
			f.first = string(n.JSON)
		}
	}
	return f
}

// wrap puts f into a mapping with one entry, or, with the token "-", into a list with one
// item.
func (st style) wrap(f *fragment, token string) *fragment {
	if token == "-" {
		return &fragment{rest: shift(f.item(), st.dash), by: st.dash, json: slices.Concat([]byte{'['}, f.json, []byte{']'})}
	}
	json := append(jsonx.AppendString([]byte{'{'}, token), ':')
	return &fragment{rest: shift(f.entry(ScalarText(token, false)), st.indent), by: st.indent,
		json: slices.Concat(json, f.json, []byte{'}'})}
}

// writeString writes a string into f, as a block scalar if it has several lines.
func (st style) writeString(f *fragment, s string) {
	body := strings.TrimSuffix(s, "\n")
	if !strings.Contains(body, "\n") || !literal(body) {
		f.first = ScalarText(s, false)
		return
	}
	f.first = "|"
	if body == s {
		f.first = "|-"
	}
	for _, l := range strings.Split(body, "\n") {
		if l != "" {
			l = strings.Repeat(" ", st.indent) + l
		}
		f.rest = append(f.rest, l)
	}
}

// literal reports whether a text of several lines can be written as a literal block scalar.
func literal(s string) bool {
	if s == "" || s[0] == ' ' || s[0] == '\n' || strings.HasSuffix(s, "\n") {
		return false
	}
	for l := range strings.SplitSeq(s, "\n") {
		if l != strings.TrimRight(l, " \t") || strings.HasPrefix(l, "\t") {
			return false
		}
	}
	return yamlx.Regular([]byte(s)) && !strings.ContainsAny(s, "\r")
}

// marshal writes a value as JSON text without escaping HTML characters.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("the value has no JSON form: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// ScalarText writes a string as a scalar on one line, plain if possible.
func ScalarText(s string, flow bool) string {
	if plainSafe(s, flow) {
		return s
	}
	out := []byte{'"'}
	for _, r := range s {
		if r >= 0x20 && r < 0x7f || r >= 0xa0 && r != '\u2028' && r != '\u2029' && r != '\ufeff' && r < 0xfffe || r > 0xffff {
			out = jsonx.AppendEscaped(out, string(r))
		} else if r < 0x20 {
			out = jsonx.AppendEscaped(out, string(r))
		} else {
			out = fmt.Appendf(out, "\\u%04x", r)
		}
	}
	return string(append(out, '"'))
}

// plainSafe reports whether every YAML parser reads the plain scalar s as the string s.
func plainSafe(s string, flow bool) bool {
	if s == "" || len(s) > yamlx.MaxKey || strings.TrimSpace(s) != s || strings.HasSuffix(s, ":") {
		return false
	}
	if strings.ContainsAny(s[:1], "-?:,[]{}#&*!|>'\"%@`=<~") && !(s[0] == '-' && len(s) > 1 && s[1] > ' ' && s[1] != '-') {
		return false
	}
	if _, isString := yamlx.Resolve(s).(string); !isString || strings.ContainsAny(s[:1],
		"0123456789+-") && strings.Trim(s, "0123456789+-.:_ eExobTtZ") == "" {
		return false
	}
	if strings.Contains(s, ": ") || strings.Contains(s, " #") || flow && strings.ContainsAny(s, ",[]{}?:") {
		return false
	}
	return yamlx.Regular([]byte(s)) && !strings.ContainsAny(s, "\t\r\n")
}

// flowText writes JSON text in flow style, with braces and brackets.
func flowText(text []byte) string {
	return string(appendFlow(nil, text, valueNodes(text)))
}

func appendFlow(out, text []byte, n *yamlx.Node) []byte {
	if n.Kind == yamlx.Scalar {
		if s, ok := n.Text(); ok {
			return append(out, ScalarText(s, true)...)
		}
		return append(out, n.JSON...)
	}
	out = append(out, text[n.Start])
	for i, c := range n.Children {
		if i > 0 {
			out = append(out, ", "...)
		}
		if n.Kind == yamlx.Mapping {
			out = append(append(out, ScalarText(c.Key, true)...), ": "...)
		}
		out = appendFlow(out, text, c)
	}
	return append(out, text[n.End-1])
}

// valueNodes returns the nodes of a JSON text. Invalid JSON would be written unchanged, which
// Apply detects.
func valueNodes(text []byte) *yamlx.Node {
	root, err := yamlx.JSONTree(text)
	if err != nil {
		return &yamlx.Node{End: len(text), JSON: text}
	}
	return root
}
