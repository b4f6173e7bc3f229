package main

import (
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/suppress"
	"espalier.dev/internal/yamlx"
)

// TestSuppressed writes the comment that suppresses a finding where YAML allows one.
func TestSuppressed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, rule string
		line             int
		want             string
	}{
		{"at the end of the line", "a: 1\nb: 2\n", "one", 2, "a: 1\nb: 2 # espalier:ignore one -- reason\n"},
		{"without a line break", "a: 1", "one", 1, "a: 1 # espalier:ignore one -- reason"},
		{"with carriage returns", "a: 1\r\nb: 2\r\n", "one", 1, "a: 1 # espalier:ignore one -- reason\r\nb: 2\r\n"},
		{"above a block", "a:\n  b: \"x\n    y\"\n", "one", 2, "a:\n  # espalier:ignore one -- reason\n  b: \"x\n    y\"\n"},
		{"above a block, with carriage returns", "a:\r\n  b: \"x\r\n    y\"\r\n", "one", 2, "a:\r\n  # espalier:ignore one -- reason\r\n  b: \"x\r\n    y\"\r\n"},
		{"beside another rule", "a: 1 # espalier:ignore two -- old clients\n", "one", 1, "a: 1 # espalier:ignore two, one -- old clients\n"},
		{"in a text", "a: |\n  b\n  c\n", "one", 2, ""},
		{"in JSON", `{"a": 1}`, "one", 1, ""},
		{"of a comment without effect", "a: 1 # espalier:ignore two\n", suppress.RuleUnused, 1, ""},
		{"without a position", "a: 1\n", "one", 0, ""},
		{"after the end", "a: 1\n", "one", 9, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			doc, err := yamlx.Parse([]byte(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			f := &report.Finding{Finding: analysis.Finding{Rule: tc.rule}, Span: yamlx.Position{Line: tc.line, Column: 1}}
			got, ok := suppressed(doc, f)
			if string(got) != tc.want || ok != (tc.want != "") {
				t.Errorf("got %q, %v, want %q", got, ok, tc.want)
			}
		})
	}
}
