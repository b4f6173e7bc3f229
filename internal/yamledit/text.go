package yamledit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// remove removes the entry or item at a path.
func (ed *editor) remove(path []string) error {
	s, err := ed.existing(path)
	if err != nil {
		return err
	}
	switch {
	case s.parent.Flow:
		return ed.removeFlow(s)
	case len(s.parent.Children) == 1:
		empty := "{}"
		if s.parent.Kind == yamlx.Sequence {
			empty = "[]"
		}
		parent, err := ed.existing(path[:len(path)-1])
		if err != nil {
			return err
		}
		return ed.replace(parent, &fragment{first: empty, json: []byte(empty)})
	}
	return ed.removeLines(s)
}

// removeFlow removes an entry or item in braces or brackets, and a comma.
func (ed *editor) removeFlow(s spot) error {
	all := s.parent.Children
	switch {
	case len(all) == 1:
		return ed.splice(s.parent.Start+1, s.parent.End-1, "")
	case s.i+1 < len(all):
		return ed.splice(s.n.EntryStart(), all[s.i+1].EntryStart(), "")
	}
	before := all[s.i-1]
	if before.Start == before.End {
		// The colon of an empty value needs a space.
		return ed.splice(before.End, s.n.End, " ")
	}
	return ed.splice(before.End, s.n.End, "")
}

// removeLines removes the lines of an entry or item in block style, and the comments directly
// above it.
func (ed *editor) removeLines(s spot) error {
	src, start := ed.src, s.n.EntryStart()
	if from := lineStart(src, start); blank(src[from:start]) {
		to := min(yamlx.LineEnd(src, s.n.End)+1, len(src))
		return ed.splice(ed.headStart(s), to, "")
	}
	// The entry is the first one, on the line of a dash: the next entry takes its place.
	to := s.parent.Children[1].EntryStart()
	after := min(yamlx.LineEnd(src, s.n.End)+1, to)
	if between := bytes.TrimLeft(src[after:to], " \t\r\n"); len(between) > 0 {
		to -= len(between)
	}
	return ed.splice(start, to, "")
}

func blank(text []byte) bool { return len(bytes.TrimLeft(text, " ")) == 0 }

// headStart returns the start of an entry or item, including the comments directly above it.
// A comment above the first entry of the document belongs to the document.
func (ed *editor) headStart(s spot) int {
	src, start := ed.src, s.n.EntryStart()
	from := lineStart(src, start)
	if s.i == 0 && s.parent == ed.root {
		return from
	}
	least := yamlx.LineEnd(src, s.parent.Intro) + 1
	if s.i > 0 {
		least = yamlx.LineEnd(src, s.parent.Children[s.i-1].End) + 1
	}
	col := column(src, start)
	for from > least {
		above := lineStart(src, from-1)
		line := src[above:from]
		if above < least || len(line) <= col || !blank(line[:col]) || line[col] != '#' {
			break
		}
		from = above
	}
	return from
}

// set puts a fragment at a path.
func (ed *editor) set(path []string, f *fragment) error {
	if f.lines {
		for {
			more, err := ed.unfold(path)
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
	}
	s, rest, err := ed.find(path)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return ed.replace(s, f)
	}
	for i := len(rest) - 1; i > 0; i-- {
		f = ed.st.wrap(f, rest[i])
	}
	n, token := s.n, rest[0]
	switch {
	case n.Kind == yamlx.Scalar && string(n.JSON) == "null":
		return ed.replace(s, ed.st.wrap(f, token))
	case n.Kind == yamlx.Scalar || n.Kind == yamlx.Alias:
		return errors.New("the parent is neither a mapping nor a list")
	case n.Kind == yamlx.Sequence && token != "-" && token != strconv.Itoa(len(n.Children)):
		return fmt.Errorf("the list has %d items: no index %s", len(n.Children), token)
	}
	if n.Kind == yamlx.Sequence {
		token = "-"
	}
	if len(n.Children) == 0 && !ed.json && (s.parent == nil || !s.parent.Flow) {
		return ed.replace(s, ed.st.wrap(f, token))
	}
	if n.Flow {
		return ed.insertFlow(n, token, f)
	}
	lines := f.item()
	if n.Kind == yamlx.Mapping {
		lines = f.entry(ScalarText(token, false))
	}
	last := n.Children[len(n.Children)-1]
	at := contentEnd(ed.src, last.End)
	return ed.splice(at, at, ed.st.eol+ed.join(lines, column(ed.src, n.Children[0].EntryStart())))
}

