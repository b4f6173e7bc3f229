package jsonptr_test

import (
	"slices"
	"testing"

	"espalier.dev/internal/jsonptr"
)

func TestNewAndSplit(t *testing.T) {
	for want, tokens := range map[string][]string{
		"":             nil,
		"/":            {""},
		"//a":          {"", "a"},
		"/a~1b/m~0n":   {"a/b", "m~n"},
		"/~01/~0~1":    {"~1", "~/"},
		"/spec/0/-/ä/": {"spec", "0", "-", "ä", ""},
	} {
		if got := jsonptr.New(tokens...); got != want {
			t.Errorf("New(%q) = %q, want %q", tokens, got, want)
		}
		if got := jsonptr.Split(want); !slices.Equal(got, tokens) {
			t.Errorf("Split(%q) = %q, want %q", want, got, tokens)
		}
	}
	if got := jsonptr.Child("/a", "b/c", "0"); got != "/a/b~1c/0" {
		t.Errorf("Child = %q", got)
	}
}

func TestValidAndParse(t *testing.T) {
	for p, want := range map[string]bool{"": true, "/": true, "/a": true, "a": false, "a/b": false} {
		if got := jsonptr.Valid(p); got != want {
			t.Errorf("Valid(%q) = %v", p, got)
		}
		if tokens, err := jsonptr.Parse(p); (err == nil) != want || want && !slices.Equal(tokens, jsonptr.Split(p)) {
			t.Errorf("Parse(%q) = %q, %v", p, tokens, err)
		}
	}
}

func TestCut(t *testing.T) {
	if token, rest := jsonptr.Cut("/a~1b/c"); token != "a/b" || rest != "/c" {
		t.Errorf("Cut = %q, %q", token, rest)
	}
	if token, rest := jsonptr.Cut("/c"); token != "c" || rest != "" {
		t.Errorf("Cut = %q, %q", token, rest)
	}
}

func TestParent(t *testing.T) {
	for p, want := range map[string]string{"/a/b": "/a", "/a": "", "": "", "/a/": "/a"} {
		if got := jsonptr.Parent(p); got != want {
			t.Errorf("Parent(%q) = %q, want %q", p, got, want)
		}
	}
}

func TestCutPrefix(t *testing.T) {
	for _, c := range []struct {
		p, prefix, rest string
		ok              bool
	}{
		{"/a/b", "/a", "/b", true},
		{"/a", "/a", "", true},
		{"/a/b", "", "/a/b", true},
		{"/ab", "/a", "/ab", false},
		{"/a", "/a/b", "/a", false},
	} {
		if rest, ok := jsonptr.CutPrefix(c.p, c.prefix); rest != c.rest || ok != c.ok {
			t.Errorf("CutPrefix(%q, %q) = %q, %v", c.p, c.prefix, rest, ok)
		}
	}
}

func TestCompare(t *testing.T) {
	want := []string{"", "/a", "/a/2", "/a/10", "/a/10/b", "/a/b", "/b"}
	got := []string{"/b", "/a/10/b", "", "/a/b", "/a/10", "/a", "/a/2"}
	slices.SortFunc(got, jsonptr.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDisplay(t *testing.T) {
	for _, c := range []struct{ p, plain, keyed string }{
		{"", "", ""},
		{"/spec/versions/0/name", "spec.versions[0].name", "spec.versions[0].name"},
		{"/properties/a.b/type", "properties.a.b.type", "properties[a.b].type"},
		{"/properties/properties/type", "properties.properties.type", "properties[properties].type"},
		{"/0/a~1b", "[0].a/b", "[0].a/b"},
	} {
		if got := jsonptr.Display(c.p); got != c.plain {
			t.Errorf("Display(%q) = %q, want %q", c.p, got, c.plain)
		}
		if got := jsonptr.Display(c.p, "properties"); got != c.keyed {
			t.Errorf("Display(%q, properties) = %q, want %q", c.p, got, c.keyed)
		}
	}
}

func TestFromPath(t *testing.T) {
	for path, want := range map[string]string{
		"":                      "",
		"spec.versions[0].name": "/spec/versions/0/name",
		"properties[a.b/c].x":   "/properties/a.b~1c/x",
		"a[0][1]":               "/a/0/1",
		"a[b":                   "/a/b",
	} {
		if got := jsonptr.FromPath(path); got != want {
			t.Errorf("FromPath(%q) = %q, want %q", path, got, want)
		}
	}
}
