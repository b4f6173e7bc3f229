package yamlx

import (
	"bytes"
	"strings"
	"unicode"

	"espalier.dev/internal/jsonx"
)

// validJSON reports whether src is one JSON value.
func validJSON(src []byte) bool {
	var r jsonx.Reader
	r.Borrow(trimJSON(src))
	return r.Skip() == nil && r.End() == nil
}

// trimJSON removes what may surround a JSON value.
func trimJSON(src []byte) []byte {
	return bytes.TrimSpace(bytes.TrimPrefix(src, bom))
}

// JSONTree returns the nodes of a JSON text.
func JSONTree(src []byte) (*Node, error) {
	text := bytes.TrimLeftFunc(bytes.TrimPrefix(src, bom), unicode.IsSpace)
	b := jsonBuilder{src: src, before: len(src) - len(text)}
	b.r.Borrow(trimJSON(text))
	n, err := b.value()
	if err != nil {
		return nil, err
	}
	return n, b.r.End()
}

// jsonBuilder builds the nodes of a JSON text.
type jsonBuilder struct {
	src []byte
	r   jsonx.Reader
	// before is the number of bytes in src before the text that r reads.
	before int
}

// offset returns the current offset of r in src.
func (b *jsonBuilder) offset() int { return b.before + b.r.Offset() }

func (b *jsonBuilder) value() (*Node, error) {
	c := b.r.Peek()
	n := &Node{Start: b.offset(), First: b.offset()}
	var err error
	switch c {
	case '{':
		n.Flow, n.Kind = true, Mapping
		err = b.r.Members(func(name string) error {
			start, end := b.r.Name()
			// A substring would share memory with the text.
			k := key{name: strings.Clone(name), start: b.before + start, end: b.before + end}
			intro := b.offset()
			v, err := b.value()
			if err != nil {
				return err
			}
			k.give(v)
			v.Intro = intro
			n.Children = append(n.Children, v)
			return nil
		})
	case '[':
		n.Flow, n.Kind = true, Sequence
		err = b.r.Items(func(int) error {
			v, err := b.value()
			n.Children = append(n.Children, v)
			return err
		})
	default:
		err = b.r.Skip()
		n.JSON = b.src[n.Start:b.offset()]
	}
	n.End = b.offset()
	return n, err
}

// unquoted returns the value of a JSON string that is known to be valid.
func unquoted(text []byte) string {
	s, _ := jsonx.Unquote(text)
	return s
}