// join indents lines by col and joins them.
func (ed *editor) join(lines []string, col int) string {
	return strings.Join(shift(lines, col), ed.st.eol)
}

// replace replaces a value with a fragment.
func (ed *editor) replace(s spot, f *fragment) error {
	n, src := s.n, ed.src
	switch {
	case ed.json:
		return ed.splice(n.Start, n.End, ed.jsonText(n.EntryStart(), f.json))
	case s.parent != nil && s.parent.Flow:
		return ed.splice(n.First, n.End, ed.flowIntro(n)+flowText(f.json))
	case s.parent == nil:
		return ed.replaceRoot(n, f)
	}
	// The comment on the line of the key or dash stays.
	end := contentEnd(src, n.End)
	comment := src[n.End:end]
	if !sameLine(src, n.Intro, n.Start) {
		comment = src[n.Intro:contentEnd(src, n.Intro)]
		if n.First < n.Start && n.First < n.Intro+len(comment) {
			comment = nil
		}
	}
	tail := strings.TrimSpace(string(comment))
	if tail == "" {
		tail = f.tail
	}
	g := &fragment{first: f.first, rest: f.rest, by: f.by, tail: tail}
	lines := g.entry("")
	if !n.Keyed {
		if g.below() {
			// The first line of the collection takes the place behind the dash.
			g.tail = ""
		}
		lines = g.item()
		if g.below() && tail != "" {
			lines = append([]string{"- " + tail, "  " + lines[0][2:]}, lines[1:]...)
		}
	}
	text := strings.TrimLeft(ed.join(lines, column(src, n.EntryStart())), " ")
	return ed.splice(n.Intro, end, text[1:])
}

// flowIntro returns the space that a value needs if it replaces an empty one.
func (ed *editor) flowIntro(n *yamlx.Node) string {
	if n.Keyed && n.First == n.Intro {
		return " "
	}
	return ""
}

// replaceRoot replaces the whole value of the document with a fragment.
func (ed *editor) replaceRoot(n *yamlx.Node, f *fragment) error {
	lines := append([]string{f.first}, f.rest...)
	if f.below() {
		lines = shift(f.rest, -f.by)
	}
	if n.Start < n.End {
		col := column(ed.src, n.First)
		return ed.splice(n.First, n.End, strings.TrimLeft(ed.join(lines, col), " "))
	}
	text := ed.join(lines, 0)
	// The document was empty: the value goes to its end, or before its end marker.
	at := n.Start
	if at > 0 && ed.src[at-1] != '\n' {
		text = ed.st.eol + text
	}
	return ed.splice(at, at, text+ed.st.eol)
}

// insertFlow adds an entry or item at the end of a collection in braces or brackets.
func (ed *editor) insertFlow(n *yamlx.Node, token string, f *fragment) error {
	src := ed.src
	write := func(at int) string {
		value, name := flowText(f.json), ScalarText(token, true)
		colon := ": "
		if ed.json {
			value, name = ed.jsonText(at, f.json), string(jsonx.AppendString(nil, token))
			if ed.tight() {
				colon = ":"
			}
		}
		if n.Kind == yamlx.Mapping {
			return name + colon + value
		}
		return value
	}
	if len(n.Children) == 0 {
		if !ed.json || !ed.pretty() {
			return ed.splice(n.Start+1, n.End-1, write(n.Start))
		}
		inner := leading(src, n.Start) + ed.unit()
		value := strings.ReplaceAll(write(n.Start), ed.st.eol, ed.st.eol+ed.unit())
		return ed.splice(n.Start+1, n.End-1, ed.st.eol+inner+value+ed.st.eol+leading(src, n.Start))
	}
	last := n.Children[len(n.Children)-1]
	from := lineStart(src, last.EntryStart())
	sep := ", "
	if lead := src[from:last.EntryStart()]; len(bytes.TrimLeft(lead, " \t")) == 0 && from > 0 {
		sep = "," + ed.st.eol + string(lead)
	} else if ed.json && ed.tight() {
		sep = ","
	}
	if last.Start == last.End {
		// The colon of an empty value needs a space.
		sep = " null" + sep
	}
	return ed.splice(last.End, last.End, sep+write(last.EntryStart()))
}

// leading returns the white space at the start of the line of i.
func leading(src []byte, i int) string {
	from := lineStart(src, i)
	return string(src[from : from+len(src[from:i])-len(bytes.TrimLeft(src[from:i], " \t"))])
}

