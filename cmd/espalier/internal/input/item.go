package input

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
)

// Document is a document of a file.
type Document struct {
	*yamlx.Document
	File string

	// in is where the file is, or nil. named is set if the user named the file itself.
	in    tree
	named bool
	// rendered is the file from which a program has rendered the document, or nil.
	rendered *template
	// regular is set if the file can be read again, with the given limit.
	regular     bool
	maxDocument int
	// scratch is the memory for the JSON text of a document that is not kept, or nil. reused is set if
	// the document itself is in it, too.
	scratch *scratch
	reused  bool

	keep    Filter
	skipped *Skipped
}

// scratch is memory for one document after the other.
type scratch struct {
	text []byte
	json yamlx.Scratch
}

// room returns memory for a text. It is new if there is no scratch.
func (s *scratch) room(n int) []byte {
	if s == nil {
		return make([]byte, n)
	}
	if cap(s.text) < n {
		s.text = make([]byte, n+n/4)
	}
	return s.text[:n]
}

// Item is an object: a document, or an item of a list.
type Item struct {
	File string
	// Doc is nil if the object is in no file. It has no positions then.
	Doc *yamlx.Document
	// Base is the pointer to the object in the document. It is empty unless the object is
	// an item of a list.
	Base string
	// JSON is the object. It must not be modified.
	JSON []byte

	identity    Identity
	in          tree
	named       bool
	rendered    *template
	regular     bool
	transient   bool
	maxDocument int
}

// Identity identifies an object. Fields that are missing or not strings are empty.
type Identity struct {
	APIVersion, Kind, Namespace, Name string
}

// FullName returns namespace and name: default/my-job.
func (id Identity) FullName() string {
	if id.Namespace != "" {
		return id.Namespace + "/" + id.Name
	}
	return id.Name
}

// String returns kind, namespace and name: CronTab default/my-job. The kind of CRDs is
// abbreviated.
func (id Identity) String() string {
	kind := id.Kind
	if api.IsDefinition(metav1.TypeMeta{APIVersion: id.APIVersion, Kind: id.Kind}) {
		kind = "CRD"
	}
	return strings.TrimSpace(kind + " " + id.FullName())
}

// Identity returns the object's identity.
func (it *Item) Identity() Identity { return it.identity }

// Named reports whether the user named the file of the object, and not a directory that contains
// it.
func (it *Item) Named() bool { return it.named }

// Path returns the file of the object.
func (it *Item) Path() string { return it.File }

// APIVersion returns the object's apiVersion.
func (it *Item) APIVersion() string { return it.identity.APIVersion }

// Kind returns the object's kind.
func (it *Item) Kind() string { return it.identity.Kind }

// TypeMeta returns the object's apiVersion and kind.
func (it *Item) TypeMeta() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: it.identity.APIVersion, Kind: it.identity.Kind}
}

// Namespace returns the object's metadata.namespace.
func (it *Item) Namespace() string { return it.identity.Namespace }

// Name returns the object's metadata.name or, if there is none, its metadata.generateName.
func (it *Item) Name() string { return it.identity.Name }

// String returns kind, namespace and name: CronTab default/my-job.
func (it *Item) String() string { return it.identity.String() }

// Field returns the first byte of the JSON value of a top-level field, or 0 if there is no such
// field.
func (it *Item) Field(name string) (first byte) {
	var r jsonx.Reader
	r.Borrow(it.JSON)
	// The object has been parsed before.
	_ = r.Members(func(key string) error {
		if c := r.Peek(); key == name {
			first = c
		}
		return r.Skip()
	})
	return first
}

// Transient reports whether the memory of the object is used again when the work that got it has
// returned: then only Identity and Place can be kept.
func (it *Item) Transient() bool { return it.transient }

// Keys returns the names of the top-level fields.
func (it *Item) Keys() (keys []string) {
	var r jsonx.Reader
	r.Borrow(it.JSON)
	// The object has been parsed before.
	_ = r.Members(func(key string) error {
		keys = append(keys, strings.Clone(key))
		return r.Skip()
	})
	return keys
}

