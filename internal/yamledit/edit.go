package yamledit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// Op is the operation of an Edit.
type Op string

// The operations.
const (
	// Set sets the value at Pointer. It replaces the value, or adds an entry at the end of
	// its mapping, with any missing parents. The token "-" appends to a list.
	Set Op = "set"
	// Remove removes the entry or item at Pointer. An emptied collection becomes {} or [].
	Remove Op = "remove"
	// Rename changes the key of the entry at Pointer to To.
	Rename Op = "rename"
	// Move moves the value at Pointer with its comments to the pointer To, which refers to
	// the document without the value.
	Move Op = "move"
	// Copy is Move, but keeps the original.
	Copy Op = "copy"
)

// Edit is one change of a document.
type Edit struct {
	Op      Op     `json:"op"`
	Pointer string `json:"pointer"`
	To      string `json:"to,omitempty"`
	Value   any    `json:"value,omitempty"`
}

// Apply returns the text of the document after the edits. They are applied in order, and the
// pointers of each refer to the result of the previous one. Comments, order, quoting and
// indentation of all other text stay unchanged.
//
// Apply returns an error if the value of the resulting text is not the edited value.
func Apply(d *yamlx.Document, edits ...Edit) ([]byte, error) {
	return ApplyWithin(context.Background(), maxResult, d, edits...)
}

// maxResult is the maximum size of what Apply returns: copies can double a text again and again.
const maxResult = 1 << 30

// ApplyWithin is like [Apply]. It fails when ctx ends, and if the text would be larger than limit.
func ApplyWithin(ctx context.Context, limit int, d *yamlx.Document, edits ...Edit) ([]byte, error) {
	text, err := d.JSON()
	if err != nil {
		return nil, err
	}
	want, err := jsonx.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot edit: %w", err)
	}
	root, err := d.Tree()
	if inexact, ok := errors.AsType[*yamlx.Error](err); ok {
		return nil, &yamlx.Error{Line: inexact.Line, Column: inexact.Column, Message: "cannot edit a document that has " + inexact.Message}
	}
	if err != nil {
		return nil, err
	}
	ed := editor{src: d.Source(), json: d.IsJSON(), root: root, st: styleOf(d.Source(), root)}
	for _, e := range edits {
		c, err := e.compile()
		if err == nil {
			want, err = c.onValue(want)
		}
		if err == nil {
			err = ed.apply(c)
		}
		if err == nil && len(ed.src) > limit {
			err = fmt.Errorf("the result would have more than %d bytes", limit)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot %s %s: %w", e.Op, e.Pointer, err)
		}
	}
	after, err := yamlx.NewReader(bytes.NewReader(ed.src), yamlx.Options{MaxDocument: len(ed.src)}).Next()
	if err != nil || len(after.Source()) != len(ed.src) {
		return nil, errors.New("cannot edit: the result would not be one document")
	}
	if text, err = after.JSON(); err != nil {
		return nil, fmt.Errorf("cannot edit: the result cannot be read: %w", err)
	}
	if got, err := jsonx.Parse(text); err != nil || !reflect.DeepEqual(got, want) {
		return nil, errors.New("cannot edit: the result would have a different value; the text may be shared through anchors or duplicate keys")
	}
	return ed.src, nil
}

// change is a checked Edit.
type change struct {
	op       Op
	path, to []string
	// text is the value to set as JSON, value the same as a tree.
	text  []byte
	value any
}

func (e Edit) compile() (c change, err error) {
	c.op = e.Op
	if c.path, err = jsonptr.Parse(e.Pointer); err != nil {
		return c, err
	}
	switch e.Op {
	case Set:
		if c.text, err = marshal(e.Value); err != nil {
			return c, err
		}
		if c.value, err = jsonx.Parse(c.text); err != nil {
			return c, fmt.Errorf("invalid value: %w", err)
		}
	case Remove:
		if len(c.path) == 0 {
			return c, errors.New("the whole document cannot be removed")
		}
	case Rename:
		if len(c.path) == 0 {
			return c, errors.New("the whole document cannot be renamed")
		}
		c.to = append(slices.Clone(c.path[:len(c.path)-1]), e.To)
	case Move, Copy:
		if c.to, err = jsonptr.Parse(e.To); err != nil {
			return c, err
		}
		if len(c.path) == 0 || len(c.to) >= len(c.path) && slices.Equal(c.to[:len(c.path)], c.path) {
			return c, errors.New("a value cannot be moved or copied into itself")
		}
	default:
		return c, fmt.Errorf("unknown edit %q", e.Op)
	}
	return c, nil
}