// pretty reports whether a JSON document is written on several lines.
func (ed *editor) pretty() bool {
	return bytes.IndexByte(ed.src[ed.root.Start:ed.root.End], '\n') >= 0
}

// tight reports whether a JSON document is written without spaces.
func (ed *editor) tight() bool {
	cs := ed.root.Children
	return len(cs) > 0 && cs[0].Intro > 0 && bytes.IndexByte([]byte(" \t\r\n"), ed.src[cs[0].Intro]) < 0
}

// unit returns the indentation of one level of a JSON document.
func (ed *editor) unit() string {
	if len(ed.root.Children) > 0 {
		if unit := leading(ed.src, ed.root.Children[0].EntryStart()); unit != "" {
			return unit
		}
	}
	return "  "
}

// jsonText formats JSON text in the style of the document, for the line of i.
func (ed *editor) jsonText(i int, text []byte) string {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	if ed.pretty() {
		b.Reset()
		err = json.Indent(&b, text, leading(ed.src, i), ed.unit())
	}
	if err != nil {
		return string(text)
	}
	return strings.ReplaceAll(b.String(), "\n", ed.st.eol)
}

// cut returns the text of a value with its comments, for use at another position.
func (ed *editor) cut(path []string) (*fragment, error) {
	s, err := ed.existing(path)
	if err != nil {
		return nil, err
	}
	n, src := s.n, ed.src
	if ed.json {
		return &fragment{json: src[n.Start:n.End]}, nil
	}
	value, ok := n.Value(yamlx.DefaultMaxDocument)
	if !ok {
		return nil, errors.New("its aliases expand beyond the size limit")
	}
	if s.parent.Flow {
		return ed.st.fragmentOf(value), nil
	}
	f := &fragment{json: value}
	col := column(src, n.EntryStart())
	end := contentEnd(src, n.End)
	if from := lineStart(src, n.EntryStart()); blank(src[from:n.EntryStart()]) {
		f.head = ed.dedent(src[ed.headStart(s):from], col)
	}
	switch {
	case n.Kind != yamlx.Scalar && !n.Flow && n.Kind != yamlx.Alias && n.First == n.Start && sameLine(src, n.Intro, n.Start):
		// A collection on the line of a dash.
		f.by = ed.st.indent
		if n.Kind == yamlx.Sequence {
			f.by = ed.st.dash
		}
		lines := ed.dedent(append(bytes.Repeat([]byte{' '}, column(src, n.Start)), src[n.Start:end]...), column(src, n.Start))
		f.rest = shift(lines, f.by)
	case sameLine(src, n.Intro, n.First) && n.First < n.End:
		lines := ed.dedent(src[n.First:end], col)
		// The first line had no indentation to lose.
		f.first = string(src[n.First:min(contentEnd(src, n.First), end)])
		f.rest = lines[1:]
	default:
		f.tail = strings.TrimSpace(string(src[n.Intro:contentEnd(src, n.Intro)]))
		if n.Start < n.End {
			f.rest = ed.dedent(src[yamlx.LineEnd(src, n.Intro)+1:end], col)
			f.by = column(src, n.Start) - col
		}
	}
	f.lines = f.below()
	return f, nil
}

// unfold rewrites the first collection in braces or brackets on the path in block style, so
// that values on several lines fit. It reports whether there is one.
func (ed *editor) unfold(path []string) (bool, error) {
	for k := 1; k < len(path); k++ {
		s, rest, err := ed.find(path[:k])
		if err != nil || len(rest) > 0 {
			return false, nil // the caller's own lookup returns the error
		}
		n := s.n
		if !n.Flow || s.parent.Flow || len(n.Children) == 0 {
			continue
		}
		text := ed.src[n.Start:n.End]
		if n.First < n.Start || bytes.ContainsAny(text, "#\n") {
			return false, nil // comments, anchors and tags cannot be kept
		}
		f := &fragment{by: ed.st.indent}
		if n.Kind == yamlx.Sequence {
			f.by = ed.st.dash
		}
		for _, c := range n.Children {
			part := fragment{first: string(ed.src[c.First:c.End])}
			lines := part.item()
			if n.Kind == yamlx.Mapping {
				lines = part.entry(string(ed.src[c.KeyStart:c.KeyEnd]))
			}
			f.rest = append(f.rest, shift(lines, f.by)...)
		}
		return true, ed.replace(s, f)
	}
	return false, nil
}

// dedent splits a text into lines and unindents them by col.
func (ed *editor) dedent(text []byte, col int) []string {
	if len(text) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return shift(lines, -col)
}
