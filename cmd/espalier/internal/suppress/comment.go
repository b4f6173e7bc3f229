package suppress

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamlx"
)

// Marker starts the text of a comment that suppresses findings.
const Marker = "espalier:ignore"

// comment is a comment that suppresses findings.
type comment struct {
	file string
	at   yamlx.Position
	// source is the line of the comment.
	source input.Excerpt
	// first and last are the lines that it applies to.
	first, last int
	rules       []string
	// used is set for the rules that have suppressed a finding.
	used []bool
	// problems describe what is wrong with the comment.
	problems []string
}

// comments returns the comments of a document that suppress findings. A document without the
// Marker costs one search.
func comments(doc *yamlx.Document, file string, rules func() config.Rules) (all []*comment) {
	src := doc.Source()
	if !bytes.Contains(src, []byte(Marker)) || doc.IsJSON() {
		return nil
	}
	nodes := flatten(nil, doc.Nodes())
	known := rules()
	var below lines
	for offset := 0; ; {
		i := bytes.Index(src[offset:], []byte(Marker))
		if i < 0 {
			return all
		}
		i += offset
		offset = yamlx.LineEnd(src, i)
		start, alone, ok := commentStart(src, i)
		// next is the first entry or item after the comment.
		next := sort.Search(len(nodes), func(i int) bool { return nodes[i].EntryStart() > start })
		if !ok || next > 0 && inScalar(nodes[next-1], start) {
			continue
		}
		line, column := doc.LineColumn(start)
		_, end := doc.LineColumn(offset)
		c := &comment{file: file, at: yamlx.Position{Line: line, Column: column, EndLine: line,
			EndColumn: end, Offset: start, EndOffset: offset}, first: line, last: line}
		c.source = input.ExcerptAt(doc, c.at)
		c.parse(string(src[i+len(Marker):offset]), known)
		if alone {
			c.first, c.last = below.of(doc, nodes, next)
		}
		all = append(all, c)
	}
}

// commentStart returns the offset of the comment whose text starts at i, and whether it is
// alone on its line.
func commentStart(src []byte, i int) (start int, alone, ok bool) {
	line := bytes.LastIndexByte(src[:i], '\n') + 1
	before := bytes.TrimRight(src[line:i], " \t#")
	start = line + len(before)
	for start < i && src[start] != '#' {
		start++
	}
	if start == i || len(before) > 0 && src[start-1] != ' ' && src[start-1] != '\t' {
		return 0, false, false
	}
	return start, len(before) == 0, true
}

// flatten appends the entries and items of a tree in the order of the text, without the root.
func flatten(nodes []*yamlx.Node, n *yamlx.Node) []*yamlx.Node {
	for _, c := range n.Children {
		nodes = flatten(append(nodes, c), c)
	}
	return nodes
}

// inScalar reports whether an offset is inside the key or the string of n, where # starts no
// comment. n is the last node that starts at the offset or before it.
func inScalar(n *yamlx.Node, offset int) bool {
	return n.Kind == yamlx.Scalar && n.Start <= offset && offset < n.End || n.Keyed && n.KeyStart <= offset && offset < n.KeyEnd
}

// lines holds the lines of the last entry or item that a comment was above, because many
// comments can be above the same one.
type lines struct {
	node        *yamlx.Node
	first, last int
}

// of returns the lines of the entry or item with the given index, or zeros if there is none.
func (l *lines) of(doc *yamlx.Document, nodes []*yamlx.Node, index int) (first, last int) {
	if index == len(nodes) {
		return 0, 0
	}
	if n := nodes[index]; n != l.node {
		l.node = n
		start := n.EntryStart()
		l.first, _ = doc.LineColumn(start)
		l.last, _ = doc.LineColumn(max(start, lastOffset(n)))
	}
	return l.first, l.last
}

// lastOffset returns the last offset of a node. Only ends of scalars are certain.
func lastOffset(n *yamlx.Node) int {
	last := max(n.End-1, n.Start)
	for _, c := range n.Children {
		last = max(last, lastOffset(c))
	}
	return last
}

// parse parses the text after the Marker: rules, --, and the reason.
func (c *comment) parse(text string, known config.Rules) {
	if text != "" && strings.TrimLeft(text, " \t\r") == text {
		c.problems = append(c.problems, fmt.Sprintf("unknown comment %s%s: did you mean %s?", Marker, strings.Fields(text)[0], Marker))
		return
	}
	rules, reason, _ := strings.Cut(text, "--")
	for _, rule := range strings.Split(rules, ",") {
		rule = strings.TrimSpace(rule)
		switch message, ok := known.Known(rule); {
		case rule == "" || rule == config.All:
			c.problems = append(c.problems, "the comment names no rule: write # "+Marker+" RULE -- reason")
		case strings.ContainsAny(rule, " \t"):
			c.problems = append(c.problems, "the rules and the reason are not separated: write # "+Marker+" RULE -- reason")
		case !ok:
			c.problems = append(c.problems, message)
		default:
			c.rules = append(c.rules, rule)
		}
	}
	c.used = make([]bool, len(c.rules))
	if strings.TrimSpace(reason) == "" && len(c.problems) == 0 {
		c.problems = append(c.problems, "the comment gives no reason: write # "+Marker+" RULE -- reason")
	}
}

// match reports whether a comment applies to findings of a rule on a line, and remembers it.
func (c *comment) match(rule string, line int) bool {
	if line < c.first || line > c.last {
		return false
	}
	for i, pattern := range c.rules {
		if config.MatchRule(pattern, rule) {
			c.used[i] = true
			return true
		}
	}
	return false
}
