package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"espalier.dev/internal/yamlx"
)

// Parse parses the text of a configuration file. path is the name of the file in errors and
// dir its directory.
func Parse(text []byte, path, dir string, rules Rules) (*File, error) {
	f := &File{Path: path, Dir: dir, lines: map[string]int{}}
	p := &parser{file: f, path: path}
	root, err := p.parse(text)
	if err != nil {
		return nil, err
	}
	if root != nil {
		f.keys(rules).read(p, root, "")
	}
	f.exclude = parseFiles(f.Exclude)
	return f, p.err()
}

// parser reads a YAML document and collects what is wrong with it.
type parser struct {
	file *File
	path string
	doc  *yamlx.Document
	errs []*Error
}

// parse returns the root of the document in a text, or nil if it is empty.
func (p *parser) parse(text []byte) (*yamlx.Node, error) {
	var err error
	if p.doc, err = yamlx.Parse(text); err == nil {
		if p.doc.Empty() {
			return nil, nil
		}
		// Only the conversion to JSON reports all syntax errors.
		_, err = p.doc.JSON()
	}
	var root *yamlx.Node
	if err == nil {
		root, err = p.doc.Tree()
	}
	var bad *yamlx.Error
	if errors.As(err, &bad) {
		return nil, &Error{File: p.path, Line: bad.Line, Column: bad.Column, Message: bad.Message}
	}
	return root, err
}

// maxErrors is the maximum number of errors that are reported for a file: a file of another
// kind has many.
const maxErrors = 20

// err returns the errors in the order of their positions.
func (p *parser) err() error {
	slices.SortStableFunc(p.errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var all []error
	for i, e := range p.errs {
		if i == maxErrors {
			all = append(all, fmt.Errorf("%s: %d more errors", p.path, len(p.errs)-i))
			break
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// at returns the line and column of an offset.
func (p *parser) at(offset int) (line, column int) { return p.doc.LineColumn(offset) }

func (p *parser) fail(offset int, format string, args ...any) {
	line, column := p.at(offset)
	p.errs = append(p.errs, &Error{File: p.path, Line: line, Column: column, Message: fmt.Sprintf(format, args...)})
}

// unknown reports an unknown name.
func (p *parser) unknown(offset int, what, name string, known []string) {
	p.fail(offset, "%s", unknown(what, name, known))
}

// oneOf reports whether a value is one of some names, and reports an error if it is not.
func (p *parser) oneOf(n *yamlx.Node, what, s string, names []string) bool {
	if slices.Contains(names, s) {
		return true
	}
	p.unknown(n.Start, what, s, names)
	return false
}

// check reports whether a value passes a check, and reports an error if it does not.
func (p *parser) check(n *yamlx.Node, s string, check func(string) error) bool {
	err := check(s)
	if err != nil {
		p.fail(n.Start, "%v", err)
	}
	return err == nil
}

// mapping visits the entries of a mapping. An empty value is an empty mapping.
func (p *parser) mapping(n *yamlx.Node, name string, visit func(*yamlx.Node)) {
	if n.Kind == yamlx.Scalar && string(n.JSON) == "null" {
		return
	}
	if n.Kind != yamlx.Mapping {
		where := "the file"
		if name != "" {
			where = name
		}
		p.fail(n.Start, "%s must be a mapping", where)
		return
	}
	seen := map[string]bool{}
	for _, c := range n.Children {
		switch {
		case c.Merge:
			p.fail(c.KeyStart, "merge keys are not supported")
		case seen[c.Key]:
			p.fail(c.KeyStart, "duplicate key %q", c.Key)
		default:
			seen[c.Key] = true
			visit(c)
		}
	}
}

// items visits the items of a list.
func (p *parser) items(n *yamlx.Node, visit func(*yamlx.Node)) {
	if n.Kind != yamlx.Sequence {
		p.fail(n.Start, "must be a list")
		return
	}
	for _, c := range n.Children {
		visit(c)
	}
}

// text returns a string.
func (p *parser) text(n *yamlx.Node) (string, bool) {
	if n.Kind == yamlx.Scalar {
		if s, ok := n.Text(); ok {
			return s, true
		}
	}
	if n.Kind == yamlx.Alias {
		p.fail(n.Start, "aliases are not supported")
	} else {
		p.fail(n.Start, "must be a string")
	}
	return "", false
}
