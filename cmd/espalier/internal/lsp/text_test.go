package lsp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/internal/yamlx"
)

// naive is an implementation of positions that is obvious rather than fast.
type naive struct {
	data     string
	encoding lsp.Encoding
}

// line is the start and the end of a line, without its line break.
type line struct{ start, end int }

func (n naive) lines() []line {
	lines, start := []line{}, 0
	for i := 0; i < len(n.data); i++ {
		switch n.data[i] {
		case '\r':
			lines = append(lines, line{start, i})
			if i+1 < len(n.data) && n.data[i+1] == '\n' {
				i++
			}
			start = i + 1
		case '\n':
			lines = append(lines, line{start, i})
			start = i + 1
		}
	}
	return append(lines, line{start, len(n.data)})
}

// width returns the size of the first character of s in bytes and in units.
func (n naive) width(s string) (size, units int) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case n.encoding == lsp.UTF8:
		return size, size
	case n.encoding == lsp.UTF16 && r >= 0x10000:
		return size, 2
	}
	return size, 1
}

func (n naive) offset(p lsp.Position) int {
	lines := n.lines()
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(lines) {
		return len(n.data)
	}
	at, end := lines[p.Line].start, lines[p.Line].end
	for units := p.Character; at < end; {
		size, width := n.width(n.data[at:end])
		if units < width {
			break
		}
		at, units = at+size, units-width
	}
	return at
}

func (n naive) position(offset int) lsp.Position {
	offset = min(max(offset, 0), len(n.data))
	lines := n.lines()
	number := 0
	for i, l := range lines {
		if l.start <= offset {
			number = i
		}
	}
	l := lines[number]
	character := 0
	for at := l.start; at < l.end; {
		size, width := n.width(n.data[at:l.end])
		if at+size > offset {
			break
		}
		at, character = at+size, character+width
	}
	return lsp.Position{Line: number, Character: character}
}

// lineColumn counts as findings do.
func (n naive) lineColumn(offset int) (row, column int) {
	row, column = 1, 1
	for at := 0; at < len(n.data); {
		r, size := utf8.DecodeRuneInString(n.data[at:])
		if at+size > offset {
			break
		}
		switch {
		case r == '\n':
			row, column = row+1, 1
		case at == 0 && r == '\ufeff':
		default:
			column++
		}
		at += size
	}
	return row, column
}

// compare compares a text with the naive implementation.
func compare(t *testing.T, text *lsp.Text) {
	t.Helper()
	n := naive{string(text.Bytes()), text.Encoding()}
	lines := n.lines()
	if text.Lines() != len(lines) {
		t.Fatalf("%q has %d lines, not %d", n.data, len(lines), text.Lines())
	}
	for i, l := range lines {
		if start, end := text.Line(i); start != l.start || end != l.end {
			t.Errorf("line %d of %q is %d-%d, not %d-%d", i, n.data, l.start, l.end, start, end)
		}
	}
	step := 1 + len(n.data)/200
	for offset := -1; offset <= len(n.data)+1; offset += step {
		want := n.position(offset)
		got := text.Position(offset)
		if got != want {
			t.Fatalf("%s: offset %d of %q is at %v, not %v", n.encoding, offset, n.data, want, got)
		}
		if back, naively := text.Offset(got), n.offset(want); back != naively {
			t.Fatalf("%s: %v in %q is %d, not %d", n.encoding, got, n.data, naively, back)
		}
		if offset < 0 || offset > len(n.data) {
			continue
		}
		row, column := n.lineColumn(offset)
		if r, c := text.LineColumn(offset); r != row || c != column {
			t.Fatalf("offset %d of %q is in line %d, column %d, not %d, %d", offset, n.data, row, column, r, c)
		}
		if at := text.OffsetAt(row, column); at != text.OffsetAt(text.LineColumn(at)) {
			t.Fatalf("line %d, column %d of %q is %d", row, column, n.data, at)
		}
		for _, p := range []lsp.Position{{Line: want.Line, Character: want.Character + 1}, {Line: want.Line, Character: 1 << 30}, {Line: want.Line + 1, Character: -1}} {
			if got, want := text.Offset(p), n.offset(p); got != want {
				t.Fatalf("%s: %v in %q is %d, not %d", n.encoding, p, n.data, want, got)
			}
		}
	}
}

