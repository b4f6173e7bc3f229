package yamlx

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/yamlx/yamltest"
)

// FuzzJSON compares JSON with sigs.k8s.io/yaml on the same document.
func FuzzJSON(f *testing.F) {
	for _, s := range yamltest.Seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := NewReader(bytes.NewReader(src), Options{})
		var whole []byte
		for {
			d, err := r.Next()
			if isEOF(err) {
				break
			}
			if err != nil {
				return
			}
			whole = append(whole, d.Source()...)
			got, err := d.JSON()
			if d.IsJSON() {
				if err != nil {
					t.Fatalf("%v in JSON", err)
				}
				continue
			}
			var v any
			if unmarshal(d.Source(), &v) == nil && ambiguous(v) {
				continue
			}
			want, wantErr := yaml.YAMLToJSON(d.Source())
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("%q: error %v, want %v", d.Source(), err, wantErr)
			}
			if err == nil && !same(t, got, want) {
				t.Fatalf("%q: got %s, want %s", d.Source(), got, want)
			}
		}
		if !bytes.Equal(whole, src) {
			t.Fatalf("the documents add up to %q, want %q", whole, src)
		}
	})
}

// ambiguous reports whether v has keys that become equal in JSON, like 1 and "1": which of
// them wins in sigs.k8s.io/yaml is random.
func ambiguous(v any) bool {
	switch v := v.(type) {
	case map[any]any:
		seen := map[string]bool{}
		for k, v := range v {
			name, err := keyString(k)
			if err == nil && seen[name] || ambiguous(v) {
				return true
			}
			seen[name] = true
		}
	case []any:
		return slices.ContainsFunc(v, ambiguous)
	}
	return false
}

// FuzzPositions reads the text at the positions that Find returns.
func FuzzPositions(f *testing.F) {
	for _, s := range yamltest.Seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := Parse(src)
		if err != nil {
			return
		}
		checkPositions(t, d)
	})
}

// checkPositions checks that Find returns the position of every value of a document.
func checkPositions(t *testing.T, d *Document) {
	t.Helper()
	ix := d.indexed()
	for _, p := range pointers(ix.root, "", nil) {
		s := d.Find(p)
		if !s.Exact {
			t.Fatalf("%q: %s is not found", d.Source(), p)
		}
		for _, at := range []Position{s.Key, s.Value} {
			if at == (Position{}) {
				continue
			}
			line, col := place(d.Source(), at.Offset)
			if line+d.Line()-1 != at.Line || col != at.Column || at.EndOffset < at.Offset || at.EndOffset > len(d.Source()) {
				t.Fatalf("%q: %s is at %+v, want line %d, column %d", d.Source(), p, at, line, col)
			}
		}
	}
	text, err := d.JSON()
	if err != nil || ix.inexact != nil {
		return
	}
	if value, ok := ix.root.Value(1 << 20); ok && len(text) < 1<<16 && !bytes.Contains(d.Source(), []byte("!")) && !same(t, value, text) {
		t.Fatalf("%q: the tree is %s, want %s", d.Source(), value, text)
	}
	checkTexts(t, d, ix.root, false)
}

// checkTexts reads the text of every scalar and key on its own.
func checkTexts(t *testing.T, d *Document, n *Node, flow bool) {
	t.Helper()
	read := func(start, end int, want []byte, isKey bool) {
		text := string(d.Source()[start:end])
		if start == end || text[0] == '|' || text[0] == '>' || isMarker([]byte(text), 0) || n.First != n.Start {
			return
		}
		if flow || isKey && d.IsJSON() {
			text = "[" + text + "]"
			want = []byte("[" + string(want) + "]")
		}
		got, err := yaml.YAMLToJSON([]byte(text))
		if d.IsJSON() {
			got, err = []byte(text), nil
		}
		if err != nil || !same(t, got, want) {
			t.Fatalf("%q: at %d is %q, which is %s (%v), want %s", d.Source(), start, text, got, err, want)
		}
	}
	if n.Kind == Scalar {
		read(n.Start, n.End, n.JSON, false)
	}
	if n.Keyed && !n.Merge {
		if key := plainOrQuoted(d.Source()[n.KeyStart:n.KeyEnd]); key != n.Key {
			t.Fatalf("%q: the key at %d is %q, want %q", d.Source(), n.KeyStart, key, n.Key)
		}
	}
	for _, c := range n.Children {
		checkTexts(t, d, c, n.Flow)
	}
}

// plainOrQuoted reads a key on its own.
func plainOrQuoted(text []byte) string {
	switch text[0] {
	case '"', '\'':
		var p parser
		p.reset(text, true)
		if n, ok := p.quoted(); ok {
			return unquoted(n.JSON)
		}
		return unquoted(text)
	}
	name, _ := keyString(Resolve(string(text)))
	return name
}

// pointers returns the pointers of all nodes of a tree.
func pointers(n *Node, at string, all []string) []string {
	all = append(all, at)
	if strings.Count(at, "/") > 20 || len(all) > 10000 {
		// An anchor may contain itself.
		return all
	}
	n = n.deref()
	for i, c := range n.Children {
		token := strconv.Itoa(i)
		if n.Kind == Mapping {
			if c.Merge || n.Index(c.Key) != i {
				// A later entry of the same name wins.
				continue
			}
			token = c.Key
		}
		all = pointers(c, jsonptr.Child(at, token), all)
	}
	return all
}
