package assist

import (
	"strings"
	"testing"

	"espalier.dev/analysis/explain"
)

// TestCode formats texts with backticks, which must not end the code early.
func TestCode(t *testing.T) {
	for text, want := range map[string]string{
		"a":        "`a`",
		"a`b":      "``a`b``",
		"`a``b":    "``` `a``b ```",
		"a```b``c": "````a```b``c````",
	} {
		if got := code(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	// A time that grows with the square of the length would take hours.
	long := strings.Repeat("`", 1<<20)
	if got := code(long); len(got) != 3*len(long)+4 {
		t.Errorf("%d bytes", len(got))
	}
}

// TestRuleFence shows rules whose text has what ends a block of code.
func TestRuleFence(t *testing.T) {
	f := &explain.Field{Rules: []explain.Rule{{Rule: "self == '````'"}}}
	text := strings.Join(fieldParagraphs(f, nil), "\n")
	if want := "`````cel\nself == '````'\n`````"; !strings.Contains(text, want) {
		t.Errorf("%s, want %s", text, want)
	}
}
