package yamlx

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	tests := []struct {
		name, src string
		want      []string
	}{
		{"nothing", "", nil},
		{"one", "a: 1\n", []string{"a: 1\n"}},
		{"markers", "a: 1\n---\nb: 2\n--- # c\nc: 3", []string{"a: 1\n", "---\nb: 2\n", "--- # c\nc: 3"}},
		{"content on the marker's line", "--- {a: 1}\n--- b\n", []string{"--- {a: 1}\n", "--- b\n"}},
		{"end markers", "a: 1\n...\nb: 2\n...\n---\nc: 3\n", []string{"a: 1\n...\n", "b: 2\n...\n", "---\nc: 3\n"}},
		{"directives", "%YAML 1.1\n---\na: 1\n", []string{"%YAML 1.1\n---\na: 1\n"}},
		{"no markers", "a: |\n  ---\nb: ---\n----: c\n---d: e\n", []string{"a: |\n  ---\nb: ---\n----: c\n---d: e\n"}},
		{"a block scalar ends", "a: |\n  x\n---\nb\n", []string{"a: |\n  x\n", "---\nb\n"}},
		{"comments first", "# c\n---\na: 1\n", []string{"# c\n", "---\na: 1\n"}},
		{"JSON", "{\"a\": \"}\\\"{\"}\n", []string{"{\"a\": \"}\\\"{\"}\n"}},
		{"JSON values", "{}{\"a\":[1]}\n\n [2]\n", []string{"{}", "{\"a\":[1]}\n", "\n [2]\n"}},
		{"JSON and YAML", "{}\n---\na: 1\n---\n[1]\n", []string{"{}\n", "---\na: 1\n", "---\n[1]\n"}},
		{"braces that are not JSON", "{a: 1} # c\nb\n", []string{"{a: 1} # c\nb\n"}},
		{"a key in braces", "{a: 1}: c\n---\nx\n", []string{"{a: 1}: c\n", "---\nx\n"}},
		{"unbalanced", "{\"a\": 1\n---\nb: 1\n", []string{"{\"a\": 1\n", "---\nb: 1\n"}},
		{"carriage returns", "a: 1\r\n---\r\nb: 2\r\n", []string{"a: 1\r\n", "---\r\nb: 2\r\n"}},
		{"a byte order mark", "\ufeff---\na: 1\n---\nb\n", []string{"\ufeff---\na: 1\n", "---\nb\n"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// Reading byte by byte must make no difference.
			for _, in := range []io.Reader{strings.NewReader(test.src), iotest.OneByteReader(strings.NewReader(test.src))} {
				r := NewReader(in, Options{})
				var got []string
				line := 1
				for {
					d, err := r.Next()
					if isEOF(err) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					if d.Line() != line {
						t.Errorf("%q starts on line %d, want %d", d.Source(), d.Line(), line)
					}
					line += strings.Count(string(d.Source()), "\n")
					got = append(got, string(d.Source()))
				}
				if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
		})
	}
}

// TestErrors checks the positions of errors, and that the documents around them are read.
func TestErrors(t *testing.T) {
	deep := strings.Repeat("[", 20000)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	wide := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n"
	tests := []struct{ name, src, want string }{
		{"zero byte", "a: 1\nb: \x00\n", "3:4: a zero byte"},
		{"not UTF-8", "é: 1\nb: é\xff\n", "3:5: byte 0xff is not UTF-8"},
		{"control character", "a: \x01\n", "control characters"},
		{"tab", "a:\n\tb: 1\n", "3:1: a tab cannot indent"},
		{"unclosed quote", "a: 1\nb: \"x\nc: 2\n", "3:4: the quote is not closed"},
		{"unclosed bracket", "a: [1,\nb: 2\n", "expected ',' or ']'"},
		{"braces at the end", "a: {b: 1\n", "within braces or brackets"},
		{"deeper", "a: 1\n  b: 2\n", "3:4: a second"},
		{"deeper after a list", "a:\n- b\n  - c: 1\n", "4:6: a second"},
		{"no colon", "a: 1\nb\nc: 2\n", "3:1: expected a key followed by"},
		{"two colons", "a: b: c\n", "2:5: a second \": \""},
		{"escape", "a: \"\\q\"\n", "2:5: \\q is not an escape"},
		{"reserved", "a: @b\n", "2:4: a value cannot start with @"},
		{"unknown alias", "a: *b\n", "2:4: no anchor &b"},
		{"infinity", "a: .inf\n", "2:4: JSON cannot represent the number"},
		{"null key", "~: 1\n", "2:1: null cannot be a key"},
		{"list key", "? [a]\n: 1\n", "invalid map key"},
		{"anchor in itself", "a: &a [*a]\n", "2:8: no anchor"},
		{"deep", deep, "nested too deeply"},
		{"deep blocks", strings.Repeat("- ", 20000) + "a\n", "nested too deeply"},
		{"bomb", bomb, "with this alias, the document has more than"},
		{"wide bomb", wide, "with this alias, the document has more than"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(strings.NewReader("---\n"+test.src+"\n---\nlast: 1\n"), Options{})
			var errs []error
			last := false
			for {
				d, err := r.Next()
				if isEOF(err) {
					break
				}
				if err == nil {
					var text []byte
					text, err = d.JSON()
					last = string(text) == `{"last":1}`
					d.Find("/a/b")
				}
				if err != nil {
					errs = append(errs, err)
				}
			}
			var e *Error
			if len(errs) != 1 || !errors.As(errs[0], &e) || !strings.Contains(e.Error(), test.want) || e.Line < 1 || e.Column < 1 {
				t.Errorf("got %.300v, want %q", errs, test.want)
			}
			if !last {
				t.Error("the last document was not read")
			}
		})
	}
}

