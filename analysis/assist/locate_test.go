package assist

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"espalier.dev/internal/jsonptr"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
)

// TestLocateCorpus compares the places of all keys and values of the corpus with the tree of a
// parser.
func TestLocateCorpus(t *testing.T) {
	root := testcase.Corpus(t)
	var files []string
	for _, pattern := range []string{"v1*/*/*.yaml", "cr/*/*.yaml", "cr-braces/*/*.yaml", "cr-invalid/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	documents, places := 0, 0
	for i, file := range testcase.Part(files) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := yamlx.NewReader(bytes.NewReader(text), yamlx.Options{})
		for {
			d, err := r.Next()
			if err != nil {
				break
			}
			tree, err := d.Tree()
			if err != nil || d.Empty() {
				continue
			}
			documents++
			// The outline is the same for all cursors: a sample of the places shows whether Locate finds them.
			places += agree(t, file, d.Source(), tree, 40)
			if t.Failed() {
				return
			}
		}
	}
	if documents == 0 || places == 0 {
		t.Fatal("the corpus has no documents")
	}
	t.Logf("%d documents, %d places", documents, places)
}

// agree locates at most n of the keys and values of a tree, and compares the whole outline with it.
func agree(t *testing.T, file string, src []byte, tree *yamlx.Node, n int) (places int) {
	t.Helper()
	var all []expected
	collect(&all, "", tree)
	own := map[int]string{}
	s := scan(src, 0)
	var visit func(n *node)
	visit = func(n *node) {
		if n.keyed {
			own[n.keyStart] = n.path().Pointer()
		}
		for _, c := range n.children {
			visit(c)
		}
	}
	visit(s.root)
	for _, e := range all {
		if e.key && own[e.offset] != e.pointer {
			t.Errorf("%s: at offset %d the outline has %q, the tree %q", file, e.offset, own[e.offset], e.pointer)
			return 0
		}
	}
	for i := 0; i < len(all); i += 1 + len(all)/n {
		e := all[i]
		p := Locate(src, e.offset)
		want := Value
		if e.key {
			want = Key
		}
		if p.Path.Pointer() != e.pointer || p.Position != want {
			t.Errorf("%s: at offset %d: %s %s, want %s %s", file, e.offset, p.Position, p.Path.Pointer(), want, e.pointer)
			return 0
		}
		places++
	}
	return places
}

// expected is a key or value of a tree.
type expected struct {
	offset  int
	pointer string
	key     bool
}

func collect(all *[]expected, pointer string, n *yamlx.Node) {
	for _, c := range n.Children {
		if c.Merge || n.Kind == yamlx.Alias {
			continue
		}
		at := pointer + "/" + index(n, c)
		if c.Keyed {
			*all = append(*all, expected{c.KeyStart, at, true})
		}
		if c.Kind == yamlx.Scalar && c.End > c.Start {
			*all = append(*all, expected{offset: c.End - 1, pointer: at})
		}
		collect(all, at, c)
	}
}

// index returns the token of a child.
func index(n, child *yamlx.Node) string {
	if child.Keyed {
		return jsonptr.Escape(child.Key)
	}
	return strconv.Itoa(slices.Index(n.Children, child))
}
