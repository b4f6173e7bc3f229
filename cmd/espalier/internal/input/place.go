package input

import (
	"errors"
	"fmt"

	"espalier.dev/internal/yamlx"
)

// Place is where an object is in a file, to read it again: a program that needs few of many
// objects need not keep the text of all.
type Place struct {
	file        string
	line        int
	identity    Identity
	maxDocument int
}

// Place returns where the object is. It returns false if the object cannot be read again:
// standard input and pipes are gone, and the items of a list would each need the whole list.
func (it *Item) Place() (Place, bool) {
	if !it.regular || it.Base != "" {
		return Place{}, false
	}
	return Place{file: it.File, line: it.Doc.Line(), identity: it.identity, maxDocument: it.maxDocument}, true
}

// Read reads the object. It returns an error if the file has changed.
func (p Place) Read() (*Item, error) {
	open, err := Open(p.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s again: %w", p.file, Reason(err))
	}
	defer open.Close()
	for documents := yamlx.NewReader(open, yamlx.Options{MaxDocument: p.maxDocument}); ; {
		d, err := documents.Next()
		if bad := (*yamlx.Error)(nil); errors.As(err, &bad) {
			continue // it has been reported
		}
		if err != nil || d.Line() > p.line {
			break
		}
		if d.Line() < p.line || d.Empty() {
			continue
		}
		items, problem := (&Document{Document: d, File: p.file}).Items()
		if problem == nil && len(items) == 1 && items[0].identity == p.identity {
			return items[0], nil
		}
		break
	}
	return nil, fmt.Errorf("%s has changed since it was read: run the command again", p.file)
}

// Missing returns an object that stands for one that cannot be read again.
func (p Place) Missing() *Item {
	d, err := yamlx.NewBytesReader([]byte("{}"), yamlx.Options{Line: p.line}).Next()
	if err != nil {
		panic(err) // a constant text
	}
	return &Item{File: p.file, Doc: d, JSON: []byte("{}"), identity: p.identity}
}

// Identity returns the identity of the object.
func (p Place) Identity() Identity { return p.identity }
