package input

import (
	"crypto/sha256"
	"fmt"
	"io"

	"espalier.dev/internal/yamlx"
)

// Place is where an object is in a file, to read it again: a program that needs few of many
// objects need not keep the text of all.
type Place struct {
	file        string
	line        int
	offset      int64
	identity    Identity
	sum         [sha256.Size]byte
	maxDocument int
}

// Place returns where the object is, whose [Item.Sum] is sum. It returns false if the object cannot be read again:
// standard input and pipes are gone, and the items of a list would each need the whole list.
func (it *Item) Place(sum [sha256.Size]byte) (Place, bool) {
	if !it.regular || it.Base != "" {
		return Place{}, false
	}
	return Place{file: it.File, line: it.Doc.Line(), offset: it.Doc.Offset(), identity: it.identity, sum: sum, maxDocument: it.maxDocument}, true
}

// Sum returns a checksum of the object, to compare it with one that is not in memory.
func (it *Item) Sum() [sha256.Size]byte { return sha256.Sum256(it.JSON) }

// Read reads the object. It returns an error if the file has changed.
func (p Place) Read() (*Item, error) {
	open, err := Open(p.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s again: %w", p.file, Reason(err))
	}
	defer open.Close()
	if _, err := open.Seek(p.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("cannot read %s again: %w", p.file, Reason(err))
	}
	d, err := yamlx.NewReader(open, yamlx.Options{Line: p.line, MaxDocument: p.maxDocument}).Next()
	if err == nil && !d.Empty() {
		items, problem := (&Document{Document: d, File: p.file}).Items()
		if problem == nil && len(items) == 1 && items[0].identity == p.identity && items[0].Sum() == p.sum {
			return items[0], nil
		}
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
