package lint

import (
	"slices"
	"strings"
	"testing"
)

func TestLacks(t *testing.T) {
	tests := []struct {
		pattern string
		want    []string
	}{
		{`^(?=.*a)(?!b)(?<=c)(?<!d)`, []string{"lookahead (?=…)", "negative lookahead (?!…)", "lookbehind (?<=…)", "negative lookbehind (?<!…)"}},
		{`(a)\1\1`, []string{`backreferences (\1)`}},
		{`(?P<n>a)(?P=n)\k<n>`, []string{"named backreferences (?P=…)", `named backreferences (\k)`}},
		{`(?>a)b++`, []string{"atomic groups (?>…)", "possessive quantifiers (++)"}},
		{`\u00e9\Z`, []string{`\u: write \x{…}`, `\Z`}},
		{`\k<`, []string{`named backreferences (\k)`}}, {`\g'x'`, []string{`named backreferences (\g)`}}, {`\k{x}`, []string{`named backreferences (\k)`}},
		{`(a)\9`, []string{`backreferences (\9)`}}, {`a*+b?+c{2}+`, []string{"possessive quantifiers (*+)", "possessive quantifiers (?+)", "possessive quantifiers (}+)"}},
		{`(?(1)a|b)`, []string{"conditionals (?(…)…)"}},
		{`[]](?!a)`, []string{"negative lookahead (?!…)"}}, {`[^]](?!a)`, []string{"negative lookahead (?!…)"}},
		// Near misses.
		{`\d{2}\s<\w'`, nil}, {`*+`, nil}, {`?+a`, nil}, {`\(?=a\)`, nil}, {`[(?=]`, nil}, {`[\1]`, nil}, {`\\1`, nil}, {`[]a(?!]`, nil}, {`[^](?!]`, nil}, {`a+?b*?`, nil}, {`(?i:a)(?P<x>b)(?<y>c)`, nil}, {`(`, nil}, {`\`, nil}, {`\k`, nil}, {`\ga`, nil}, {`\0`, nil}, {`a+`, nil}, {`[a`, nil}, {`[`, nil}, {``, nil}, {`+`, nil},
	}
	for _, tt := range tests {
		var want []string
		for _, w := range tt.want {
			want = append(want, "RE2 has no "+w)
		}
		if got := lacks(tt.pattern); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.pattern, got, want)
		}
	}
}

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

// TestValue looks up places that a document does not have.
func TestValue(t *testing.T) {
	tree := map[string]any{"l": []any{"a"}, "s": "x"}
	l := root().child("l")
	for _, at := range []*place{l.key("x"), l.index(1), l.index(0).child("a"), root().child("s", "x"), root().child("m")} {
		if v, ok := at.value(tree); ok || v != nil || at.exists(tree) {
			t.Errorf("%s: got %v", at.path(), v)
		}
	}
	if v, ok := l.index(0).value(tree); !ok || v != "a" || !l.index(0).exists(tree) {
		t.Errorf("got %v", v)
	}
	if remove(tree, root()) || remove(tree, l.key("x")) || remove(tree, l.index(1)) || remove(tree, root().child("s", "x")) || remove(tree, root().child("m")) {
		t.Error("something was removed")
	}
	if !remove(tree, l.index(0)) || remove(tree, l.index(0)) || !remove(tree, root().child("s")) || len(tree) != 1 {
		t.Errorf("left: %v", tree)
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

// TestParsePath checks which JSONPath expressions are understood, and their steps.
func TestParsePath(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "",
		".a":                ".a=a",
		".a.b":              ".a=a .b=b",
		".a[0].b":           ".a=a [0]=[] .b=b",
		".a[*]":             ".a=a [*]=[]",
		".a[-1:]":           ".a=a [-1:]=[]",
		".a['b.c']":         ".a=a ['b.c']=b.c",
		`.a["b"]`:           `.a=a ["b"]=b`,
		`.a\.b.c`:           `.a\.b=a.b .c=c`,
		`.a[?(@.x=="y")].b`: `.a=a [?(@.x=="y")]=[] .b=b`,
		".":                 "!",
		".a.":               "!",
		"a":                 "!",
		".a[":               "!",
		".a[b]":             "!",
		".a['b]":            "!",
		".a[?(@.x":          "!",
		".*":                "!",
		".{a}":              "!",
		".a b":              "!",
		`.a\`:               "!",
	} {
		steps, ok := parsePath(text)
		var got []string
		for _, s := range steps {
			name := s.name
			if s.items {
				name = "[]"
			}
			got = append(got, s.text+"="+name)
		}
		if !ok {
			got = append(got, "!")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", text, got, want)
		}
	}
}