// samples are texts with all that is difficult.
func samples() []string {
	return []string{
		"", "a", "\n", "\r", "\r\n", "\n\r", "\r\r\n", "a\r\nb\rc\nd", "a: 1\r\n", "\tkey:\tvalue\n",
		"emoji: 😀😀 end\nnext: 😀", "flag: 🇩🇪 family: 👨‍👩‍👧", "cafe\u0301: e\u0301", "ü: ä\n", "\ufeffkind: A\nb: c",
		"bad: \xff\xfe\nend\xf0\x9f", "\xf0\x9f\x98", "\x80\x80\x80\x80\x80", "nul: \x00", "\u2028 is no line break\u0085", "日本語\r\n日本語",
		strings.Repeat("😀ab", 5000), strings.Repeat("x", 20000) + "😀\nz", strings.Repeat("é\n", 3000),
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	for _, encoding := range []lsp.Encoding{lsp.UTF8, lsp.UTF16, lsp.UTF32} {
		for _, s := range samples() {
			compare(t, lsp.NewText("file:///a", 1, "yaml", []byte(s), encoding))
		}
	}
}

// TestSpan checks that positions of findings are those of package yamlx.
func TestSpan(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"kind: A\r\nname: \"😀\"\r\nspec:\r\n  é: {a: 1}\r\n", "\ufeffkind: A\nspec:\n  é: 1\n", `{"kind": "😀", "spec": {"é": 1}}`} {
		doc, err := yamlx.Parse([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		text := lsp.NewText("file:///a", 1, "yaml", []byte(source), lsp.UTF16)
		for _, pointer := range []string{"", "/kind", "/name", "/spec", "/spec/é", "/spec/é/a"} {
			span := doc.Find(pointer).Value
			if got, want := text.Span(span), text.Range(span.Offset, span.EndOffset); got != want {
				t.Errorf("%q in %q is at %v, want %v", pointer, source, got, want)
			}
			if line, column := text.LineColumn(span.Offset); line != span.Line || column != span.Column {
				t.Errorf("%q in %q is in line %d, column %d, want %d, %d", pointer, source, line, column, span.Line, span.Column)
			}
		}
	}
	text := lsp.NewText("file:///a", 1, "yaml", []byte("first\nsecond"), lsp.UTF16)
	if got := text.Span(yamlx.Position{}); got != (lsp.Range{End: lsp.Position{Character: 5}}) {
		t.Errorf("a finding without a line is at %v", got)
	}
	if got := text.Span(yamlx.Position{Line: 2, Column: 3}); got.Start != got.End || got.Start != (lsp.Position{Line: 1, Character: 2}) {
		t.Errorf("a finding without an end is at %v", got)
	}
	if got := text.OffsetAt(3, 1); got != len(text.Bytes()) {
		t.Errorf("a line that does not exist is at %d", got)
	}
}

// naiveApply applies changes to a string.
func naiveApply(data string, encoding lsp.Encoding, changes []lsp.ContentChange) string {
	for _, c := range changes {
		if c.Range == nil {
			data = c.Text
			continue
		}
		n := naive{data, encoding}
		start, end := n.offset(c.Range.Start), n.offset(c.Range.End)
		data = data[:min(start, end)] + c.Text + data[max(start, end):]
	}
	return data
}

func TestApply(t *testing.T) {
	t.Parallel()
	inserts := []string{"", "x", "\n", "\r", "\r\n", "\n\r", "😀", "a\nb\r\nc\r", "\ufeff", "日\r"}
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		encoding := []lsp.Encoding{lsp.UTF8, lsp.UTF16, lsp.UTF32}[rnd.IntN(3)]
		all := samples()
		want := all[rnd.IntN(len(all)-3)]
		text := lsp.NewText("file:///a", 0, "yaml", []byte(want), encoding)
		for version := range 20 {
			var changes []lsp.ContentChange
			for range rnd.IntN(3) {
				c := lsp.ContentChange{Text: inserts[rnd.IntN(len(inserts))]}
				if rnd.IntN(10) > 0 {
					c.Range = &lsp.Range{
						Start: lsp.Position{Line: rnd.IntN(5), Character: rnd.IntN(12)}, End: lsp.Position{Line: rnd.IntN(5), Character: rnd.IntN(12)},
					}
				}
				changes = append(changes, c)
			}
			before := bytes.Clone(text.Bytes())
			next := text.Apply(version, changes)
			if !bytes.Equal(before, text.Bytes()) {
				t.Fatalf("seed %d: %+v have changed the text before them", seed, changes)
			}
			want = naiveApply(want, encoding, changes)
			if string(next.Bytes()) != want || next.Version() != version {
				t.Fatalf("seed %d: %+v result in version %d: %q, want %q", seed, changes, next.Version(), next.Bytes(), want)
			}
			compare(t, next)
			compare(t, text)
			text = next
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range samples() {
		f.Add(s, "x\r", 0, 1, 1, 2, byte(1))
	}
	f.Fuzz(func(t *testing.T, data, insert string, line, character, endLine, endCharacter int, encoding byte) {
		if len(data) > 1<<16 || len(insert) > 1<<10 {
			return
		}
		e := []lsp.Encoding{lsp.UTF8, lsp.UTF16, lsp.UTF32}[encoding%3]
		text := lsp.NewText("file:///a", 0, "yaml", []byte(data), e)
		compare(t, text)
		changes := []lsp.ContentChange{
			{Range: &lsp.Range{Start: lsp.Position{Line: line, Character: character}, End: lsp.Position{Line: endLine, Character: endCharacter}}, Text: insert},
			{Range: &lsp.Range{Start: lsp.Position{Line: endLine, Character: character}, End: lsp.Position{Line: endLine, Character: character}}, Text: insert},
		}
		next := text.Apply(1, changes)
		if want := naiveApply(data, e, changes); string(next.Bytes()) != want {
			t.Fatalf("%q, want %q", next.Bytes(), want)
		}
		compare(t, next)
	})
}

// BenchmarkApply types a character at the start of a text of a megabyte.
func BenchmarkApply(b *testing.B) {
	var data strings.Builder
	for i := 0; data.Len() < 1<<20; i++ {
		fmt.Fprintf(&data, "key%d: value # %d\n", i, i)
	}
	text := lsp.NewText("file:///a", 0, "yaml", []byte(data.String()), lsp.UTF16)
	changes := []lsp.ContentChange{{Range: &lsp.Range{Start: lsp.Position{Line: 3}, End: lsp.Position{Line: 3}}, Text: "x"}}
	for b.Loop() {
		text.Apply(1, changes)
	}
}

// BenchmarkPosition converts positions in a line of a megabyte.
func BenchmarkPosition(b *testing.B) {
	text := lsp.NewText("file:///a", 0, "json", []byte(strings.Repeat(`{"é😀": 1},`, 1<<20/16)), lsp.UTF16)
	for b.Loop() {
		text.Offset(text.Position(1 << 19))
	}
}
