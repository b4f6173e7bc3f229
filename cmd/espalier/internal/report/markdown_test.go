package report

import (
	"strings"
	"testing"

	"espalier.dev/analysis"
)

func TestMarkdownText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                     "`plain`",
		"a`b":                       "``a`b``",
		"`x``":                      "``` `x`` ```",
		"spec.x\nwith a line break": "`spec.x with a line break`",
	} {
		if got := codeSpan(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got, want := escapeMarkdown("<b>*x* [a](b) @user #1 `c` a|b"), "&lt;b&gt;\\*x\\* \\[a\\](b) &#64;user &#35;1 \\`c\\` a\\|b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestTextEscapes makes sure that no line of text begins with a part of a file name: a line that
// begins with :: is a command of GitHub.
func TestTextEscapes(t *testing.T) {
	t.Parallel()
	out, _ := write(t, Options{Outputs: []string{"text"}}, Finding{File: "a\n::error::b", Finding: analysis.Finding{Message: "m"}})
	if strings.Contains(out, "\n::") {
		t.Errorf("%q", out)
	}
}
