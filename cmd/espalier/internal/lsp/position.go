package lsp

import (
	"bytes"
	"sort"
	"unicode/utf8"

	"espalier.dev/internal/yamlx"
)

// Position returns the position of a byte offset. An offset outside of the text is that of its
// nearest end, one inside of a character is that of the character, and one inside of a line break
// is the end of the line.
func (t *Text) Position(offset int) Position {
	offset = min(max(offset, 0), len(t.data))
	line := sort.SearchInts(t.lines, offset+1) - 1
	start, end := t.Line(line)
	offset = t.characterStart(start, min(offset, end))
	return Position{Line: line, Character: t.distance(t.encoding, start, offset)}
}

// Offset returns the byte offset of a position. A character after the end of its line is the end
// of the line, and a line after the last one is the end of the text.
func (t *Text) Offset(p Position) int {
	start, end, ok := t.lineOf(p)
	if !ok {
		return start
	}
	return t.forward(t.encoding, start, end, p.Character)
}

// scanOffset returns the same as Offset, without use of marks.
func (t *Text) scanOffset(p Position) int {
	start, end, ok := t.lineOf(p)
	if !ok {
		return start
	}
	return start + scan(t.data[start:end], t.encoding, max(p.Character, 0))
}

// lineOf returns the start and end of the line of a position, or false and the nearest offset if
// there is no such line.
func (t *Text) lineOf(p Position) (start, end int, ok bool) {
	switch {
	case p.Line < 0:
		return 0, 0, false
	case p.Line >= len(t.lines):
		return len(t.data), 0, false
	}
	start, end = t.Line(p.Line)
	return start, end, true
}

// Range returns the range between two byte offsets.
func (t *Text) Range(start, end int) Range {
	return Range{Start: t.Position(start), End: t.Position(max(start, end))}
}

// Offsets returns the byte offsets of a range, in order.
func (t *Text) Offsets(r Range) (start, end int) {
	start, end = t.Offset(r.Start), t.Offset(r.End)
	return min(start, end), max(start, end)
}

// LineColumn returns the line and column of a byte offset as findings have them: both count from 1,
// columns count code points, only LF ends a line, and a byte order mark is not counted.
func (t *Text) LineColumn(offset int) (line, column int) {
	offset = min(max(offset, 0), len(t.data))
	feeds := t.lineFeeds()
	line = sort.SearchInts(feeds, offset+1)
	start := t.afterMark(feeds[line-1])
	return line, 1 + t.distance(UTF32, start, max(start, t.characterStart(start, offset)))
}

// OffsetAt returns the byte offset of a line and column of a finding. Columns after the end of the
// line are its end, which may be the CR of a line break.
func (t *Text) OffsetAt(line, column int) int {
	feeds := t.lineFeeds()
	switch {
	case line < 1:
		return 0
	case line > len(feeds):
		return len(t.data)
	}
	end := len(t.data)
	if line < len(feeds) {
		end = feeds[line] - 1
	}
	return t.forward(UTF32, t.afterMark(feeds[line-1]), end, column-1)
}

// Span returns the range of a finding, whose offsets are not used. A position without a line is the
// first line of the text, and one without an end is empty.
func (t *Text) Span(p yamlx.Position) Range {
	if p.Line <= 0 {
		start, end := t.Line(0)
		return t.Range(start, end)
	}
	start := t.OffsetAt(p.Line, p.Column)
	end := start
	if p.EndLine > 0 {
		end = max(start, t.OffsetAt(p.EndLine, p.EndColumn))
	}
	return t.Range(start, end)
}

// byteOrderMark is the byte order mark in UTF-8.
var byteOrderMark = []byte("\ufeff")

// afterMark returns the start of a line without a byte order mark.
func (t *Text) afterMark(start int) int {
	if start == 0 && bytes.HasPrefix(t.data, byteOrderMark) {
		return len(byteOrderMark)
	}
	return start
}

// characterStart returns the start of the character that offset is in, at or after start. Bytes
// that are not UTF-8 are characters of their own.
func (t *Text) characterStart(start, offset int) int {
	if offset >= len(t.data) || utf8.RuneStart(t.data[offset]) {
		return offset
	}
	for back := offset - 1; back >= max(start, offset-utf8.UTFMax+1); back-- {
		if utf8.RuneStart(t.data[back]) {
			if _, n := utf8.DecodeRune(t.data[back:]); back+n > offset {
				return back
			}
			break
		}
	}
	return offset
}

