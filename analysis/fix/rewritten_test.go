package fix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// TestRewritten rewrites the schemas in testdata/rewritten.txt, one in each line, and expects the schemas
// and notes that follow, after >: first for a CRD that prunes, then for one that preserves, and for the
// semantics of kubernetes, each if it differs. A line that begins with # is a comment.
func TestRewritten(t *testing.T) {
	const file = "testdata/rewritten.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		got.WriteString(line)
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		seen := map[string]bool{}
		for _, c := range []struct {
			name    string
			sem     schema.Semantics
			keepAll bool
		}{
			{"", schema.KEP, false}, {"preserving: ", schema.KEP, true},
			{"in kubernetes: ", schema.Kubernetes, false}, {"preserving, in kubernetes: ", schema.Kubernetes, true},
		} {
			var notes strings.Builder
			kinds := map[noteKind]string{leftOpen: "open", weakened: "weaker", dropped: "dropped"}
			r := &rewriter{sem: c.sem, keepAll: c.keepAll, note: func(kind noteKind, at []string, keyword string) {
				fmt.Fprintf(&notes, "; %s: %s", kinds[kind], strings.Join(append(at, keyword), "/"))
			}}
			s := jsonx.CopyObject(parseSchema(t, line))
			r.root(s, nil)
			result := string(marshal(t, s)) + notes.String()
			if !seen[result] {
				fmt.Fprintf(&got, "> %s%s\n", c.name, result)
			}
			seen[result] = true
			if bad := rejected(t, s, c.sem); len(bad) > 0 {
				t.Errorf("%s\n%sthe result is not structural: %v", line, c.name, bad)
			}
		}
	}
	testcase.Golden(t, file, got.String(), *update)
}

// TestRules checks that each kind of note has a rule with a summary.
func TestRules(t *testing.T) {
	var got []string
	for _, r := range Rules() {
		got = append(got, fmt.Sprintf("%s %s", r.Severity, r.ID))
		if !strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s: %q is no sentence", r.ID, r.Summary)
		}
	}
	want := []string{"error conflicting-values", "warning weaker-condition", "warning dropped-condition", "info open-type", "info unknown-fields-kept"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
