package yamlx

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// seeds are texts that show what YAML can be.
func seeds() []string {
	return []string{
		"", "\n", "# only a comment\n", "---\n", "--- # c\na: 1\n", "---\na: 1\n...\n", "a: 1\n---\nb: 2\n", "%YAML 1.1\n---\na: 1\n",
		"\ufeffa: 1\n", "a: 1\r\nb:\r\n- c\r\n- d\r\n", "a:\tb\n", "a: b\t# c\n", "a:\n\tb: 1\n",
		"a: 1\nb: two\nc: [1, 2, {x: y}]\nd: {a: b, c: , \"d\":1}\n",
		"yes: no\non: off\n1: 2\n1.5: x\n~: y\n", "n: y\ny: n\n", "a: 0777\nb: 0o17\nc: 0b11\nd: 1_000\ne: .5\nf: 1e3\ng: +1\nh: -0b11\ni: 0x1F\n",
		"a: .inf\n", "a: -.INF\n", "a: .nan\n", "a: 12345678901234567890\nb: 123456789012345678901234567890\nc: -9223372036854775808\nd: 1.0\ne: 08\n",
		"a: 2001-01-01\nb: 2001-12-14t21:59:43.10-05:00\n2001-01-01: c\n", "a: !!binary aGVsbG8=\nb: !!str 12\nc: !!int \"3\"\nd: !foo bar\ne: ! 12\n",
		"a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n", "a: &x 1\nb: [*x, *x]\n", "<<: {a: 1}\na: 2\n", "a: &a [*a]\n", "? a\n: b\n", "? [a]\n: b\n", "[a]: b\n",
		"a: 'it''s'\nb: \"x\\ty\\u00e9\\x41\"\nc: 'a\n\n  b\n  c'\nd: \"a \\\n   b\\\n\n  c\"\n", "a: \"\\/\"\n", "a: \"\\ud800\"\n", "a: 'x': y\n", "\"a\" : 1\n'b': 2\n",
		"a: |\n  x\n   y\n\n  z\n\nb: >-\n  x\n  y\n\n  z\n   w\n  v\nc: |+\n  x\n\nd: |2\n   x\ne: >+2\n  x\n", "a: |\n\n\n  x\n", "a: |\n    \n  x\n", "- |\n x\n- >\n y\n", "a: |", "a: |\n  x", "a: |\n  x\n  ",
		"a: b\n  c\n\n  d\n  # x\ne: f\n", "a:\n  b\n  c\nd: e\n", "a: b\n  - c\n", "a: b: c\n", "a: b #c\nd: e#f\n", "a: -1\nb: -x\nc: --- x\nd: - x\n", "a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\ni:\n  - j\n",
		"a:\n    b: 1\n   c: 2\n", "a: [\n  1,\n  2, # x\n]\n", "a: {b: [c: d]}\n", "a: [a, , b]\n", "a: [a,]\n", "{a: 1, b}\n", "{\"a\": 1}\n{\"b\": 2}\n", "{\"a\":\"\\/\"}", "{\"a\": 1} # c\n", "[1,2]", "[1,2]\n---\na: b\n",
		"a: \u2028b\n", "a: \u0085\n", "a: \x00\n", "a: \xff\n", "\xff\xfea\x00", "a: @b\n", "a: `b\n", "a: %b\n", "%a: b\n", "-a: b\n", "?a: b\n", ":a: b\n", "a: :b\n", "a: ?b\n", "a: *b\n", "a: \"b\n", "a: 'b\n",
		"text\n", "'text'\n", "12\n", "- a\nb: c\n", "a: b\n- c\n", "a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a:   \n  b\n", "- # c\n  a: b\n", "a: # c\n  b: c\n", "a: # c\n- b\n", "a: {}\nb: []\n", "a : b\n", "a:b\n", "a: {x: 'y\n  z'}\n", "a: [x\n  y]\n", "a: [x\n\t]\n",
		"a: x\n b: y\n", "a: x\n---\n", "a: 'x\n---\n'\n", "a: \"x\n...\n\"\n", "key with spaces: v\nother/key.io: w\n\"q\\\"k\": 1\n", "a: {b: c}d\n", "a: \"b\"c\n", "a: [b]#c\n", "a: {? b : c}\n", "a: [b?c]\n", "a: {b:c}\n", "a: {'b':c}\n",
	}
}

