package object

import (
	"strings"
	"testing"

	"espalier.dev/analysis"
)

// TestRuleSummaries checks that every rule has its own summary.
func TestRuleSummaries(t *testing.T) {
	for _, rules := range [][]analysis.Rule{CheckRules(), PruneRules()} {
		seen := map[string]string{}
		for _, r := range rules {
			if !strings.HasSuffix(r.Summary, ".") || seen[r.Summary] != "" {
				t.Errorf("%s: %q is also that of %q", r.ID, r.Summary, seen[r.Summary])
			}
			seen[r.Summary] = r.ID
			if skipped := r.ID == "validation/rules-skipped"; skipped != (r.Severity == analysis.Info) && strings.HasPrefix(r.ID, "validation/") {
				t.Errorf("%s is of severity %s", r.ID, r.Severity)
			}
		}
	}
}
