package input

import (
	"bytes"
	"unicode/utf8"

	"espalier.dev/internal/yamlx"
)

// MaxExcerpt is the maximum number of characters of an excerpt: a large file can be a
// single line with many findings.
const MaxExcerpt = 160

// Excerpt is a line of a text, or the part of a long line around a position.
type Excerpt struct {
	// Text is the excerpt, without the end of the line.
	Text string
	// Skipped is the number of characters of the line before Text.
	Skipped int
	// More reports whether the line continues after Text.
	More bool
}

// ExcerptAt returns the line at the offset of a position in a document.
func ExcerptAt(d *yamlx.Document, at yamlx.Position) Excerpt {
	if d == nil {
		return Excerpt{}
	}
	src := d.Source()
	offset := min(max(at.Offset, 0), len(src))
	start, before := offset, 0
	for start > 0 && before < MaxExcerpt && src[start-1] != '\n' && !isMark(src, start) {
		_, size := utf8.DecodeLastRune(src[:start])
		start -= size
		before++
	}
	stop, behind := offset, 0
	for stop < len(src) && behind < MaxExcerpt && !endsLine(src[stop:]) {
		_, size := utf8.DecodeRune(src[stop:])
		stop += size
		behind++
	}
	e := Excerpt{More: stop < len(src) && !endsLine(src[stop:])}
	if before+behind > MaxExcerpt || e.More {
		for ; before > MaxExcerpt/3; before-- {
			_, size := utf8.DecodeRune(src[start:])
			start += size
		}
		for ; before+behind > MaxExcerpt; behind-- {
			_, size := utf8.DecodeLastRune(src[:stop])
			stop -= size
			e.More = true
		}
	}
	e.Skipped = max(0, at.Column-1-before)
	e.Text = string(src[start:stop])
	return e
}

// isMark reports whether the text before the offset is a byte order mark, which is not part
// of the line.
func isMark(src []byte, offset int) bool {
	return offset == 3 && bytes.HasPrefix(src, []byte("\xef\xbb\xbf"))
}

func endsLine(rest []byte) bool {
	return rest[0] == '\n' || rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n')
}

// excerptOfLine returns the excerpt around a line and column of the file that contains the
// document.
func excerptOfLine(d *yamlx.Document, line, column int) Excerpt {
	src := d.Source()
	at := yamlx.Position{Line: line, Column: 1}
	for n := d.Line(); n < line; n++ {
		i := bytes.IndexByte(src[at.Offset:], '\n')
		if i < 0 {
			return Excerpt{}
		}
		at.Offset += i + 1
	}
	if at.Offset == 0 && isMark(src, 3) {
		at.Offset = 3
	}
	for at.Column < column && at.Offset < len(src) && !endsLine(src[at.Offset:]) {
		_, size := utf8.DecodeRune(src[at.Offset:])
		at.Offset += size
		at.Column++
	}
	return ExcerptAt(d, at)
}