// FuzzJSON holds JSON to what sigs.k8s.io/yaml says of the same document.
func FuzzJSON(f *testing.F) {
	for _, s := range seeds() {
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
			if v, err := unmarshal(d.Source()); err == nil && ambiguous(v) {
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
			t.Fatalf("the documents together are %q, want %q", whole, src)
		}
	})
}

// ambiguous says whether v has keys that become the same in JSON, like 1 and "1":
// which of them wins sigs.k8s.io/yaml leaves to chance.
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

// FuzzPositions reads the text at the places that Find names.
func FuzzPositions(f *testing.F) {
	for _, s := range seeds() {
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

// checkPositions makes sure that Find finds every value of a document where it stands.
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
	if err != nil || !ix.exact {
		return
	}
	if w := (treeWriter{limit: 1 << 20}); len(text) < 1<<16 && w.value(ix.root) && !bytes.Contains(d.Source(), []byte("!")) && !same(t, w.out, text) {
		t.Fatalf("%q: the tree is %s, want %s", d.Source(), w.out, text)
	}
	checkTexts(t, d, ix.root, false)
}

// checkTexts reads the text of every scalar and key on its own.
func checkTexts(t *testing.T, d *Document, n *node, flow bool) {
	t.Helper()
	read := func(start, end int, want []byte, isKey bool) {
		text := string(d.Source()[start:end])
		if start == end || text[0] == '|' || text[0] == '>' || isMarker([]byte(text), 0) || n.first != n.start {
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
	if n.kind == scalar {
		read(n.start, n.end, n.json, false)
	}
	if n.keyed && !n.merge {
		if key := plainOrQuoted(d.Source()[n.keyStart:n.keyEnd]); key != n.key {
			t.Fatalf("%q: the key at %d is %q, want %q", d.Source(), n.keyStart, key, n.key)
		}
	}
	for _, c := range n.children {
		checkTexts(t, d, c, n.flow)
	}
}

// plainOrQuoted reads a key on its own.
func plainOrQuoted(text []byte) string {
	switch text[0] {
	case '"', '\'':
		var p parser
		p.reset(text, true)
		if n, ok := p.quoted(); ok {
			return unquoted(n.json)
		}
		return unquoted(text)
	}
	name, _ := keyString(resolve(string(text)))
	return name
}

// FuzzEdit makes edits at random. Edit itself makes sure that their values are right.
func FuzzEdit(f *testing.F) {
	for i, s := range seeds() {
		f.Add([]byte(s), uint64(i), "text")
	}
	f.Fuzz(func(t *testing.T, src []byte, seed uint64, text string) {
		d, err := Parse(src)
		if err != nil || !utf8.ValidString(text) {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 0))
		all := append(pointers(d.indexed().root, "", nil), "/new", "/new/-/x", "/-")
		pick := func() string { return all[rnd.IntN(len(all))] }
		values := []any{text, seed, nil, map[string]any{text: []any{text, map[string]any{"a": text, "b": []any{1}}}}, []any{}, []any{text, []any{text}}, true, 1.5}
		var edits []Edit
		for range 1 + rnd.IntN(2) {
			e := Edit{Op: []Op{Set, Remove, Rename, Move, Copy}[rnd.IntN(5)], Pointer: pick(), Value: values[rnd.IntN(len(values))]}
			switch e.Op {
			case Rename:
				e.To = text
			case Move, Copy:
				e.To = pick() + []string{"", "/-", "/x"}[rnd.IntN(3)]
			}
			edits = append(edits, e)
		}
		got, err := d.Edit(edits...)
		if err != nil {
			if strings.Contains(err.Error(), "the result") && !tolerated(err) && !bytes.ContainsAny(src, "&*!") {
				t.Errorf("%q: %+v: %v", src, edits, err)
			}
			return
		}
		if _, err := Parse(got); err != nil {
			t.Fatalf("%q: %+v: %q: %v", src, edits, got, err)
		}
	})
}