// Position returns the position in the file of the value that a pointer into the object names.
func (it *Item) Position(pointer string) yamlx.Span {
	span, _, _ := it.Locate(pointer)
	return span
}

// Line returns the line on which the document of the object starts, or 0 if the object is in no
// file.
func (it *Item) Line() int {
	if it.Doc == nil {
		return 0
	}
	return it.Doc.Line()
}

// NewItem returns an object that is in no file, such as one of a cluster. name stands for the file
// in messages.
func NewItem(name string, src []byte) (*Item, error) {
	id, err := Identify(src)
	if err != nil {
		return nil, err
	}
	return &Item{File: name, JSON: src, identity: id}, nil
}

// Items returns the objects of the document: the document itself or, if it is a list, its
// items. The problem, if not nil, is about items that are not returned.
func (d *Document) Items() ([]*Item, *Problem) {
	items, p := d.items()
	if p != nil && d.rendered != nil {
		p.Line = d.rendered.line(p.Source.Text)
		p.Message = "rendered by " + d.rendered.by + ": " + p.Message
	}
	return items, p
}

func (d *Document) items() ([]*Item, *Problem) {
	src, err := d.json()
	if err != nil {
		var bad *yamlx.Error
		if !errors.As(err, &bad) {
			bad = &yamlx.Error{Line: d.Line(), Column: 1, Message: err.Error()}
		}
		if p := d.helmTemplate(bad); p != nil {
			return nil, d.unlessFiltered(HelmTemplate, p)
		}
		p := syntaxProblem(d.File, bad, d.Document)
		if (d.keep == Manifests || d.keep == Everything) && !mentionsObject(d.Source()) {
			return nil, d.unlessFiltered(OtherDocument, &p)
		}
		return nil, &p
	}
	if p := d.helmTemplate(nil); p != nil {
		return nil, d.unlessFiltered(HelmTemplate, p)
	}
	if d.keep != Everything && !isObject(src) {
		return nil, d.unlessFiltered(OtherDocument, nil)
	}
	items, err := d.expand(nil, src, "", 0)
	if d.scratch != nil {
		if len(items) == 1 && items[0].Base == "" {
			items[0].transient = true
		} else {
			// The items of a list cannot be read again.
			d, src = d.kept(src)
			items, err = d.expand(nil, src, "", 0)
		}
	}
	if d.keep == Everything {
		if err != nil && !isObject(src) || slices.ContainsFunc(items, func(it *Item) bool { _, skip := it.skipItem(); return skip }) {
			d.countStranger()
		}
	} else {
		items = slices.DeleteFunc(items, func(it *Item) bool {
			reason, skip := it.skipItem()
			if skip {
				d.skipped.Count(reason)
			}
			return skip
		})
	}
	if err != nil {
		at := d.Find("").Value
		var e *placedError
		if errors.As(err, &e) {
			at = d.Find(e.pointer).Value
		}
		p := syntaxProblem(d.File, &yamlx.Error{Line: max(at.Line, d.Line()), Column: max(at.Column, 1), Message: err.Error()}, d.Document)
		return items, &p
	}
	return items, nil
}

// kept returns the document and its JSON text in memory of their own.
func (d *Document) kept(text []byte) (*Document, []byte) {
	kept := *d
	kept.scratch = nil
	if d.reused {
		kept.Document = d.Document.Clone()
	}
	if kept.IsJSON() {
		if own, err := kept.JSON(); err == nil {
			return &kept, own // a part of the document
		}
	}
	return &kept, bytes.Clone(text)
}

// json returns the document as JSON.
func (d *Document) json() ([]byte, error) {
	if d.scratch != nil {
		return d.JSONIn(&d.scratch.json)
	}
	return d.JSON()
}

