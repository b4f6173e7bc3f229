package suppress

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"espalier.dev/cmd/espalier/internal/config"
	"espalier.dev/internal/yamlx"
)

func someRules() config.Rules {
	return config.Rules{All: []string{"a", "b", "validation/enum"}, Fixed: []string{"syntax"}}
}

// TestComments lists the lines that comments apply to.
func TestComments(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"on a line":         {"x: 1 # espalier:ignore a -- r\ny: 2\n", "1-1 [a]"},
		"above a field":     {"# espalier:ignore a,b -- r\nx:\n  y: 1\n  z:\n  - 1\nw: 2\n", "2-5 [a b]"},
		"above an item":     {"x:\n# espalier:ignore a -- r\n- y: 1\n  z: 2\n- y: 3\n", "3-4 [a]"},
		"above nothing":     {"x: 1\n# espalier:ignore a -- r\n", "0-0 [a]"},
		"other comments":    {"#  espalier:ignore a -- r\n# more\n\n## espalier:ignore b -- r\nx: 1\n", "5-5 [a], 5-5 [b]"},
		"block scalar":      {"x: |\n  # espalier:ignore a -- r\ny: 1\n", ""},
		"below a scalar":    {"x: |\n  text\n# espalier:ignore a -- r\ny: 1\n", "4-4 [a]"},
		"multi-line scalar": {"# espalier:ignore a -- r\nx: >\n  one\n  two\ny: 1\n", "2-4 [a]"},
		"quoted":            {"x: \"# espalier:ignore a -- r\"\n", ""},
		"plain":             {"x: y# espalier:ignore a -- r\n", ""},
		"braces":            {"x: {a: 1, # espalier:ignore a -- r\n  # espalier:ignore b -- r\n  b: {c: 2,\n   d: 3}}\n", "1-1 [a], 3-4 [b]"},
		"carriage returns":  {"x: 1 # espalier:ignore a -- r\r\n# espalier:ignore b -- r\r\ny: 1\r\n", "1-1 [a], 3-3 [b]"},
		"anchors":           {"# espalier:ignore a -- r\nx: &x {y: 1}\n# espalier:ignore b -- r\nz: *x\n", "2-2 [a], 4-4 [b]"},
		"unusual YAML":      {"? x\n: 1\n# espalier:ignore a -- r\ny:\n  z: 1\n", "4-5 [a]"},
		"merge keys":        {"a: &a {x: 1}\n# espalier:ignore a -- r\nb:\n  <<: *a\n  y: '# espalier:ignore b -- r'\n", "3-5 [a]"},
		"pair in a list":    {"x: [a: '# espalier:ignore a -- r', b]\n# espalier:ignore b -- r\ny: 1\n", "3-3 [b]"},
		"JSON":              {`{"x": "# espalier:ignore a -- r"}`, ""},
		"pattern":           {"x: 1 # espalier:ignore validation/* -- r\n", "1-1 [validation/*]"},
		"all":               {"x: 1 # espalier:ignore all -- r\n", "1-1 [] 1"},
		"fixed":             {"x: 1 # espalier:ignore syntax -- r\n", "1-1 [] 1"},
		"no reason":         {"x: 1 # espalier:ignore a --\n", "1-1 [a] 1"},
		"prose":             {"x: 1 # see espalier:ignore a -- r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := yamlx.Parse([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			// The search for comments needs the nodes in the order of the text.
			if nodes := flatten(nil, doc.Nodes()); !slices.IsSortedFunc(nodes, func(a, b *yamlx.Node) int { return cmp.Compare(a.EntryStart(), b.EntryStart()) }) {
				t.Error("the nodes are not in order")
			}
			got := ""
			for i, c := range comments(doc, "f", someRules) {
				if i > 0 {
					got += ", "
				}
				got += fmt.Sprintf("%d-%d %v", c.first, c.last, c.rules)
				if len(c.problems) > 0 {
					got += fmt.Sprintf(" %d", len(c.problems))
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestNoComments makes sure that documents without comments are only searched: they are
// not parsed.
func TestNoComments(t *testing.T) {
	doc, err := yamlx.Parse(bytes.Repeat([]byte("- {x: 1, y: 2} # a comment\n"), 10_000))
	if err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(10, func() {
		if comments(doc, "f", func() config.Rules { t.Error("looked up the rules"); return config.Rules{} }) != nil {
			t.Error("found comments")
		}
	})
	if allocations > 0 {
		t.Errorf("%g allocations", allocations)
	}
}
