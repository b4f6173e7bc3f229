package fix

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// newEditor returns the editor of a document in YAML.
func newEditor(t *testing.T, text string) *editor {
	t.Helper()
	return &editor{tree: value(t, text)}
}

func value(t *testing.T, text string) any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := jsonx.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestEdits applies edits to a tree, and compares the result with that of package yamledit, which applies
// them to the text.
func TestEdits(t *testing.T) {
	const document = "a: {b: 1, l: [x, {k: 2}, z]}\no: null\n"
	set, remove := yamledit.Set, yamledit.Remove
	for _, tt := range []struct {
		edits []analysis.Edit
		want  string // the tree, or the error after !
	}{
		{[]analysis.Edit{{Op: set, Pointer: "/a/b", Value: "c"}}, `{"a":{"b":"c","l":["x",{"k":2},"z"]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/c/d", Value: true}}, `{"a":{"b":1,"c":{"d":true},"l":["x",{"k":2},"z"]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/o/d", Value: true}}, `{"a":{"b":1,"l":["x",{"k":2},"z"]},"o":{"d":true}}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/0", Value: true}}, `{"a":{"b":1,"l":[true,{"k":2},"z"]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/2", Value: true}}, `{"a":{"b":1,"l":["x",{"k":2},true]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/-", Value: true}}, `{"a":{"b":1,"l":["x",{"k":2},"z",true]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/3", Value: true}}, `{"a":{"b":1,"l":["x",{"k":2},"z",true]},"o":null}`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/4", Value: true}}, `!cannot add a value at /a/l/4`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/-1", Value: true}}, `!cannot add a value at /a/l/-1`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/l/x", Value: true}}, `!cannot add a value at /a/l/x`},
		{[]analysis.Edit{{Op: set, Pointer: "/a/b/c", Value: true}}, `!cannot add a value at /a/b/c`},
		{[]analysis.Edit{{Op: set, Pointer: "", Value: true}}, `!cannot edit the document root`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/l/1"}}, `{"a":{"b":1,"l":["x","z"]},"o":null}`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/l/2"}, {Op: remove, Pointer: "/a/l/0"}}, `{"a":{"b":1,"l":[{"k":2}]},"o":null}`},
		{[]analysis.Edit{{Op: remove, Pointer: "/o"}, {Op: remove, Pointer: "/a/l/1/k"}}, `{"a":{"b":1,"l":["x",{},"z"]}}`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/c"}}, `!/a/c not found`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/l/3"}}, `!/a/l/3 not found`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/l/-1"}}, `!/a/l/-1 not found`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/l/y"}}, `!/a/l/y not found`},
		{[]analysis.Edit{{Op: remove, Pointer: "/a/b/c"}}, `!/a/b/c not found`},
		{[]analysis.Edit{{Op: yamledit.Rename, Pointer: "/a/b", To: "c/d"}}, `{"a":{"c/d":1,"l":["x",{"k":2},"z"]},"o":null}`},
		{[]analysis.Edit{{Op: yamledit.Move, Pointer: "/a/l/1", To: "/p"}}, `{"a":{"b":1,"l":["x","z"]},"o":null,"p":{"k":2}}`},
		{[]analysis.Edit{{Op: yamledit.Move, Pointer: "/a/b", To: "/o/c"}}, `{"a":{"l":["x",{"k":2},"z"]},"o":{"c":1}}`},
		// A copy does not change with the original.
		{[]analysis.Edit{{Op: yamledit.Copy, Pointer: "/a/l", To: "/m"}, {Op: set, Pointer: "/m/1/k", Value: "c"}, {Op: set, Pointer: "/a/l/0", Value: "d"}},
			`{"a":{"b":1,"l":["d",{"k":2},"z"]},"m":["x",{"k":"c"},"z"],"o":null}`},
		{[]analysis.Edit{{Op: "swap", Pointer: "/a/b"}}, `!unknown edit "swap"`},
		// No edit is made after one that is not possible.
		{[]analysis.Edit{{Op: remove, Pointer: "/c"}, {Op: remove, Pointer: "/d"}, {Op: remove, Pointer: "/o"}}, `!/c not found`},
	} {
		t.Run(fmt.Sprint(tt.edits), func(t *testing.T) {
			e := newEditor(t, document)
			for _, edit := range tt.edits {
				e.do(edit)
			}
			problem, fails := strings.CutPrefix(tt.want, "!")
			if fails {
				if e.err == nil || e.err.Error() != problem || len(e.edits) != 0 {
					t.Errorf("the error is %v after %v", e.err, e.edits)
				}
				if got, want := text(t, e.tree), text(t, value(t, document)); got != want {
					t.Errorf("the tree is %s", got)
				}
				return
			}
			if got := text(t, e.tree); e.err != nil || got != tt.want {
				t.Errorf("got %s, %v, want %s", got, e.err, tt.want)
			}
			doc, err := yamlx.Parse([]byte(document))
			if err != nil {
				t.Fatal(err)
			}
			edited, err := yamledit.Apply(doc, e.edits...)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, value(t, string(edited))); got != tt.want {
				t.Errorf("the text is %s, want %s", got, tt.want)
			}
		})
	}
}

