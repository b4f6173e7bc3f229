package yamlx

import (
	"fmt"
	"strings"
	"testing"

	"espalier.dev/internal/yamlx/yamltest"
)

func TestFind(t *testing.T) {
	const doc = `# c
---
apiVersion: v1
spec:
  "quoted key": 'é x' # c
  list:
  - a: &anchor
      b: 1
  - {c: [d, e], ü: f}
  alias: *anchor
  merged:
    <<: *anchor
    own: 2
  empty:
  text: |
    lines
    more
`
	ds := documents(t, []byte(doc))
	if len(ds) != 2 || !ds[0].Empty() || ds[1].Empty() {
		t.Fatalf("%d documents", len(ds))
	}
	tests := []struct{ pointer, key, value string }{
		{"", "-", "3:1-17:9"},
		{"/apiVersion", "3:1-3:11", "3:13-3:15"},
		{"/spec/quoted key", "5:3-5:15", "5:17-5:22"},
		{"/spec/list", "6:3-6:7", "7:3-9:22"},
		{"/spec/list/0", "-", "7:5-8:11"},
		{"/spec/list/0/a/b", "8:7-8:8", "8:10-8:11"},
		{"/spec/list/1/c/1", "-", "9:13-9:14"},
		{"/spec/list/1/ü", "9:17-9:18", "9:20-9:21"},
		{"/spec/alias", "10:3-10:8", "10:10-10:17"},
		{"/spec/alias/b", "8:7-8:8", "8:10-8:11"},
		{"/spec/merged/b", "8:7-8:8", "8:10-8:11"},
		{"/spec/merged/own", "13:5-13:8", "13:10-13:11"},
		{"/spec/empty", "14:3-14:8", "14:9-14:9"},
		{"/spec/text", "15:3-15:7", "15:9-17:9"},
		{"/spec/list/7/x", "6:3-6:7", "7:3-9:22 inexact"},
		{"/spec/none", "4:1-4:5", "5:3-17:9 inexact"},
		{"no pointer", "-", "3:1-17:9 inexact"},
	}
	show := func(p Position) string {
		if p == (Position{}) {
			return "-"
		}
		return fmt.Sprintf("%d:%d-%d:%d", p.Line, p.Column, p.EndLine, p.EndColumn)
	}
	for _, test := range tests {
		s := ds[1].Find(test.pointer)
		value := show(s.Value)
		if !s.Exact {
			value += " inexact"
		}
		if show(s.Key) != test.key || value != test.value {
			t.Errorf("%s: got %s, %s; want %s, %s", test.pointer, show(s.Key), value, test.key, test.value)
		}
	}
}

// TestFindOdd finds positions in JSON and in YAML that the parser leaves to the library.
func TestFindOdd(t *testing.T) {
	tests := []struct {
		src, pointer string
		line, col    int
	}{
		{"? a\n: b: 1\n", "/a/b", 2, 6},
		{"%YAML 1.1\n---\na: 1\n", "/a", 3, 4},
		{"? &x a\n: [*x]\n", "/a/0", 2, 4},
		{"\ufeff{\n \"a\\/b\": [1,\n  {\"c\": \"\\ud83d\\ude00\"}]}", "/a~1b/1/c", 3, 9},
		{"\ufeffa: 1\n", "/a", 1, 4},
		{"a: [b", "/a/0", 1, 1},
	}
	for _, test := range tests {
		d, err := Parse([]byte(test.src))
		if err != nil {
			t.Fatal(err)
		}
		if at := d.Find(test.pointer).Value; at.Line != test.line || at.Column != test.col {
			t.Errorf("%q: %s is at %d:%d, want %d:%d", test.src, test.pointer, at.Line, at.Column, test.line, test.col)
		}
	}
}

// TestPositionsCorpus reads the text at the position of every value of the corpus.
func TestPositionsCorpus(t *testing.T) {
	files := 0
	yamltest.Corpus(t, func(path string, src []byte) {
		if files++; files%5 != 0 || len(src) > 50<<10 {
			return
		}
		for _, d := range documents(t, src) {
			checkPositions(t, d)
		}
	})
}

// TestLongLine finds many positions on one long line. Scanning the line for each of them
// would time out.
func TestLongLine(t *testing.T) {
	items := 100000
	if testing.Short() {
		items = 20000
	}
	d, err := Parse([]byte("[" + strings.Repeat(`{"ü":1},`, items) + "{}]"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range items {
		if at := d.Find(fmt.Sprintf("/%d/ü", i)).Value; at.Line != 1 || at.Column != 8*i+7 || at.EndColumn != 8*i+8 {
			t.Fatalf("item %d: got %+v", i, at)
		}
	}
}

// TestFindInLargeMapping finds entries of large mappings by name: the last of the same name,
// and merged ones.
func TestFindInLargeMapping(t *testing.T) {
	var own strings.Builder
	for i := range 3 * largeMapping {
		fmt.Fprintf(&own, "  k%d: %d\n", i, i)
	}
	src := "base: &base {merged: 1}\nplain:\n" + own.String() + "  k7: again\nwith:\n" + own.String() + "  <<: *base\n"
	d, err := Parse([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	last := 3 + 3*largeMapping
	for pointer, line := range map[string]int{
		"/plain/k0": 3, "/plain/k9": 12, "/plain/k7": last, "/with/k0": last + 2, "/with/merged": 1, "/plain/absent": 0, "/with/absent": 0,
	} {
		s := d.Find(pointer)
		if s.Exact != (line > 0) || s.Exact && s.Value.Line != line {
			t.Errorf("%s is at %+v, want line %d", pointer, s, line)
		}
	}
}

// TestFindAgain finds duplicate entries, also in mappings that are duplicates themselves.
func TestFindAgain(t *testing.T) {
	d, err := Parse([]byte("a:\n  l:\n  - k: 1\n    k: 2\n  x: 1\na:\n  x: 1\n  x: 2\n  x: 3\nb: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, line := range map[string]int{"/a": 6, "/a/l/0/k": 4, "/a/x": 9, "/b": 10, "/a/none": 6} {
		if got := d.FindAgain(pointer).Key.Line; got != line {
			t.Errorf("%s is in line %d, want %d", pointer, got, line)
		}
	}
}

func TestFindInJSONAfterSpace(t *testing.T) {
	for _, before := range []string{"", " \n", "\ufeff", "\ufeff\n  "} {
		src := before + `{"a": {"b\u0063": [1, "x"]}}`
		d, err := Parse([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		for pointer, want := range map[string][2]string{
			"/a":      {`"a"`, `{"b\u0063": [1, "x"]}`},
			"/a/bc":   {`"b\u0063"`, `[1, "x"]`},
			"/a/bc/1": {"", `"x"`},
		} {
			s := d.Find(pointer)
			if got := [2]string{src[s.Key.Offset:s.Key.EndOffset], src[s.Value.Offset:s.Value.EndOffset]}; !s.Exact || got != want {
				t.Errorf("%q: %s is at %q, want %q", src, pointer, got, want)
			}
		}
	}
}
