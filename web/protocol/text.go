package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamlx"
)

// maxExpanded is the maximum size of a document with its aliases expanded.
const maxExpanded = 4 * MaxText

// maxObjects is the maximum number of objects of a text that are looked at, and maxCRDs that of the
// objects of a text with CRDs, which are compiled only when they are needed.
const (
	maxObjects = 200
	maxCRDs    = 5000
)

// Range is a part of a text in UTF-16 code units. The end is exclusive.
type Range struct {
	Start int `json:"start"`
	End   int `json:"end"`
	// Line counts from 1.
	Line int `json:"line"`
}

// text is a text of a request: YAML or JSON documents. It is not safe for concurrent use.
type text struct {
	source []byte
	// starts has the offsets of the lines, and units those in UTF-16. units is nil if both are the same.
	starts, units []int
	objects       []*item
	// problems are the documents that cannot be read.
	problems []Finding
	// limit is the maximum number of objects. more is set if there are more.
	limit int
	more  bool
}

// item is an object in a text.
type item struct {
	text *text
	doc  *yamlx.Document
	// base points to the object in its document: it may be an item of a list.
	base string
	json []byte
	metav1.TypeMeta
	namespace, name string
	// first has the first byte of the value of each field.
	first map[string]byte
}

// APIVersion, Kind and Field make an item a [lookup.Object].
func (it *item) APIVersion() string { return it.TypeMeta.APIVersion }

// Kind returns the kind.
func (it *item) Kind() string { return it.TypeMeta.Kind }

// Field returns the first byte of the value of a field.
func (it *item) Field(name string) byte { return it.first[name] }

// newText reads the documents of a text with objects.
func newText(source string) (*text, error) { return readText(source, maxObjects) }

// newCRDs reads the documents of a text with CRDs. If it has too many, that is a problem with the text:
// answers about some of the CRDs would be wrong.
func newCRDs(source string) (*text, error) {
	t, err := readText(source, maxCRDs)
	if err == nil && t.more {
		t.problems = append(t.problems, Finding{Rule: "too-many", Severity: analysis.Error, Message: fmt.Sprintf(
			"only the first %d documents are read: use fewer", maxCRDs)})
	}
	return t, err
}

// readText reads the documents of a text, up to a number of objects.
func readText(source string, limit int) (*text, error) {
	if len(source) > MaxText {
		return nil, failf(TooLarge, "the text has %d bytes: the limit is %d", len(source), MaxText)
	}
	t := &text{source: []byte(source), limit: limit}
	t.index()
	r := yamlx.NewBytesReader(t.source, yamlx.Options{MaxExpanded: maxExpanded})
	for {
		d, err := r.Next()
		var bad *yamlx.Error
		switch {
		case errors.Is(err, io.EOF):
			return t, nil
		case errors.As(err, &bad):
			t.problem(bad)
		case err != nil:
			return nil, err
		case !d.Empty():
			t.add(d)
		}
		if t.more = t.more || len(t.objects) > limit || len(t.problems) > limit; t.more {
			t.objects, t.problems = t.objects[:min(len(t.objects), limit)], t.problems[:min(len(t.problems), limit)]
			return t, nil
		}
	}
}

// add adds the objects of a document.
func (t *text) add(d *yamlx.Document) {
	src, err := d.JSON()
	if err != nil {
		var bad *yamlx.Error
		if !errors.As(err, &bad) {
			bad = &yamlx.Error{Line: d.Line(), Column: 1, Message: err.Error()}
		}
		t.problem(bad)
		return
	}
	t.expand(d, "", src, 0)
}

// expand adds an object, or the items of a list.
func (t *text) expand(d *yamlx.Document, base string, src []byte, depth int) {
	it := &item{text: t, doc: d, base: base, json: src, first: map[string]byte{}}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(src, &fields); err != nil {
		at := d.Find(base).Value
		t.problem(&yamlx.Error{Line: max(at.Line, d.Line()), Column: max(at.Column, 1), Message: "not an object: apiVersion and kind are required"})
		return
	}
	for name, value := range fields {
		it.first[name] = value[0]
	}
	it.TypeMeta, _ = api.Identify(src) // what it lacks is a finding about the object
	var metadata struct{ Name, Namespace string }
	if json.Unmarshal(fields["metadata"], &metadata) == nil {
		it.name, it.namespace = metadata.Name, metadata.Namespace
	}
	items, ok, err := manifest.Items(src, it.TypeMeta)
	if ok && depth == manifest.MaxNesting {
		err = manifest.ErrNesting
	}
	if err != nil {
		at := d.Find(base).Value
		t.problem(&yamlx.Error{Line: max(at.Line, d.Line()), Column: max(at.Column, 1), Message: err.Error()})
		return
	}
	for i, src := range items {
		if len(t.objects) > t.limit {
			return
		}
		t.expand(d, base+"/items/"+strconv.Itoa(i), src, depth+1)
	}
	if ok {
		return
	}
	t.objects = append(t.objects, it)
}

