package yamlx

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestBytesReader checks that a bytes reader returns the documents and errors of a Reader.
func TestBytesReader(t *testing.T) {
	for _, text := range []string{"", "a: 1", "a: 1\n---\nb: 2\n...\n# end\n", "{\"a\": 1}{\"b\": 2}\n", "a: 1\n---\nb: \x01\n---\nc: 3\n", "\ufeffa: 1\n"} {
		x, y := NewReader(strings.NewReader(text), Options{}), NewBytesReader([]byte(text), Options{})
		for {
			d, err := x.Next()
			e, other := y.Next()
			if (err == nil) != (other == nil) || err != nil && err.Error() != other.Error() {
				t.Fatalf("%q: got %v, want %v", text, other, err)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil && (string(d.Source()) != string(e.Source()) || d.Line() != e.Line()) {
				t.Errorf("%q: got %q at %d, want %q at %d", text, e.Source(), e.Line(), d.Source(), d.Line())
			}
		}
	}
}

// TestRest continues to read a stream with another Reader, after every number of documents.
func TestRest(t *testing.T) {
	const text = "a: 1\n---\nb: 2\n---\nb: \x01\n---\n{\"c\": 1}\n{\"d\": 2}\n...\n# end\n---\ne: 5"
	type document struct {
		source string
		line   int
		err    string
	}
	read := func(r *Reader, n int) (all []document) {
		for range n {
			d, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				all = append(all, document{err: err.Error()})
			} else {
				all = append(all, document{source: string(d.Source()), line: d.Line()})
			}
		}
		return all
	}
	want := read(NewReader(strings.NewReader(text), Options{}), 100)
	for n := range len(want) + 1 {
		// A slow reader has not read everything when Rest is called.
		r := NewReader(iotest.OneByteReader(strings.NewReader(text)), Options{})
		got := read(r, n)
		rest, line := r.Rest()
		got = append(got, read(NewReader(rest, Options{Line: line}), 100)...)
		if !slices.Equal(got, want) {
			t.Errorf("after %d documents: got %+v, want %+v", n, got, want)
		}
	}
	failed := errors.New("failed")
	r := NewReader(io.MultiReader(strings.NewReader("a: 1\n---\nb"), iotest.ErrReader(failed)), Options{})
	read(r, 1)
	rest, _ := r.Rest()
	if _, err := io.ReadAll(rest); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
