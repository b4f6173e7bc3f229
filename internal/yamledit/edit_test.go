package yamledit

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
	"espalier.dev/internal/yamlx/yamltest"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// TestEdit makes the edits in testdata/edits.txt, and compares the results. A case starts with a line "=== NAME"; the
// lines of the text begin with <, those of the result with >. A line that ends with ¶ has no line break, and \r is a
// carriage return.
func TestEdit(t *testing.T) {
	const file = "testdata/edits.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "=== "), "\n=== ") {
		name, lines, _ := strings.Cut(block, "\n")
		fmt.Fprintf(&got, "=== %s\n", name)
		var source strings.Builder
		var edits []Edit
		for line := range strings.Lines(lines + "\n") {
			if content, ok := strings.CutPrefix(line, "< "); ok {
				source.WriteString(strings.NewReplacer("¶\n", "", `\r`, "\r").Replace(content))
			} else if content, ok := strings.CutPrefix(line, "edit: "); ok {
				var e Edit
				if err := json.Unmarshal([]byte(content), &e); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				edits = append(edits, e)
			} else {
				continue
			}
			got.WriteString(line)
		}
		d, err := yamlx.Parse([]byte(source.String()))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		result, err := Apply(d, edits...)
		if err != nil {
			fmt.Fprintf(&got, "error: %v\n", err)
			continue
		}
		for line := range strings.Lines(string(result)) {
			content, ended := strings.CutSuffix(line, "\n")
			if !ended {
				content += "¶"
			}
			got.WriteString(strings.ReplaceAll("> "+content, "\r", `\r`) + "\n")
		}
	}
	testcase.Golden(t, file, got.String(), *update)
	d, err := yamlx.Parse([]byte("a: 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(d, Edit{Op: Set, Pointer: "/a", Value: func() {}}); err == nil || !strings.Contains(err.Error(), "no JSON form") {
		t.Errorf("a value without a JSON form: %v", err)
	}
}

// TestEditCorpus applies random edits to the files of the corpus. Apply itself checks the
// values; this test checks that all other lines are unchanged.
func TestEditCorpus(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	values := []any{1, "text", "two\nlines\n", nil, map[string]any{"a": []any{1, map[string]any{"b": "c", "d": "e"}}, "f": map[string]any{}}, []any{"x", []any{1, 2}}}
	files := 0
	yamltest.Corpus(t, func(path string, src []byte) {
		files++
		if files%4 != 0 || len(src) > 100<<10 {
			return
		}
		for _, d := range documents(t, src) {
			if d.Empty() {
				continue
			}
			all := pointers(t, d)[1:]
			if len(all) == 0 {
				continue
			}
			for range 3 {
				p := all[rnd.IntN(len(all))]
				v := values[rnd.IntN(len(values))]
				for _, e := range []Edit{{Op: Set, Pointer: p, Value: v}, {Op: Set, Pointer: p + "x", Value: v}, {Op: Remove, Pointer: p}, {Op: Rename, Pointer: p, To: "renamed"}, {Op: Move, Pointer: p, To: "/moved/here"}, {Op: Copy, Pointer: p, To: "/moved/here"}} {
					got, err := Apply(d, e)
					if err != nil {
						if tolerated(err) {
							continue
						}
						t.Errorf("%s: %s %s %v: %v", path, e.Op, p, e.Value, err)
						continue
					}
					if e.Op != Move && e.Op != Copy {
						unchanged(t, fmt.Sprintf("%s: %s %s", path, e.Op, p), d, e, got)
					}
				}
			}
		}
	})
}

