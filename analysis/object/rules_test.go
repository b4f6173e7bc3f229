package object

import (
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/schema"
)

// TestRuleSummaries checks that every rule has its own summary.
func TestRuleSummaries(t *testing.T) {
	for last, rules := range map[string][]analysis.Rule{ViolationRule(schema.AdditionalItems): CheckRules(), RuleInvalidDefinition: PruneRules(), RuleForbidden: CauseRules()} {
		if len(rules) == 0 || rules[len(rules)-1].ID != last {
			t.Errorf("the last rule is not %s: %v", last, rules)
		}
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
