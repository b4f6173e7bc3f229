package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// editedDocument is a document of a file and its new text.
type editedDocument struct {
	doc  *input.Document
	text []byte // nil if unchanged
}

// editObjects applies edits to the objects in a document. If a value is shared through
// anchors and must change in one place only, the aliases are expanded.
func editObjects(d *input.Document, edits []analysis.Edit) ([]byte, error) {
	text, err := yamledit.Apply(d.Document, edits...)
	if err == nil {
		return text, nil
	}
	root, treeErr := d.Tree()
	src, jsonErr := d.JSON()
	if treeErr != nil || jsonErr != nil {
		return nil, err
	}
	value, parseErr := jsonx.Parse(src)
	if parseErr != nil {
		return nil, err
	}
	s := sharing{doc: d.Document}
	for _, e := range edits {
		s.changes = append(s.changes, e.Pointer)
		if e.Op == yamledit.Move || e.Op == yamledit.Copy {
			s.changes = append(s.changes, e.To)
		}
	}
	// Expand as few aliases as possible, and all of them if that is not enough.
	for _, s.all = range []bool{false, true} {
		if expanded := s.aliases(root, "", value); len(expanded) > 0 {
			if text, err = yamledit.Apply(d.Document, append(expanded, edits...)...); err == nil {
				return text, nil
			}
		}
	}
	return nil, err
}

// sharing finds the aliases that keep a document from being edited.
type sharing struct {
	doc *yamlx.Document
	// changes are pointers to the values that change.
	changes []string
	// all is set if all aliases are expanded.
	all bool
}

// aliases returns the edits that expand the aliases in the value of a node.
func (s *sharing) aliases(n *yamlx.Node, pointer string, value any) (edits []analysis.Edit) {
	switch n.Kind {
	case yamlx.Alias:
		if s.affects(pointer) {
			edits = append(edits, analysis.Edit{Op: yamledit.Set, Pointer: pointer, Value: value})
		}
	case yamlx.Mapping:
		for _, c := range n.Children {
			if c.Merge {
				return []analysis.Edit{{Op: yamledit.Set, Pointer: pointer, Value: value}}
			}
		}
		object, _ := value.(map[string]any)
		for _, c := range n.Children {
			edits = append(edits, s.aliases(c, jsonptr.Child(pointer, c.Key), object[c.Key])...)
		}
	case yamlx.Sequence:
		list, _ := value.([]any)
		for i, c := range n.Children {
			if i < len(list) {
				edits = append(edits, s.aliases(c, jsonptr.Child(pointer, strconv.Itoa(i)), list[i])...)
			}
		}
	}
	return edits
}

// affects reports whether a change is below an alias, or changes the text that it refers to.
func (s *sharing) affects(alias string) bool {
	within := func(in, of yamlx.Position) bool { return in.Offset >= of.Offset && in.EndOffset <= of.EndOffset }
	target := s.doc.Find(alias).Value
	return s.all || slices.ContainsFunc(s.changes, func(change string) bool {
		_, below := jsonptr.CutPrefix(change, alias)
		changed := s.doc.Find(change)
		return below || within(s.doc.Find(jsonptr.Parent(change)).Value, target) || changed.Exact && within(target, changed.Value)
	})
}

// problemAt returns a problem with an object as a whole.
func problemAt(it *input.Item, rule, message string) *input.Problem {
	at := it.Position("").Value
	return &input.Problem{Rule: rule, File: it.File, Line: at.Line, Column: at.Column, Message: message,
		Source: input.ExcerptAt(it.Doc, at), Object: it.Identity()}
}

// editFile returns the old and the new text of a file. stdin is the content of standard
// input, if it was read.
func (a *app) editFile(file string, stdin []byte, documents []editedDocument) (old, text []byte, err error) {
	if old = stdin; file != input.Stdin {
		if info, err := a.repositories.Stat(file); err == nil && !info.Mode().IsRegular() {
			return nil, nil, fmt.Errorf("%s: cannot edit a pipe: pass its content on standard input with -f -", file)
		}
		if old, err = a.repositories.ReadFile(file); err != nil {
			return nil, nil, fmt.Errorf("cannot read %s again: %w", file, err)
		}
	}
	if text, err = assemble(old, documents); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return old, text, nil
}

// assemble replaces the old documents in a text by the new ones.
func assemble(old []byte, documents []editedDocument) ([]byte, error) {
	var out []byte
	rest, line := old, 1 // line is the line number of at
	for _, d := range documents {
		if d.text == nil {
			continue
		}
		source := d.doc.Source()
		for at := 0; ; {
			i := bytes.Index(rest[at:], source)
			if i < 0 {
				return nil, errors.New("the file has changed since it was read: run the command again")
			}
			line += bytes.Count(rest[at:at+i], []byte("\n"))
			at += i
			if line != d.doc.Line() {
				// Another document has the same text.
				line += bytes.Count(rest[at:at+1], []byte("\n"))
				at++
				continue
			}
			out = append(append(out, rest[:at]...), d.text...)
			line += bytes.Count(source, []byte("\n"))
			rest = rest[at+len(source):]
			break
		}
	}
	return append(out, rest...), nil
}
