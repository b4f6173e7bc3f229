package yamlx

import (
	"errors"
	"io"
	"strings"
	"testing"
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