// problem adds the problem with a document.
func (t *text) problem(e *yamlx.Error) {
	start := t.offset(e.Line, e.Column)
	end := yamlx.LineEnd(t.source, min(start, len(t.source)))
	t.problems = append(t.problems, Finding{Rule: "syntax", Severity: analysis.Error, Message: e.Message, Range: t.span(start, max(start, end))})
}

// index prepares the conversion of offsets.
func (t *text) index() {
	t.starts = []int{0}
	ascii := true
	for i, b := range t.source {
		if b == '\n' {
			t.starts = append(t.starts, i+1)
		}
		ascii = ascii && b < utf8.RuneSelf
	}
	if ascii {
		return
	}
	t.units = make([]int, len(t.starts))
	for i := 1; i < len(t.starts); i++ {
		t.units[i] = t.units[i-1] + units(t.source[t.starts[i-1]:t.starts[i]])
	}
}

// units returns the length of a text in UTF-16 code units.
func units(src []byte) (n int) {
	for len(src) > 0 {
		r, size := utf8.DecodeRune(src)
		if n++; r > 0xffff {
			n++
		}
		src = src[size:]
	}
	return n
}

// line returns the index of the line of an offset.
func (t *text) line(offset int) int {
	return sort.Search(len(t.starts), func(i int) bool { return t.starts[i] > offset }) - 1
}

// utf16 converts an offset in bytes.
func (t *text) utf16(offset int) int {
	offset = max(0, min(offset, len(t.source)))
	if t.units == nil {
		return offset
	}
	i := t.line(offset)
	return t.units[i] + units(t.source[t.starts[i]:offset])
}

// bytes converts an offset in UTF-16 code units.
func (t *text) bytes(offset int) int {
	if t.units == nil {
		return max(0, min(offset, len(t.source)))
	}
	i := max(sort.Search(len(t.units), func(i int) bool { return t.units[i] > offset })-1, 0)
	at, n := t.starts[i], t.units[i]
	for at < len(t.source) && n < offset {
		r, size := utf8.DecodeRune(t.source[at:])
		if n++; r > 0xffff {
			n++
		}
		at += size
	}
	return at
}

// offset converts a line and column, which count characters from 1, to an offset in bytes.
func (t *text) offset(line, column int) int {
	at := t.starts[max(0, min(line-1, len(t.starts)-1))]
	for range column - 1 {
		if at >= len(t.source) || t.source[at] == '\n' {
			break
		}
		_, size := utf8.DecodeRune(t.source[at:])
		at += size
	}
	return at
}

// span returns the range of offsets in bytes.
func (t *text) span(start, end int) *Range {
	return &Range{t.utf16(start), t.utf16(max(start, end)), t.line(max(0, min(start, len(t.source)))) + 1}
}

// at returns the position of a field of an object. It is the value if the finding is about a value
// on the line of its name, else the name.
func (it *item) at(pointer string, part analysis.Part) *Range {
	span := it.doc.Find(it.base + pointer)
	if part == analysis.RepeatedName {
		span = it.doc.FindAgain(it.base + pointer)
	}
	p := span.Value
	if span.Key.Line > 0 && (part != analysis.FieldValue || !span.Exact || span.Key.Line != p.Line || p.EndLine != p.Line) {
		p = span.Key
	}
	base := int(it.doc.Offset())
	if p.Line == 0 {
		start := len(it.doc.Source()) - len(strings.TrimLeft(string(it.doc.Source()), "-# \t\r\n"))
		return it.text.span(base+start, yamlx.LineEnd(it.text.source, min(base+start, len(it.text.source))))
	}
	end := base + p.EndOffset
	if p.EndLine != p.Line || p.EndOffset <= p.Offset {
		end = yamlx.LineEnd(it.text.source, min(base+p.Offset, len(it.text.source)))
	}
	return it.text.span(base+p.Offset, end)
}

// node returns the node of the object in its document, or nil if it is not known.
func (it *item) node() *yamlx.Node {
	n := it.doc.Nodes()
	for rest := it.base; rest != "" && n != nil; {
		var token string
		token, rest = jsonptr.Cut(rest)
		if i := n.Index(token); i >= 0 {
			n = n.Children[i]
		} else {
			n = nil
		}
	}
	return n
}