// TestSetCopies checks that later edits do not change the value of an earlier one.
func TestSetCopies(t *testing.T) {
	e := newEditor(t, "{}")
	e.set(map[string]any{"b": "c"}, "a")
	e.set("d", "a", "b")
	if got, want := text(t, e.edits[0].Value), `{"b":"c"}`; e.err != nil || got != want {
		t.Errorf("the value is %s, %v", got, e.err)
	}
}

// TestBecome checks that a value becomes another one with few edits.
func TestBecome(t *testing.T) {
	for _, tt := range []struct{ have, want, edits string }{
		{`{a: 1}`, `{a: 1}`, ""},
		{`{a: 1}`, `{a: 2, b: null}`, "set /v/a 2, set /v/b null"},
		{`{a: 1, b: {c: 1, d: 2}}`, `{b: {c: 3}}`, "remove /v/a, remove /v/b/d, set /v/b/c 3"},
		{`{a: 1}`, `[]`, "set /v []"},
		{`[1]`, `{}`, "set /v {}"},
		{`[1, 2, 3]`, `[1, 4, 3]`, "set /v/1 4"},
		{`[1, 2, 3, 4]`, `[2, 4]`, "remove /v/2, remove /v/0"},
		{`[1, 2, 3]`, `[3, 2]`, "set /v [3,2]"},
		{`[1, 2]`, `[1, 2, 3]`, "set /v [1,2,3]"},
		{`[1, 2]`, `[]`, "set /v []"},
		{`[]`, `[]`, ""},
		{`[]`, `[1]`, "set /v [1]"},
		{`null`, `null`, ""},
		{`a`, `b`, `set /v "b"`},
	} {
		e := newEditor(t, "v: "+tt.have)
		e.become(value(t, tt.want), "v")
		var edits []string
		for _, edit := range e.edits {
			line := fmt.Sprintf("%s %s", edit.Op, edit.Pointer)
			if edit.Op == yamledit.Set {
				line += " " + text(t, edit.Value)
			}
			edits = append(edits, line)
		}
		if got := strings.Join(edits, ", "); got != tt.edits || e.err != nil {
			t.Errorf("%s to %s: %s, %v, want %s", tt.have, tt.want, got, e.err, tt.edits)
		}
		if got, want := text(t, e.object()["v"]), text(t, value(t, tt.want)); got != want {
			t.Errorf("%s becomes %s, not %s", tt.have, got, want)
		}
	}
	e := newEditor(t, "{}")
	if e.become(nil, "v"); len(e.edits) != 1 {
		t.Errorf("a missing value becomes null with %v", e.edits)
	}
}
