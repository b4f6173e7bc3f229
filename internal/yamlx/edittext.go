package yamlx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"espalier.dev/internal/jsonx"
)

// remove removes the entry or item at a path.
func (ed *editor) remove(path []string) error {
	s, err := ed.existing(path)
	if err != nil {
		return err
	}
	switch {
	case s.parent.flow:
		return ed.removeFlow(s)
	case len(s.parent.children) == 1:
		empty := "{}"
		if s.parent.kind == sequence {
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

// removeFlow removes an entry or item within braces or brackets, and a comma.
func (ed *editor) removeFlow(s spot) error {
	all := s.parent.children
	switch {
	case len(all) == 1:
		return ed.splice(s.parent.start+1, s.parent.end-1, "")
	case s.i+1 < len(all):
		return ed.splice(s.n.outset(), all[s.i+1].outset(), "")
	}
	before := all[s.i-1]
	if before.start == before.end {
		// The colon of an empty value needs its space.
		return ed.splice(before.end, s.n.end, " ")
	}
	return ed.splice(before.end, s.n.end, "")
}

// outset is where the entry or item of a value starts: at its key, its dash, or itself.
func (n *node) outset() int {
	switch {
	case n.keyed:
		return n.keyStart
	case n.intro > 0:
		return n.intro - 1
	}
	return n.first
}

// removeLines removes the lines of an entry or item in block style, and the comments
// right above it.
func (ed *editor) removeLines(s spot) error {
	src, start := ed.src, s.n.outset()
	if from := lineStart(src, start); blank(src[from:start]) {
		to := min(lineEnd(src, s.n.end)+1, len(src))
		return ed.splice(ed.headStart(s), to, "")
	}
	// It is the first, on the line of a dash: what is next takes its place.
	to := s.parent.children[1].outset()
	after := min(lineEnd(src, s.n.end)+1, to)
	if between := bytes.TrimLeft(src[after:to], " \t\r\n"); len(between) > 0 {
		to -= len(between)
	}
	return ed.splice(start, to, "")
}

func blank(text []byte) bool { return len(bytes.TrimLeft(text, " ")) == 0 }

// headStart is where the lines of an entry or item start, with the comments right
// above it. What is above the first entry of all is about the document.
func (ed *editor) headStart(s spot) int {
	src, start := ed.src, s.n.outset()
	from := lineStart(src, start)
	if s.i == 0 && s.parent == ed.root {
		return from
	}
	least := lineEnd(src, s.parent.intro) + 1
	if s.i > 0 {
		least = lineEnd(src, s.parent.children[s.i-1].end) + 1
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
	case n.kind == scalar && string(n.json) == "null":
		return ed.replace(s, ed.st.wrap(f, token))
	case n.kind == scalar || n.kind == alias:
		return errors.New("it is below a value that is neither a mapping nor a list")
	case n.kind == sequence && token != "-" && token != strconv.Itoa(len(n.children)):
		return fmt.Errorf("the list has %d items: there is no place %s", len(n.children), token)
	}
	if n.kind == sequence {
		token = "-"
	}
	if len(n.children) == 0 && !ed.json && (s.parent == nil || !s.parent.flow) {
		return ed.replace(s, ed.st.wrap(f, token))
	}
	if n.flow {
		return ed.insertFlow(n, token, f)
	}
	lines := f.item()
	if n.kind == mapping {
		lines = f.entry(scalarText(token, false))
	}
	last := n.children[len(n.children)-1]
	at := contentEnd(ed.src, last.end)
	return ed.splice(at, at, ed.st.eol+ed.join(lines, column(ed.src, n.children[0].outset())))
}

// join indents lines by col and makes a text of them.
func (ed *editor) join(lines []string, col int) string {
	return strings.Join(shift(lines, col), ed.st.eol)
}

// replace puts a fragment in the place of a value.
func (ed *editor) replace(s spot, f *fragment) error {
	n, src := s.n, ed.src
	switch {
	case ed.json:
		return ed.splice(n.start, n.end, ed.jsonText(n.outset(), f.json))
	case s.parent != nil && s.parent.flow:
		return ed.splice(n.first, n.end, ed.flowIntro(n)+flowText(f.json))
	case s.parent == nil:
		return ed.replaceRoot(n, f)
	}
	// The comment on the line of the key or dash stays.
	end := contentEnd(src, n.end)
	comment := src[n.end:end]
	if !sameLine(src, n.intro, n.start) {
		comment = src[n.intro:contentEnd(src, n.intro)]
		if n.first < n.start && n.first < n.intro+len(comment) {
			comment = nil
		}
	}
	tail := strings.TrimSpace(string(comment))
	if tail == "" {
		tail = f.tail
	}
	g := &fragment{first: f.first, rest: f.rest, by: f.by, tail: tail}
	lines := g.entry("")
	if !n.keyed {
		if g.below() {
			// The first line of the collection takes the place behind the dash.
			g.tail = ""
		}
		lines = g.item()
		if g.below() && tail != "" {
			lines = append([]string{"- " + tail, "  " + lines[0][2:]}, lines[1:]...)
		}
	}
	text := strings.TrimLeft(ed.join(lines, column(src, n.outset())), " ")
	return ed.splice(n.intro, end, text[1:])
}

// flowIntro is the space that a value needs that takes the place of an empty one.
func (ed *editor) flowIntro(n *node) string {
	if n.keyed && n.first == n.intro {
		return " "
	}
	return ""
}

// replaceRoot makes a fragment the whole value of the document.
func (ed *editor) replaceRoot(n *node, f *fragment) error {
	lines := append([]string{f.first}, f.rest...)
	if f.below() {
		lines = shift(f.rest, -f.by)
	}
	if n.start < n.end {
		col := column(ed.src, n.first)
		return ed.splice(n.first, n.end, strings.TrimLeft(ed.join(lines, col), " "))
	}
	text := ed.join(lines, 0)
	// The document was empty: the value goes to its end, or in front of its end marker.
	at := n.start
	if at > 0 && ed.src[at-1] != '\n' {
		text = ed.st.eol + text
	}
	return ed.splice(at, at, text+ed.st.eol)
}

// insertFlow adds an entry or item at the end of a collection in braces or brackets.
func (ed *editor) insertFlow(n *node, token string, f *fragment) error {
	src := ed.src
	write := func(at int) string {
		value, name := flowText(f.json), scalarText(token, true)
		colon := ": "
		if ed.json {
			value, name = ed.jsonText(at, f.json), string(jsonx.AppendString(nil, token))
			if ed.tight() {
				colon = ":"
			}
		}
		if n.kind == mapping {
			return name + colon + value
		}
		return value
	}
	if len(n.children) == 0 {
		if !ed.json || !ed.pretty() {
			return ed.splice(n.start+1, n.end-1, write(n.start))
		}
		inner := leading(src, n.start) + ed.unit()
		value := strings.ReplaceAll(write(n.start), ed.st.eol, ed.st.eol+ed.unit())
		return ed.splice(n.start+1, n.end-1, ed.st.eol+inner+value+ed.st.eol+leading(src, n.start))
	}
	last := n.children[len(n.children)-1]
	from := lineStart(src, last.outset())
	sep := ", "
	if lead := src[from:last.outset()]; len(bytes.TrimLeft(lead, " \t")) == 0 && from > 0 {
		sep = "," + ed.st.eol + string(lead)
	} else if ed.json && ed.tight() {
		sep = ","
	}
	if last.start == last.end {
		// The colon of an empty value needs its space.
		sep = " null" + sep
	}
	return ed.splice(last.end, last.end, sep+write(last.outset()))
}

// leading is the white space at the start of the line of i.
func leading(src []byte, i int) string {
	from := lineStart(src, i)
	return string(src[from : from+len(src[from:i])-len(bytes.TrimLeft(src[from:i], " \t"))])
}

// pretty says whether a JSON document is written on lines.
func (ed *editor) pretty() bool {
	return bytes.IndexByte(ed.src[ed.root.start:ed.root.end], '\n') >= 0
}

// tight says whether a JSON document is written without spaces.
func (ed *editor) tight() bool {
	cs := ed.root.children
	return len(cs) > 0 && cs[0].intro > 0 && !isBlank(ed.src[cs[0].intro])
}

// unit is what a JSON document is indented with.
func (ed *editor) unit() string {
	if len(ed.root.children) > 0 {
		if unit := leading(ed.src, ed.root.children[0].outset()); unit != "" {
			return unit
		}
	}
	return "  "
}

// jsonText writes JSON text as the document is written, for the line of i.
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

// cut returns the text of a value with its comments, so that it can be put elsewhere.
func (ed *editor) cut(path []string) (*fragment, error) {
	s, err := ed.existing(path)
	if err != nil {
		return nil, err
	}
	n, src := s.n, ed.src
	if ed.json {
		return &fragment{json: src[n.start:n.end]}, nil
	}
	w := treeWriter{limit: DefaultMaxDocument}
	if !w.value(n) {
		return nil, errors.New("its aliases expand to too much")
	}
	if s.parent.flow {
		return ed.st.fragmentOf(w.out), nil
	}
	f := &fragment{json: w.out}
	col := column(src, n.outset())
	end := contentEnd(src, n.end)
	if from := lineStart(src, n.outset()); blank(src[from:n.outset()]) {
		f.head = ed.dedent(src[ed.headStart(s):from], col)
	}
	switch {
	case n.kind != scalar && !n.flow && n.kind != alias && n.first == n.start && sameLine(src, n.intro, n.start):
		// A collection on the line of a dash.
		f.by = ed.st.indent
		if n.kind == sequence {
			f.by = ed.st.dash
		}
		lines := ed.dedent(append(bytes.Repeat([]byte{' '}, column(src, n.start)), src[n.start:end]...), column(src, n.start))
		f.rest = shift(lines, f.by)
	case sameLine(src, n.intro, n.first) && n.first < n.end:
		lines := ed.dedent(src[n.first:end], col)
		// The first line had no indentation to lose.
		f.first = string(src[n.first:min(contentEnd(src, n.first), end)])
		f.rest = lines[1:]
	default:
		f.tail = strings.TrimSpace(string(src[n.intro:contentEnd(src, n.intro)]))
		if n.start < n.end {
			f.rest = ed.dedent(src[lineEnd(src, n.intro)+1:end], col)
			f.by = column(src, n.start) - col
		}
	}
	f.lines = f.below()
	return f, nil
}

// unfold writes the first collection in braces or brackets on the way to a place in
// block style, so that there is room for lines. It says whether there is one.
func (ed *editor) unfold(path []string) (bool, error) {
	for k := 1; k < len(path); k++ {
		s, rest, err := ed.find(path[:k])
		if err != nil || len(rest) > 0 {
			return false, nil // whoever looks for the place says what is wrong
		}
		n := s.n
		if !n.flow || s.parent.flow || len(n.children) == 0 {
			continue
		}
		text := ed.src[n.start:n.end]
		if n.first < n.start || bytes.ContainsAny(text, "#\n") {
			return false, nil // no way to keep comments, anchors and tags where they are
		}
		f := &fragment{by: ed.st.indent}
		if n.kind == sequence {
			f.by = ed.st.dash
		}
		for _, c := range n.children {
			part := fragment{first: string(ed.src[c.first:c.end])}
			lines := part.item()
			if n.kind == mapping {
				lines = part.entry(string(ed.src[c.keyStart:c.keyEnd]))
			}
			f.rest = append(f.rest, shift(lines, f.by)...)
		}
		return true, ed.replace(s, f)
	}
	return false, nil
}

// dedent splits a text into lines that are indented by col less.
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
