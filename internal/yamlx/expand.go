package yamlx

import (
	"bytes"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
)

// CheckExpanded returns an error if the aliases in the first document of src expand its value to
// more than limit bytes of JSON. It expands nothing itself: a value of 100 KB with 90,000 aliases
// has 9 GB as JSON. Text that is not YAML has no error here.
func CheckExpanded(src []byte, limit int) error {
	at, verdict := expand(src, limit)
	switch verdict {
	case expandsTooFar:
		return &Error{Line: at.Line, Column: at.Column, Message: tooFar(limit)}
	case unknownExpansion:
		// The decoder reads what the parser that finds aliases does not.
		if unmarshal(src, &unread{}) == nil {
			return &Error{Line: 1, Column: 1,
				Message: "the size of the document with its aliases is unknown: send it without aliases, or as JSON"}
		}
	}
	return nil
}

// tooFar is the problem of a document whose aliases expand it beyond a limit.
func tooFar(limit int) string {
	return fmt.Sprintf("with this alias, the document has more than %d bytes, the limit for documents with their aliases resolved: use fewer aliases, or split the document", limit)
}

// unread is a value that is parsed but not decoded.
type unread struct{}

// UnmarshalYAML decodes nothing.
func (*unread) UnmarshalYAML(func(any) error) error { return nil }

// expansion tells whether aliases expand a document beyond a limit.
type expansion int

const (
	expandsWithin expansion = iota
	expandsTooFar
	unknownExpansion
)

// expand finds the first alias with which the JSON text of a document exceeds the limit.
func expand(src []byte, limit int) (at *yamlv3.Node, _ expansion) {
	if bytes.IndexByte(src, '*') < 0 || validJSON(src) {
		return nil, expandsWithin
	}
	var p parser
	p.reset(src, false)
	if _, ok := p.document(); ok {
		return nil, expandsWithin // it has no aliases
	}
	doc, err := parseV3(src)
	if err != nil {
		return nil, unknownExpansion
	}
	m := measure{limit: limit, anchors: map[*yamlv3.Node]int{}}
	if !m.node(doc) {
		return m.at, expandsTooFar
	}
	return nil, expandsWithin
}

// measure adds up the size of a document in JSON. An anchor precedes its aliases, so one pass is
// enough. An alias inside its own anchor counts nothing: decoders reject it.
type measure struct {
	size, limit int
	// anchors are the sizes of the values with an anchor.
	anchors map[*yamlv3.Node]int
	// at is the alias that exceeds the limit.
	at *yamlv3.Node
}

// node adds a node, and returns false at an alias that exceeds the limit.
func (m *measure) node(n *yamlv3.Node) bool {
	before := m.size
	switch n.Kind {
	case yamlv3.AliasNode:
		if m.size += m.anchors[n.Alias]; m.size > m.limit {
			m.at = n
			return false
		}
	case yamlv3.ScalarNode:
		m.size += jsonSize(n.Value)
	default:
		m.size += len("{}")
		for _, c := range n.Content {
			m.size++ // a colon or a comma
			if !m.node(c) {
				return false
			}
		}
	}
	if n.Anchor != "" {
		m.anchors[n] = m.size - before
	}
	return true
}

// jsonSize returns the size of a JSON string as encoding/json writes it.
func jsonSize(s string) int {
	size := len(s) + len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			size++
		case c < ' ' || c == '<' || c == '>' || c == '&':
			size += len(`\u0000`) - 1
		}
	}
	return size
}