// editor applies changes to a text.
type editor struct {
	src  []byte
	json bool
	root *yamlx.Node
	st   style
}

func (ed *editor) apply(c change) error {
	switch c.op {
	case Set:
		return ed.set(c.path, ed.st.fragmentOf(c.text))
	case Remove:
		return ed.remove(c.path)
	case Rename:
		return ed.rename(c.path, c.to[len(c.to)-1])
	}
	f, err := ed.cut(c.path)
	if err != nil {
		return err
	}
	if c.op == Move {
		if err := ed.remove(c.path); err != nil {
			return err
		}
	}
	return ed.set(c.to, f)
}

// splice replaces src[a:b] and parses the new text.
func (ed *editor) splice(a, b int, text string) error {
	ed.src = slices.Concat(ed.src[:a], []byte(text), ed.src[b:])
	if ed.json {
		root, err := yamlx.JSONTree(ed.src)
		if err != nil {
			return errors.New("the result would not be JSON")
		}
		ed.root = root
		return nil
	}
	root, err := yamlx.YAMLTree(ed.src)
	if err != nil {
		return fmt.Errorf("the result could not be read: line %d, column %d: %s", err.Line, err.Column, err.Message)
	}
	ed.root = root
	return nil
}

// spot is a node and its position in the tree.
type spot struct {
	n, parent *yamlx.Node
	// i is the index of n among the parent's children.
	i int
}

// find follows a path as far as it exists, and returns the remaining tokens.
func (ed *editor) find(path []string) (s spot, rest []string, err error) {
	s.n = ed.root
	for k, token := range path {
		if s.n.Kind == yamlx.Alias {
			return s, nil, fmt.Errorf("/%s is an alias: its text is shared with other values", strings.Join(path[:k], "/"))
		}
		i := s.n.Index(token)
		if i < 0 {
			if s.n.Kind == yamlx.Mapping && s.n.Entry(token) != nil {
				return s, nil, fmt.Errorf("/%s is merged from another mapping", strings.Join(path[:k+1], "/"))
			}
			return s, path[k:], nil
		}
		s = spot{n: s.n.Children[i], parent: s.n, i: i}
	}
	return s, nil, nil
}

// existing is find for a value that must exist.
func (ed *editor) existing(path []string) (spot, error) {
	s, rest, err := ed.find(path)
	if err == nil && len(rest) > 0 {
		err = errors.New("no such value")
	}
	return s, err
}

// rename replaces the key of an entry.
func (ed *editor) rename(path []string, name string) error {
	s, err := ed.existing(path)
	if err != nil {
		return err
	}
	if !s.n.Keyed {
		return errors.New("only entries of mappings can be renamed")
	}
	text := ScalarText(name, s.parent.Flow)
	switch old := ed.src[s.n.KeyStart]; {
	case ed.json || old == '"' && text[0] != '"':
		text = string(jsonx.AppendString(nil, name))
	case old == '\'' && text[0] != '"':
		text = "'" + strings.ReplaceAll(name, "'", "''") + "'"
	}
	return ed.splice(s.n.KeyStart, s.n.KeyEnd, text)
}

// bom is the byte order mark in UTF-8.
const bom = "\ufeff"

// contentEnd returns the end of the line of i, without its line break.
func contentEnd(src []byte, i int) int {
	end := yamlx.LineEnd(src, i)
	if end > i && src[end-1] == '\r' {
		end--
	}
	return end
}

// lineStart returns the start of the line of i.
func lineStart(src []byte, i int) int {
	s := bytes.LastIndexByte(src[:i], '\n') + 1
	if s == 0 && bytes.HasPrefix(src[:i], []byte(bom)) {
		s = len(bom)
	}
	return s
}