// scan returns the offset of the character after the given number of units, at most the length.
// A position inside of a character is its start.
func scan(data []byte, encoding Encoding, units int) int {
	at := 0
	for at < len(data) && units > 0 {
		c := data[at]
		if c < utf8.RuneSelf {
			at++
			units--
			continue
		}
		r, n := utf8.DecodeRune(data[at:])
		width := 1
		switch {
		case encoding == UTF8:
			width = n
		case encoding != UTF32 && r > 0xffff:
			width = 2
		}
		if width > units {
			break
		}
		at += n
		units -= width
	}
	return at
}

// count returns the number of units of data.
func count(data []byte, encoding Encoding) int {
	if encoding == UTF8 {
		return len(data)
	}
	n := utf8.RuneCount(data)
	if encoding != UTF32 {
		for _, c := range data {
			// Four bytes start with this one, and are two code units. Bytes that are not UTF-8
			// are excluded below.
			if c >= 0xf0 {
				return n + pairs(data)
			}
		}
	}
	return n
}

// pairs returns the number of characters that are two code units of UTF-16.
func pairs(data []byte) (n int) {
	for at := 0; at < len(data); {
		if data[at] < utf8.RuneSelf {
			at++
			continue
		}
		r, size := utf8.DecodeRune(data[at:])
		if r > 0xffff {
			n++
		}
		at += size
	}
	return n
}

// stride is the distance of marks, in bytes.
const stride = 4 << 10

// mark is the start of a character, at or directly after a multiple of stride, with the number of
// units before it in the text.
type mark struct {
	offset, utf16, utf32 int
}

// units returns the units of a mark before it.
func (m mark) units(encoding Encoding) int {
	switch encoding {
	case UTF8:
		return m.offset
	case UTF32:
		return m.utf32
	}
	return m.utf16
}

// index returns the marks of the text. A JSON document on one line may have megabytes and many
// findings, so that positions must not cost a scan of the line.
func (t *Text) index() []mark {
	t.marksOnce.Do(func() {
		var m mark
		t.marks = append(make([]mark, 0, 1+len(t.data)/stride), m)
		for m.offset < len(t.data) {
			next := min((m.offset/stride+1)*stride, len(t.data))
			if next < len(t.data) {
				if at := t.characterStart(m.offset, next); at != next {
					_, n := utf8.DecodeRune(t.data[at:])
					next = at + n
				}
			}
			part := t.data[m.offset:next]
			m = mark{offset: next, utf16: m.utf16 + count(part, UTF16), utf32: m.utf32 + count(part, UTF32)}
			t.marks = append(t.marks, m)
		}
	})
	return t.marks
}

// distance returns the number of units between the starts of two characters.
func (t *Text) distance(encoding Encoding, start, end int) int {
	if end-start <= 2*stride {
		return count(t.data[start:end], encoding)
	}
	marks := t.index()
	// The first mark at or after start, and the last one at or before end.
	first := sort.Search(len(marks), func(i int) bool { return marks[i].offset >= start })
	last := sort.Search(len(marks), func(i int) bool { return marks[i].offset > end }) - 1
	return count(t.data[start:marks[first].offset], encoding) +
		marks[last].units(encoding) - marks[first].units(encoding) +
		count(t.data[marks[last].offset:end], encoding)
}

// forward returns the offset of the character after the given number of units from start, the
// start of a character, at most end.
func (t *Text) forward(encoding Encoding, start, end, units int) int {
	units = max(units, 0)
	if end-start <= 2*stride || units <= stride {
		return start + scan(t.data[start:end], encoding, units)
	}
	marks := t.index()
	first := sort.Search(len(marks), func(i int) bool { return marks[i].offset >= start })
	before := count(t.data[start:marks[first].offset], encoding) - marks[first].units(encoding)
	// The last mark that is neither after end nor after the position.
	last := sort.Search(len(marks), func(i int) bool {
		return marks[i].offset > end || before+marks[i].units(encoding) > units
	}) - 1
	if last < first {
		return start + scan(t.data[start:end], encoding, units)
	}
	m := marks[last]
	return m.offset + scan(t.data[m.offset:end], encoding, units-before-m.units(encoding))
}