// unlessFiltered returns the problem, or nil if the filter skips such documents for this reason.
func (d *Document) unlessFiltered(why SkipReason, p *Problem) *Problem {
	if d.keep == Everything {
		d.countStranger()
		return p
	}
	d.skipped.Count(why)
	if why == HelmTemplate && d.found() && d.skipped != nil {
		d.skipped.templates.Add(1)
	}
	return nil
}

// found reports whether the document is in a file that the user did not name, but a directory.
func (d *Document) found() bool { return !d.named && d.in != nil }

// countStranger counts a document that --skip-other-files would skip.
func (d *Document) countStranger() {
	if d.skipped != nil && d.found() {
		d.skipped.strangers.Add(1)
	}
}

// resemblesObject reports whether the item has apiVersion and kind, or is an object that lacks
// one of them by mistake. Other programs use one of the names too, but without metadata and
// spec.
func (it *Item) resemblesObject() bool {
	if it.APIVersion() != "" && it.Kind() != "" {
		return true
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(it.Keys(), func(key string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(key, name) })
		})
	}
	return has("apiVersion", "kind") && has("metadata", "spec")
}

func isObject(src []byte) bool {
	var r jsonx.Reader
	r.Borrow(src)
	return r.Peek() == '{'
}

// placedError is an error about the value at a pointer.
type placedError struct {
	pointer, message string
}

func (e *placedError) Error() string { return e.message }

// expand appends the object src at base to items or, if it is a list, its items.
func (d *Document) expand(items []*Item, src []byte, base string, depth int) ([]*Item, error) {
	id, err := Identify(src)
	if err != nil {
		return items, &placedError{pointer: base, message: err.Error()}
	}
	list, ok, err := manifest.Items(src, metav1.TypeMeta{APIVersion: id.APIVersion, Kind: id.Kind})
	switch {
	case err != nil:
		return items, &placedError{pointer: base, message: err.Error()}
	case !ok:
		return append(items, &Item{File: d.File, Doc: d.Document, Base: base, JSON: src, identity: id,
			in: d.in, named: d.named, rendered: d.rendered, regular: d.regular, maxDocument: d.maxDocument}), nil
	case depth == manifest.MaxNesting:
		return items, &placedError{pointer: base, message: manifest.ErrNesting.Error()}
	}
	var first error
	for i, item := range list {
		items, err = d.expand(items, item, base+"/items/"+strconv.Itoa(i), depth+1)
		if err != nil && first == nil {
			first = err
		}
	}
	return items, first
}

// Identify returns the identity of an object in JSON.
func Identify(src []byte) (id Identity, err error) {
	var r jsonx.Reader
	r.Borrow(src)
	if c := r.Peek(); c != '{' {
		return id, fmt.Errorf("got %s, want an object with apiVersion and kind", describe(c))
	}
	typeMeta, err := api.Identify(src)
	if err != nil {
		return id, err
	}
	id.APIVersion, id.Kind = typeMeta.APIVersion, typeMeta.Kind
	if err := r.EnterObject(); err != nil {
		return id, err
	}
	for n := 0; ; n++ {
		key, more, err := r.NextMember(n)
		switch {
		case err != nil || !more:
			return id, err
		case key == "metadata":
			return id, identifyMetadata(&r, &id)
		}
		if err := r.Skip(); err != nil {
			return id, err
		}
	}
}

func identifyMetadata(r *jsonx.Reader, id *Identity) error {
	if r.Peek() != '{' {
		return r.Skip()
	}
	return r.Members(func(name string) (err error) {
		switch name {
		case "name":
			id.Name, err = stringOrSkip(r)
		case "namespace":
			id.Namespace, err = stringOrSkip(r)
		case "generateName":
			var prefix string
			if prefix, err = stringOrSkip(r); id.Name == "" && prefix != "" {
				id.Name = prefix + "*"
			}
		default:
			err = r.Skip()
		}
		return err
	})
}

func stringOrSkip(r *jsonx.Reader) (string, error) {
	if r.Peek() == '"' {
		s, err := r.String()
		// A clone does not retain the whole text.
		return strings.Clone(s), err
	}
	return "", r.Skip()
}

