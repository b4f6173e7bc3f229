package textdiff

import (
	"bytes"
	"fmt"
	"math/rand"
	"strconv"
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	lines := func(s string) string { return strings.ReplaceAll(s, " ", "\n") }
	for name, c := range map[string]struct{ old, new, want string }{
		"equal":           {"a\n", "a\n", ""},
		"both empty":      {"", "", ""},
		"from nothing":    {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"to nothing":      {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		"change":          {"a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		"no line end":     {"a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		"both end badly":  {"a\nb", "c\nb", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n\\ No newline at end of file\n"},
		"two hunks":       {lines("1 2 3 4 5 6 7 8 9 10 "), lines("a 2 3 4 5 6 7 8 9 b "), "@@ -1,4 +1,4 @@\n-1\n+a\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+b\n"},
		"hunks that meet": {lines("1 2 3 4 5 6 7 8 "), lines("a 2 3 4 5 6 7 b "), "@@ -1,8 +1,8 @@\n-1\n+a\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+b\n"},
		"repeated lines":  {lines("{ x } { y } "), lines("{ x } { z } { y } "), "@@ -2,5 +2,8 @@\n x\n }\n {\n+z\n+}\n+{\n y\n }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(Unified("old", "new", []byte(c.old), []byte(c.new), 3))
			if c.want != "" {
				c.want = "--- old\n+++ new\n" + c.want
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestStyle(t *testing.T) {
	wrap := func(mark string) func(string) string {
		return func(s string) string { return mark + "(" + s + ")" }
	}
	got := string(Style{File: wrap("f"), Hunk: wrap("h"), Delete: wrap("d"), Insert: wrap("i")}.Unified("o", "n", []byte("a\nb\n"), []byte("a\nc\n"), 1))
	want := "f(--- o)\nf(+++ n)\nh(@@ -1,2 +1,2 @@)\n a\nd(-b)\ni(+c)\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestApplies applies diffs of random texts: the result must be the new text, and the diff
// must quote the old text correctly.
func TestApplies(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	text := func() []byte {
		var b bytes.Buffer
		for range r.Intn(40) {
			fmt.Fprintln(&b, r.Intn(1+r.Intn(60)))
		}
		out := b.Bytes()
		if r.Intn(4) == 0 {
			out = bytes.TrimSuffix(out, []byte("\n"))
		}
		return out
	}
	for range 5000 {
		old, context := text(), r.Intn(5)
		new := mutate(r, old)
		if r.Intn(4) == 0 {
			new = text()
		}
		hunks := Hunks(old, new, context)
		if got := apply(t, old, hunks); !bytes.Equal(got, new) {
			t.Fatalf("old %q new %q: the diff makes %q\n%s", old, new, got, Unified("old", "new", old, new, context))
		}
		if bytes.Equal(old, new) != (len(hunks) == 0) {
			t.Fatalf("old %q new %q: %d hunks", old, new, len(hunks))
		}
	}
}

func mutate(r *rand.Rand, text []byte) []byte {
	var out [][]byte
	for _, l := range split(text) {
		switch r.Intn(8) {
		case 0:
		case 1:
			out = append(out, l, []byte(strconv.Itoa(r.Intn(9))+"\n"))
		default:
			out = append(out, l)
		}
	}
	return bytes.Join(out, nil)
}

func apply(t *testing.T, old []byte, hunks []Hunk) []byte {
	t.Helper()
	lines := split(old)
	var out [][]byte
	at := 0
	for _, h := range hunks {
		if h.OldStart-1 < at {
			t.Fatalf("hunk %s overlaps the one before", h.Header())
		}
		out = append(out, lines[at:h.OldStart-1]...)
		at = h.OldStart - 1
		if len(out)+1 != h.NewStart {
			t.Fatalf("hunk %s begins at line %d of the new text", h.Header(), len(out)+1)
		}
		begin := len(out)
		for _, l := range h.Lines {
			if l.Op != Insert {
				if !bytes.Equal(lines[at], l.Text) {
					t.Fatalf("hunk %s: line %d is %q, not %q", h.Header(), at+1, lines[at], l.Text)
				}
				at++
			}
			if l.Op != Delete {
				out = append(out, l.Text)
			}
		}
		if at-(h.OldStart-1) != h.OldCount || len(out)-begin != h.NewCount {
			t.Fatalf("hunk %s counts wrong: %d and %d", h.Header(), at-(h.OldStart-1), len(out)-begin)
		}
	}
	return bytes.Join(append(out, lines[at:]...), nil)
}

// TestHuge diffs texts that have little in common.
func TestHuge(t *testing.T) {
	var a, b bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintln(&a, i%1000)
		fmt.Fprintln(&b, i*i%1009)
	}
	hunks := Hunks(a.Bytes(), b.Bytes(), 3)
	if got := apply(t, a.Bytes(), hunks); !bytes.Equal(got, b.Bytes()) {
		t.Fatal("the diff does not make the new text")
	}
}

// TestFileName checks names that git and patch could misread.
func TestFileName(t *testing.T) {
	for path, want := range map[string]string{
		"crd.yaml":        "a/crd.yaml",
		"./dir//crd.yaml": "a/dir/crd.yaml",
		"/tmp/crd.yaml":   "a/tmp/crd.yaml",
		"my crd.yaml":     "a/my crd.yaml\t",
		`a "b" \c`:        `"a/a \"b\" \\c"`,
		"a\tb\nc":         `"a/a\011b\012c"`,
		"größe.yaml":      "a/größe.yaml",
	} {
		if got := FileName("a", path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
