package assist_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/explain"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// TestCompleteCorpus expects that the keys of the objects of the corpus are offered where they are,
// and where they would be if the text ended before them.
func TestCompleteCorpus(t *testing.T) {
	root := testcase.Corpus(t)
	index, err := os.ReadFile(filepath.Join(root, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	definitions := map[string]*crd.Definition{}
	keys := 0
	for i, line := range testcase.Part(strings.Split(strings.TrimSpace(string(index)), "\n")[1:]) {
		if testing.Short() && i%4 > 0 {
			continue
		}
		columns := strings.Split(line, "\t")
		d, known := definitions[columns[1]]
		if !known {
			text, err := os.ReadFile(filepath.Join(root, columns[1]))
			if err != nil {
				t.Fatal(err)
			}
			d, _ = definition(text) // some cannot be read
			definitions[columns[1]] = d
		}
		text, err := os.ReadFile(filepath.Join(root, columns[0]))
		if err != nil || d == nil {
			continue
		}
		doc, err := yamlx.NewReader(bytes.NewReader(text), yamlx.Options{}).Next()
		if err != nil {
			continue
		}
		tree, err := doc.Tree()
		v := d.Version(columns[2][strings.LastIndexByte(columns[2], '/')+1:])
		if err != nil || v == nil {
			continue
		}
		keys += offered(t, columns[0], doc.Source(), tree, v)
		if t.Failed() {
			return
		}
	}
	if keys == 0 {
		t.Fatal("no key of the corpus is specified")
	}
	t.Logf("%d keys", keys)
}

// mostKeys limits the keys of an object that are tried.
const mostKeys = 12

// offered checks some keys of an object.
func offered(t *testing.T, file string, src []byte, tree *yamlx.Node, v *crd.Version) (keys int) {
	type place struct {
		key  *yamlx.Node
		path schema.Path
	}
	var all []place
	var visit func(n *yamlx.Node, path schema.Path)
	visit = func(n *yamlx.Node, path schema.Path) {
		for i, c := range n.Children {
			step := schema.Step{Key: c.Key}
			if !c.Keyed {
				step = schema.Step{Kind: schema.Index, Index: i}
			} else if !c.Merge {
				all = append(all, place{c, path})
			}
			visit(c, append(slices.Clone(path), step))
		}
	}
	visit(tree, nil)
	env := assist.Env{Version: v}
	for i := 0; i < len(all); i += 1 + len(all)/mostKeys {
		p := all[i]
		doc, err := explain.DescribeAt(v, p.path)
		if err != nil || !slices.ContainsFunc(doc.Field.Fields, func(f *explain.Field) bool { return f.Name == p.key.Key }) {
			continue
		}
		if !v.Definition().Namespaced() && p.key.Key == "namespace" {
			continue
		}
		keys++
		for what, text := range map[string][]byte{"as it is": src, "without the rest": src[:p.key.KeyStart]} {
			if what != "as it is" && inBraces(src[:p.key.KeyStart]) {
				continue
			}
			items := assist.Complete(text, p.key.KeyStart, env)
			if !slices.ContainsFunc(items, func(i assist.Item) bool { return i.Label == p.key.Key }) {
				t.Errorf("%s, %s: offset %d: %s is not offered in %s: %d items, place %+v", file, what, p.key.KeyStart, p.key.Key,
					p.path, len(items), assist.Locate(text, p.key.KeyStart).Path)
			}
		}
	}
	return keys
}

// inBraces reports whether a text may end in braces, where the last entry may not be complete.
func inBraces(text []byte) bool { return bytes.ContainsAny(text, "{\"'") }
