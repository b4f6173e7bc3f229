package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamlx"
	"espalier.dev/internal/yamlx/yamltest"
)

func TestEdit(t *testing.T) {
	const crd = `# License

apiVersion: v1beta1 # old
kind: CRD
metadata: {name: foos, labels: {a: b}}
spec:
  # the schema
  validation: # c
    openAPIV3Schema:
      type: object # t

      # about x
      properties:
        x: {type: string}
        y:
          description: |
            lines
              more

            # no comment
  # the group
  group: "g"
  versions:
  - name: v1
    served: true
  # second
  - name: v2
    served: false
`
	tests := []struct {
		name, src, want string
		edits           []Edit
	}{
		{"set a scalar, keep its comment", "a: 1 # c\nb: 2\n", "a: x # c\nb: 2\n", []Edit{{Op: Set, Pointer: "/a", Value: "x"}}},
		{"set a mapping", "a: 1 # c\nb: 2\n", "a: # c\n  k:\n  - z\n  x: 1\nb: 2\n", []Edit{{Op: Set, Pointer: "/a", Value: map[string]any{"x": 1, "k": []string{"z"}}}}},
		{"set the value of an empty key", "a:\nb: 2\n", "a: 3\nb: 2\n", []Edit{{Op: Set, Pointer: "/a", Value: 3}}},
		{"add", "a:\n    b: 1\nc: 2\n", "a:\n    b: 1\n    x:\n        k: z\nc: 2\n", []Edit{{Op: Set, Pointer: "/a/x", Value: map[string]any{"k": "z"}}}},
		{"add with parents", "a: 1", "a: 1\nb:\n  c:\n    d: \"1\"", []Edit{{Op: Set, Pointer: "/b/c/d", Value: "1"}}},
		{"add to an empty mapping", "a: {} # c\n", "a: # c\n  b: true\n", []Edit{{Op: Set, Pointer: "/a/b", Value: true}}},
		{"add in braces", "a: {b: 1, c: 2}\n", "a: {b: 1, c: 2, d: [x, \"y\", {k: \"a, b\"}]}\n", []Edit{{Op: Set, Pointer: "/a/d", Value: []any{"x", "y", map[string]any{"k": "a, b"}}}}},
		{"append", "a:\n  - b: 1\n    c: 2 # c\n  # end\nd: 1\n", "a:\n  - b: 1\n    c: 2 # c\n  - k:\n      - 2\n    x: 1\n  # end\nd: 1\n", []Edit{{Op: Set, Pointer: "/a/-", Value: map[string]any{"x": 1, "k": []int{2}}}}},
		{"replace an item", "- a # c\n- b\n", "- # c\n  x: 1\n  \"y\": 2\n- b\n", []Edit{{Op: Set, Pointer: "/0", Value: map[string]any{"x": 1, "y": 2}}}},
		{"strings", "a: b\n", "a: |\n  x\n  y\nb: \"yes\"\nc: \"a: b\"\nd: plain text\ne: \"\"\n", []Edit{{Op: Set, Pointer: "/a", Value: "x\ny\n"}, {Op: Set, Pointer: "/b", Value: "yes"}, {Op: Set, Pointer: "/c", Value: "a: b"}, {Op: Set, Pointer: "/d", Value: "plain text"}, {Op: Set, Pointer: "/e", Value: ""}}},
		{"remove", "a: 1\n# about b\nb: 2 # c\n\nc: 3\n", "a: 1\n\nc: 3\n", []Edit{{Op: Remove, Pointer: "/b"}}},
		{"remove the last", "a:\n  # x\n  b: 1\nc: 2\n", "a: {}\nc: 2\n", []Edit{{Op: Remove, Pointer: "/a/b"}}},
		{"remove the last item", "a: # x\n- b\nc: 2\n", "a: [] # x\nc: 2\n", []Edit{{Op: Remove, Pointer: "/a/0"}}},
		{"remove the first of an item", "- a: 1\n  b: 2\n- c\n", "- b: 2\n- c\n", []Edit{{Op: Remove, Pointer: "/0/a"}}},
		{"remove within braces", "a: {b: 1, c: 2, d: 3}\n", "a: {c: 2}\n", []Edit{{Op: Remove, Pointer: "/a/b"}, {Op: Remove, Pointer: "/a/d"}}},
		{"rename", "a: 1\n\"b\": 2 # c\n", "x y: 1\n\"z\": 2 # c\n", []Edit{{Op: Rename, Pointer: "/a", To: "x y"}, {Op: Rename, Pointer: "/b", To: "z"}}},
		{"move", crd, `# License

apiVersion: v1beta1 # old
kind: CRD
metadata: {name: foos, labels: {a: b}}
spec:
  # the group
  group: "g"
  versions:
  - name: v1
    served: true
  # second
  - name: v2
    served: false
    # the schema
    schema: # c
      openAPIV3Schema:
        type: object # t

        # about x
        properties:
          x: {type: string}
          y:
            description: |
              lines
                more

              # no comment
`, []Edit{{Op: Move, Pointer: "/spec/validation", To: "/spec/versions/1/schema"}}},
		{"copy with comments, order and block scalars", "a:\n  # about z\n  z: |\n    x\n    y\n  b: 'q' # why\nl:\n- n: 1\n", "a:\n  # about z\n  z: |\n    x\n    y\n  b: 'q' # why\nl:\n- n: 1\n  s:\n    # about z\n    z: |\n      x\n      y\n    b: 'q' # why\n",
			[]Edit{{Op: Copy, Pointer: "/a", To: "/l/0/s"}}},
		{"copy in JSON", `{"a":{"b":1},"c":{}}`, `{"a":{"b":1},"c":{"d":{"b":1}}}`, []Edit{{Op: Copy, Pointer: "/a", To: "/c/d"}}},
		{"move lines into braces", "a: # c\n  z: 1 # d\n  b: 2\nl: # e\n- {n: 'v', \"m\":1, o: [1, {p: q}]}\n", "l: # e\n- n: 'v'\n  \"m\": 1\n  o: [1, {p: q}]\n  s: # c\n    z: 1 # d\n    b: 2\n",
			[]Edit{{Op: Move, Pointer: "/a", To: "/l/0/s"}}},
		{"copy lines into braces in brackets", "a:\n  z: 1\nl: [{n: v}, {n: w}]\n", "a:\n  z: 1\nl:\n- {n: v}\n- n: w\n  s:\n    z: 1\n", []Edit{{Op: Copy, Pointer: "/a", To: "/l/1/s"}}},
		{"move lines into braces with a comment", "a:\n  z: 1\nl:\n- {n: v, # c\n  m: w}\n", "l:\n- {n: v, # c\n  m: w,\n  s: {z: 1}}\n", []Edit{{Op: Move, Pointer: "/a", To: "/l/0/s"}}},
		{"move to a place whose parents are missing", "a:\n- b: 1\n- c\nd: e\n", "a:\n- c\nd: e\nx:\n  k:\n    b: 1\n", []Edit{{Op: Move, Pointer: "/a/0", To: "/x/k"}}},
		{"move to a list", "a: # c\n  b: 1\n  c: 2\nd:\n- e\n", "d:\n- e\n# c\n- b: 1\n  c: 2\n", []Edit{{Op: Move, Pointer: "/a", To: "/d/-"}}},
		{"carriage returns", "a: 1\r\nb:\r\n  c: 2\r\n", "a: 1\r\nb:\r\n  c: 2\r\n  d:\r\n    e: f\r\n", []Edit{{Op: Set, Pointer: "/b/d/e", Value: "f"}}},
		{"JSON", "{\n  \"a\": 1,\n  \"b\": {}\n}\n", "{\n  \"a\": 1,\n  \"b\": {\n    \"x\": {\n      \"y\": [\n        1\n      ]\n    }\n  },\n  \"c\": \"d\"\n}\n", []Edit{{Op: Set, Pointer: "/b/x/y", Value: []int{1}}, {Op: Set, Pointer: "/c", Value: "d"}}},
		{"compact JSON", `{"a":1,"b":[1,2]}`, `{"b":[1,3],"c":{"d":null}}`, []Edit{{Op: Remove, Pointer: "/a"}, {Op: Set, Pointer: "/b/1", Value: 3}, {Op: Set, Pointer: "/c/d", Value: nil}}},
		{"an empty document", "---\n# c\n", "---\n# c\na: 1\n", []Edit{{Op: Set, Pointer: "/a", Value: 1}}},
		{"markers", "--- # c\na: 1\n...\n", "--- # c\na: 1\nb: 2\n...\n", []Edit{{Op: Set, Pointer: "/b", Value: 2}}},
		{"pointers evolve", "a:\n- 1\n- 2\n- 3\n", "a:\n- 2\n", []Edit{{Op: Remove, Pointer: "/a/0"}, {Op: Remove, Pointer: "/a/1"}}},
		{"escaped pointers", "a/b:\n  c~d: 1\n", "a/b:\n  c~d: 2\n", []Edit{{Op: Set, Pointer: "/a~1b/c~0d", Value: 2}}},
		{"anchors stay", "a: &x\n  b: 1\nc: *x\nd: 1\n", "a: &x\n  b: 1\nc: *x\nd: 2\n", []Edit{{Op: Set, Pointer: "/d", Value: 2}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := yamlx.Parse([]byte(test.src))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Apply(d, test.edits...)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestEditErrors(t *testing.T) {
	tests := []struct {
		src, want string
		edit      Edit
	}{
		{"a: &x\n  b: 1\nc: *x\n", "alias", Edit{Op: Set, Pointer: "/c/b", Value: 2}},
		{"a: &x\n  b: 1\nc: *x\n", "anchors", Edit{Op: Set, Pointer: "/a/b", Value: 2}},
		{"a: &x {b: 1}\nc:\n  <<: *x\n", "merged", Edit{Op: Remove, Pointer: "/c/b"}},
		{"a: 1\n", "no such value", Edit{Op: Remove, Pointer: "/b"}},
		{"a: 1\n", "neither", Edit{Op: Set, Pointer: "/a/b", Value: 1}},
		{"a: 1\n", "not a JSON pointer", Edit{Op: Set, Pointer: "a", Value: 1}},
		{"a: 1\n", "no JSON form", Edit{Op: Set, Pointer: "/a", Value: func() {}}},
		{"a: [1]\n", "no such value", Edit{Op: Set, Pointer: "/a/7", Value: 1}},
		{"a: 1\nb: 2\n", "already", Edit{Op: Rename, Pointer: "/a", To: "b"}},
		{"a: {b: 1}\n", "into itself", Edit{Op: Move, Pointer: "/a", To: "/a/b/c"}},
		{"a: 1\n", "unknown edit", Edit{Op: "x", Pointer: "/a"}},
		{"? a\n: b\n", "complex key", Edit{Op: Set, Pointer: "/a", Value: 1}},
		{"a: 1\n", "removed", Edit{Op: Remove}},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			d, err := yamlx.Parse([]byte(test.src))
			if err != nil {
				t.Fatal(err)
			}
			got, err := Apply(d, test.edit)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, %v; want an error with %q", got, err, test.want)
			}
		})
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