// TestLimit reads documents that are too large: lines, one long line, JSON.
func TestLimit(t *testing.T) {
	for _, large := range []string{strings.Repeat("a: 1\n", 1000), "a: " + strings.Repeat("x", 5000) + "\n", "[" + strings.Repeat("1,\n", 1000) + "2]\n"} {
		for _, in := range []func(io.Reader) io.Reader{iotest.HalfReader, iotest.OneByteReader, func(r io.Reader) io.Reader { return r }} {
			r := NewReader(in(strings.NewReader("first: 1\n---\n"+large+"---\nlast: 1\n")), Options{MaxDocument: 1000})
			if _, err := r.Next(); err != nil {
				t.Fatal(err)
			}
			_, err := r.Next()
			var e *Error
			if !errors.As(err, &e) || e.Line != 2 || !strings.Contains(e.Message, "1000 bytes") {
				t.Errorf("got %v", err)
			}
			if d, err := r.Next(); err != nil || string(d.Source()) != "---\nlast: 1\n" {
				t.Errorf("got %v, %v", d, err)
			}
		}
	}
}

// TestReadError checks that errors of the underlying reader are returned.
func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(iotest.ErrReader(broken), Options{})
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

// TestBounded checks that a Reader does not hold documents that it has returned.
func TestBounded(t *testing.T) {
	const docs = 100000
	r := NewReader(io.LimitReader(endless("---\na: 1\n"), docs*9), Options{})
	n := 0
	for {
		if _, err := r.Next(); isEOF(err) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != docs || cap(r.buf) > 1<<20 {
		t.Errorf("%d documents with a buffer of %d bytes", n, cap(r.buf))
	}
}

// endless repeats a text.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e) <= len(p) {
		n += copy(p[n:], e)
	}
	return n, nil
}

func TestParse(t *testing.T) {
	for _, src := range []string{"\xff\xfea\x00:\x00", "\xfe\xff\x00a"} {
		if _, err := Parse([]byte(src)); err == nil || !strings.HasPrefix(err.Error(), "1:1: this is UTF-16") {
			t.Errorf("got %v", err)
		}
	}
	if d, err := Parse(nil); err != nil || !d.Empty() {
		t.Errorf("got %v, %v", d, err)
	}
	if d, err := Parse([]byte("# c\n---\na: 1\n---\n# d\n")); err != nil || string(d.Source()) != "---\na: 1\n" {
		t.Errorf("got %v, %v", d, err)
	}
	if _, err := Parse([]byte("a: 1\n---\n\nb: 2\n")); err == nil || !strings.HasPrefix(err.Error(), "4:1: ") {
		t.Errorf("got %v", err)
	}
}

// TestDuplicates keeps duplicate keys, but not entries that a merge key overrides.
func TestDuplicates(t *testing.T) {
	tests := []struct{ src, want string }{
		{"a: 1\nb: 2\na: 3\n", `{"a":1,"b":2,"a":3}`},
		{"x: {a: 1, a: 2}\n", `{"x":{"a":1,"a":2}}`},
		{"x: &x {b: 1}\na: 1\na: *x\n", `{"x":{"b":1},"a":1,"a":{"b":1}}`},
		{"x: &x {a: 1, b: 2}\nm:\n  <<: *x\n  a: 3\n", `{"x":{"a":1,"b":2},"m":{"a":3,"b":2}}`},
		{"x: &x {a: 1}\nz: &z {a: 2, c: 3}\nm:\n  <<: [*x, *z]\n", `{"x":{"a":1},"z":{"a":2,"c":3},"m":{"a":1,"c":3}}`},
	}
	for _, test := range tests {
		d, err := Parse([]byte(test.src))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.JSON(); err != nil || string(got) != test.want {
			t.Errorf("%q: got %s, %v; want %s", test.src, got, err, test.want)
		}
	}
}
