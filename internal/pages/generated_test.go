package pages

import "testing"

func TestGeneratedMarkdown(t *testing.T) {
	for name, c := range map[string]struct{ got, want string }{
		"table":   {Table([]string{"a", "b"}, [][]string{{"x|y", ""}}), "| a | b |\n|---|---|\n| x\\|y | |\n"},
		"code":    {Code("a`b"), "`` a`b ``"},
		"escaped": {Escape("a <b> `c <d>` *"), "a \\<b> `c <d>` \\*"},
		"help": {Help("A text\nwith lines.\n\n  a: 1\n\n  b: 2\n\nThe *end*.\n"),
			"A text\nwith lines.\n\n```text\na: 1\n\nb: 2\n```\n\nThe \\*end\\*.\n"},
		"code at the end": {Help("Text:\n\n  code\n"), "Text:\n\n```text\ncode\n```\n"},
		"difference":      {firstDifference("a\nb\n", "a\nc\n"), "line 2 is\nb\nand should be\nc"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

// recorder records errors in place of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Helper()               {}

// TestGeneratedIsStale checks that a page that differs is an error.
func TestGeneratedIsStale(t *testing.T) {
	g := Generator{Command: "make golden"}
	for name, check := range map[string]func(testing.TB){
		"other text":  func(t testing.TB) { g.File(t, "go.mod", "module other\n") },
		"no page":     func(t testing.TB) { g.Page(t, "docs/missing.md", "# Missing\n") },
		"other files": func(t testing.TB) { g.Only(t, "internal/pages", "pages.go") },
	} {
		r := &recorder{TB: t}
		if check(r); !r.failed {
			t.Errorf("%s: no error", name)
		}
	}
}