// tolerated reports whether an edit may fail with this error.
func tolerated(err error) bool {
	for _, s := range []string{"alias", "anchors", "merged", "neither", "no such value", "only entries", "the parent is", "leads into", "a scalar"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// unchanged checks that an edit changed only the lines of its node and of the comments above
// it, or added lines.
func unchanged(t *testing.T, what string, d *yamlx.Document, e Edit, got []byte) {
	t.Helper()
	span := d.Find(e.Pointer)
	src := d.Source()
	if parent := jsonptr.Parent(e.Pointer); e.Op == Remove {
		after, err := yamlx.Parse(got)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		// An emptied collection is written on one line.
		at := after.Find(parent).Value
		if text := string(got[at.Offset:at.EndOffset]); text == "[]" || text == "{}" {
			span = d.Find(parent)
		}
	}
	start := span.Key.Offset
	if span.Key.Line == 0 {
		start = span.Value.Offset
	}
	// Comments and the key of a collection that becomes empty may be on lines above.
	first := lineStart(src, start)
	for first > 0 {
		above := lineStart(src, first-1)
		line := bytes.TrimSpace(src[above:first])
		if len(line) > 0 && !bytes.HasSuffix(line, []byte(":")) && !bytes.Contains(line, []byte("#")) && !bytes.HasPrefix(line, []byte("-")) {
			break
		}
		first = above
	}
	last := min(yamlx.LineEnd(src, span.Value.EndOffset)+1, len(src))
	if !bytes.HasPrefix(got, src[:first]) {
		t.Errorf("%s: the lines above have changed", what)
	}
	below := src[last:]
	if e.Op == Remove && bytes.Contains(src[lineStart(src, start):start], []byte("-")) {
		// The entry after the first one of a list item moves to the dash.
		below = bytes.TrimLeft(below, " \r\n")
	}
	if !bytes.HasSuffix(got, below) {
		t.Errorf("%s: the lines below have changed", what)
	}
}

// TestEditUpgrade converts the v1beta1 CRDs of the corpus to v1: the schema moves below each
// version.
func TestEditUpgrade(t *testing.T) {
	n := 0
	yamltest.Corpus(t, func(path string, src []byte) {
		if !strings.HasPrefix(path, "/v1beta1/") || n > 300 {
			return
		}
		for _, d := range documents(t, src) {
			if !d.Find("/spec/validation").Exact {
				continue
			}
			n++
			edits := []Edit{{Op: Set, Pointer: "/apiVersion", Value: "apiextensions.k8s.io/v1"}}
			if !d.Find("/spec/versions/0").Exact {
				edits = append(edits, Edit{Op: Set, Pointer: "/spec/versions", Value: []any{map[string]any{"name": "v1", "served": true, "storage": true}}})
			}
			if d.Find("/spec/version").Exact {
				edits = append(edits, Edit{Op: Remove, Pointer: "/spec/version"})
			}
			edits = append(edits, Edit{Op: Move, Pointer: "/spec/validation", To: "/spec/versions/0/schema"})
			got, err := Apply(d, edits...)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			// Apart from their indentation, all lines must be preserved.
			lines := map[string]int{}
			for l := range strings.Lines(string(got)) {
				lines[strings.TrimSpace(l)]++
			}
			for l := range strings.Lines(string(src)) {
				l = strings.TrimSpace(l)
				if lines[l]--; lines[l] < 0 && strings.HasPrefix(l, "#") {
					t.Errorf("%s: the comment %q is lost", path, l)
				}
			}
		}
	})
	t.Logf("%d definitions", n)
}

// documents reads all documents of src.
func documents(t testing.TB, src []byte) []*yamlx.Document {
	t.Helper()
	r := yamlx.NewReader(strings.NewReader(string(src)), yamlx.Options{})
	var ds []*yamlx.Document
	for {
		d, err := r.Next()
		if errors.Is(err, io.EOF) {
			return ds
		}
		if err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
}

// pointers returns the pointers of all values of a document, that of the root first.
func pointers(t testing.TB, d *yamlx.Document) []string {
	t.Helper()
	text, err := d.JSON()
	if err != nil {
		return []string{""}
	}
	root, err := jsonx.Parse(text)
	if err != nil {
		return []string{""}
	}
	var all []string
	var visit func(v any, at string)
	visit = func(v any, at string) {
		all = append(all, at)
		if len(all) > 10000 {
			return // aliases can multiply the values
		}
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				visit(v[k], jsonptr.Child(at, k))
			}
		case []any:
			for i := range v {
				visit(v[i], jsonptr.Child(at, strconv.Itoa(i)))
			}
		}
	}
	visit(root, "")
	return all
}
