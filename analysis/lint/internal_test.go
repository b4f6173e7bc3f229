package lint

import (
	"strings"
	"testing"
)

func TestFollow(t *testing.T) {
	tree := map[string]any{
		"spec": map[string]any{
			"a": map[string]any{"b": 1}, "a.b": map[string]any{"c": 1},
			"p": map[string]any{"x]y": map[string]any{"type": "t"}, "x": 1, "0": 1, "": map[string]any{"a.b": map[string]any{"c": 1}}},
			"l": []any{map[string]any{"n": 1, "a.b": 1}},
		},
	}
	tests := []struct{ path, pointer, again string }{
		{"spec.a", "/spec/a", "spec.a"},
		{"spec.a.b", "/spec/a.b", "spec.a.b"},
		{"spec.a.b.c", "/spec/a.b/c", "spec.a.b.c"},
		{"spec.p[x]y].type", "/spec/p/x]y/type", "spec.p[x]y].type"},
		{"spec.p[x]", "/spec/p/x", "spec.p[x]"},
		{"spec.p[0]", "/spec/p/0", "spec.p[0]"},
		{"spec.p[].a.b.c", "/spec/p//a.b/c", "spec.p[].a.b.c"},
		{"spec.l[0].n", "/spec/l/0/n", "spec.l[0].n"},
		{"spec.l[0].a.b", "/spec/l/0/a.b", "spec.l[0].a.b"},
		{"spec.l[1].a.b", "/spec/l/1/a/b", "spec.l[1].a.b"},
		{"spec.l[x].a.b", "/spec/l/x/a/b", "spec.l[x].a.b"},
		{"spec.l[7].n", "/spec/l/7/n", "spec.l[7].n"},
		{"spec.l[-1].n", "/spec/l/-1/n", "spec.l[-1].n"},
		{"spec.none[a/b].c[3]", "/spec/none/a~1b/c/3", "spec.none[a/b].c[3]"},
		{"", "", ""},
		// Malformed paths are parsed as far as possible.
		{"spec.", "/spec", "spec"}, {"spec[", "/spec", "spec"}, {"[", "", ""}, {"..", "", ""},
	}
	for _, tt := range tests {
		at := root().follow(tree, tt.path)
		if got := at.pointer(); got != tt.pointer {
			t.Errorf("%s: got %s, want %s", tt.path, got, tt.pointer)
		}
		if got := at.path(); got != tt.again {
			t.Errorf("%s: reads %s", tt.path, got)
		}
	}
}

// FuzzFollow parses malformed paths.
func FuzzFollow(f *testing.F) {
	f.Add("spec.versions[0].schema", "a.b")
	f.Add("[[", "]")
	f.Fuzz(func(t *testing.T, path, name string) {
		tree := map[string]any{name: map[string]any{name: []any{name}}}
		at := root().follow(tree, path)
		if n := len(at.steps()); n > len(path) {
			t.Errorf("%d steps in %q", n, path)
		}
		if strings.Count(at.pointer(), "/") != len(at.steps()) {
			t.Errorf("pointer %q of %q", at.pointer(), path)
		}
	})
}
