package lsp

import (
	"bytes"
	"slices"
	"sync"
)

// Text is a version of a document. It never changes: [Text.Apply] returns a new one. It is safe
// for concurrent use.
type Text struct {
	uri      URI
	version  int
	language string
	encoding Encoding
	data     []byte
	// lines has the offset of each line. Lines end with LF, CR LF or CR, as the protocol demands.
	lines []int

	// feeds has the offsets of lines if only LF ends one, as in findings. See lineFeeds.
	feedsOnce sync.Once
	feeds     []int
	// marks serve positions in long lines. See units.
	marksOnce sync.Once
	marks     []mark
}

// NewText returns a document. It keeps data, which must not be changed.
func NewText(uri URI, version int, language string, data []byte, encoding Encoding) *Text {
	return &Text{uri: uri, version: version, language: language, encoding: encoding, data: data, lines: lineStarts(data)}
}

// URI returns the URI of the document.
func (t *Text) URI() URI { return t.uri }

// Version returns the version that the client has given to the text.
func (t *Text) Version() int { return t.version }

// Language returns the client's name of the language, for example yaml.
func (t *Text) Language() string { return t.language }

// Encoding returns the unit of positions.
func (t *Text) Encoding() Encoding { return t.encoding }

// Bytes returns the text. It must not be changed.
func (t *Text) Bytes() []byte { return t.data }

// Lines returns the number of lines, at least 1.
func (t *Text) Lines() int { return len(t.lines) }

// Line returns the start and the end of a line, which counts from 0. The end is before the line
// break.
func (t *Text) Line(line int) (start, end int) {
	start = t.lines[line]
	if line+1 == len(t.lines) {
		return start, len(t.data)
	}
	end = t.lines[line+1] - 1
	if t.data[end] == '\n' && end > start && t.data[end-1] == '\r' {
		end--
	}
	return start, end
}

// Apply returns the text after changes, in their order. It copies the text once and scans only
// what has been inserted.
func (t *Text) Apply(version int, changes []ContentChange) *Text {
	next := &Text{uri: t.uri, version: version, language: t.language, encoding: t.encoding, data: t.data, lines: t.lines}
	owned := false
	for _, c := range changes {
		if c.Range == nil {
			next.data = []byte(c.Text)
			next.lines = lineStarts(next.data)
			owned = true
			continue
		}
		if !owned {
			next.data = append(make([]byte, 0, len(next.data)+len(c.Text)), next.data...)
			next.lines = append(make([]int, 0, len(next.lines)+8), next.lines...)
			owned = true
		}
		// The marks of next are unset while it changes: lines are scanned.
		start, end := next.scanOffset(c.Range.Start), next.scanOffset(c.Range.End)
		next.replace(min(start, end), max(start, end), c.Text)
	}
	return next
}

// replace changes the text and its lines in place.
func (t *Text) replace(start, end int, by string) {
	t.data = slices.Replace(t.data, start, end, []byte(by)...)
	// Whether a line starts at an offset depends on the bytes before and after it. Starts before
	// start keep both, and those after end too, but move.
	first, _ := slices.BinarySearch(t.lines, start)
	last, found := slices.BinarySearch(t.lines, end)
	if found {
		last++
	}
	var between []int
	for at := start; at <= start+len(by); at++ {
		if startsLine(t.data, at) {
			between = append(between, at)
		}
	}
	for i := last; i < len(t.lines); i++ {
		t.lines[i] += len(by) - (end - start)
	}
	t.lines = slices.Replace(t.lines, first, last, between...)
}

// startsLine reports whether a line starts at an offset.
func startsLine(data []byte, at int) bool {
	if at == 0 {
		return true
	}
	switch data[at-1] {
	case '\n':
		return true
	case '\r':
		return at == len(data) || data[at] != '\n'
	}
	return false
}

// lineStarts returns the offsets at which lines start.
func lineStarts(data []byte) []int {
	starts := append(make([]int, 0, 1+len(data)/32), 0)
	if bytes.IndexByte(data, '\r') < 0 {
		for at := 0; ; {
			i := bytes.IndexByte(data[at:], '\n')
			if i < 0 {
				return starts
			}
			at += i + 1
			starts = append(starts, at)
		}
	}
	for i, c := range data {
		if (c == '\n' || c == '\r') && startsLine(data, i+1) {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// lineFeeds returns the offsets of lines that only LF ends.
func (t *Text) lineFeeds() []int {
	t.feedsOnce.Do(func() {
		carriageReturn := func(start int) bool { return start > 0 && t.data[start-1] == '\r' }
		t.feeds = t.lines
		if slices.ContainsFunc(t.lines, carriageReturn) {
			t.feeds = slices.DeleteFunc(slices.Clone(t.lines), carriageReturn)
		}
	})
	return t.feeds
}