func describe(c byte) string {
	switch c {
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	case 0:
		return "nothing"
	}
	return "a number"
}

// Place is where an object is in a file, to read it again: a program that needs few of many
// objects need not keep the text of all.
type Place struct {
	file        string
	in          tree
	line        int
	offset      int64
	length      int
	identity    Identity
	sum         Sum
	maxDocument int
}

// Place returns where the object is, whose [Item.Sum] is sum. It returns false if the object cannot
// be read again: standard input and pipes are gone, and the items of a list would each need the
// whole list.
func (it *Item) Place(sum Sum) (Place, bool) {
	if !it.regular || it.Base != "" {
		return Place{}, false
	}
	return Place{file: it.File, in: it.in, line: it.Doc.Line(), offset: it.Doc.Offset(), length: len(it.Doc.Source()),
		identity: it.identity, sum: sum, maxDocument: it.maxDocument}, true
}

// Sum is a checksum of a text, to compare it with one that is not in memory. Each process has others, so
// that no two texts with the same one can be prepared.
type Sum struct {
	length int
	hash   uint64
}

var seed = maphash.MakeSeed()

// SumOf returns the checksum of a text. It takes a twentieth of the time of a cryptographic one, which would
// be noticed: most CRDs of a directory are read for nothing else.
func SumOf(text []byte) Sum { return Sum{len(text), maphash.Bytes(seed, text)} }

// Sum returns the checksum of the object.
func (it *Item) Sum() Sum { return SumOf(it.JSON) }

// Read reads the object. It returns an error if the file has changed.
func (p Place) Read() (*Item, error) {
	open, err := p.in.open(p.file)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s again: %w", p.file, Reason(err))
	}
	defer open.Close()
	if err := open.skip(p.offset); err != nil {
		return nil, fmt.Errorf("cannot read %s again: %w", p.file, Reason(err))
	}
	o := yamlx.Options{Line: p.line, MaxDocument: p.maxDocument}
	documents := yamlx.NewReader(open, o)
	if rest := open.size - p.offset; open.regular && rest >= 0 && rest <= int64(2*p.length) {
		// Little follows the document: reading all of it at once needs no buffer that grows.
		text := make([]byte, rest+1)
		switch n, err := io.ReadFull(open, text); {
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			documents = yamlx.NewBytesReader(text[:n], o)
		default: // the file has grown, or cannot be read
			documents = yamlx.NewReader(io.MultiReader(bytes.NewReader(text[:n]), open), o)
		}
	}
	d, err := documents.Next()
	if err == nil && !d.Empty() {
		items, problem := (&Document{Document: d, File: p.file, in: p.in}).Items()
		if problem == nil && len(items) == 1 && items[0].identity == p.identity && items[0].Sum() == p.sum {
			return items[0], nil
		}
	}
	return nil, fmt.Errorf("%s has changed since it was read: run the command again", p.file)
}

// Missing returns an object that stands for one whose text is not read, or cannot be read again.
func (p Place) Missing() *Item {
	d, err := yamlx.NewBytesReader([]byte("{}"), yamlx.Options{Line: p.line}).Next()
	if err != nil {
		panic(err) // a constant text
	}
	return &Item{File: p.file, Doc: d, JSON: []byte("{}"), identity: p.identity, in: p.in}
}

// Identity returns the identity of the object.
func (p Place) Identity() Identity { return p.identity }

// WithoutText returns the object with its identity and its place, but without its text.
func (it *Item) WithoutText() *Item {
	bare := *it
	bare.Doc, bare.JSON = nil, nil
	return &bare
}

// Offset returns the offset of the document of the object in its file.
func (p Place) Offset() int64 { return p.offset }

// WithSource returns a document with another text in the same place.
func (d *Document) WithSource(src []byte) (*Document, error) {
	changed, err := yamlx.NewBytesReader(src, yamlx.Options{Line: d.Line(), MaxDocument: d.maxDocument}).Next()
	if err != nil {
		return nil, err
	}
	other := *d
	other.Document = changed
	return &other, nil
}
