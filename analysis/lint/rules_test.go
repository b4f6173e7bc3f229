package lint_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
)

// TestRules lints the CRDs, schemas and policies in testdata/*-rules.txt, each with one rule, and compares the
// findings in full. A case starts with a line "=== RULE/NAME"; the findings follow after a line >>>. Each rule has hits
// and near misses.
func TestRules(t *testing.T) {
	t.Parallel()
	hit, miss := map[string]bool{}, map[string]bool{}
	for file, findings := range map[string]func(t *testing.T, rule lint.Config, text string) string{
		"crd-rules.txt":    bothSemantics,
		"schema-rules.txt": func(t *testing.T, rule lint.Config, text string) string { return bothSemantics(t, rule, v1(text)) },
		"policy-rules.txt": func(t *testing.T, rule lint.Config, text string) string {
			var s sheet
			s.add("", lintPolicies(t, rule, text))
			return strings.TrimPrefix(s.String(), "== \n")
		},
	} {
		t.Run(file, func(t *testing.T) {
			file = filepath.Join("testdata", file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "=== "), "\n=== ") {
				input, _, _ := strings.Cut(block, "\n>>>")
				name, input, _ := strings.Cut(input, "\n")
				rule, _, _ := strings.Cut(name, "/")
				found := findings(t, only(rule), input)
				fmt.Fprintf(&got, "=== %s\n%s\n>>>\n%s", name, input, found)
				hit[rule], miss[rule] = hit[rule] || found != "", miss[rule] || found == ""
			}
			testcase.Golden(t, file, got.String(), *update)
		})
	}
	for rule := range hit {
		// TestDuplicateKeys has the hits of duplicate-key, because YAML with a key twice is no CRD.
		if !hit[rule] && rule != "duplicate-key" || !miss[rule] {
			t.Errorf("%s: hits: %t, near misses: %t", rule, hit[rule], miss[rule])
		}
	}
}

// bothSemantics returns the findings in a CRD in both semantics, those of kubernetes only if they differ.
func bothSemantics(t *testing.T, config lint.Config, text string) string {
	t.Helper()
	var s sheet
	s.addBoth(t, "", config, text)
	return strings.TrimPrefix(s.String(), "== \n")
}

func TestRuleDocs(t *testing.T) {
	for _, r := range lint.Rules() {
		if r.Title == "" || !strings.HasPrefix(r.Doc, "# "+r.ID+": "+r.Title+"\n") {
			t.Errorf("%s: the page does not begin with the rule", r.ID)
		}
		for _, part := range []string{"\n## Why\n", "\n## Bad\n", "\n## Good\n", "\n## How to fix it\n"} {
			if !strings.Contains(r.Doc, part) {
				t.Errorf("%s: the page has no part %q", r.ID, strings.TrimSpace(part))
			}
		}
		if got, err := lint.Lookup(r.ID); err != nil || got.ID != r.ID {
			t.Errorf("%s: %v", r.ID, err)
		}
	}
	if _, err := lint.Lookup("cel-costs"); err == nil || !strings.Contains(err.Error(), "did you mean cel-cost?") {
		t.Errorf("got %v", err)
	}
}

// TestWithoutRuleChecker checks that CRDs with rules can be linted without a CEL runtime:
// everything but their rules is checked.
func TestWithoutRuleChecker(t *testing.T) {
	text := analysistest.JSON(t, v1(`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self.x}]}, b: {type: strin}}}`))
	count := func(o lint.Options) map[string]int {
		t.Helper()
		found, err := lint.Run(context.Background(), [][]byte{text}, o)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, f := range found[0] {
			n[f.Rule]++
		}
		return n
	}
	if got, want := count(lint.Options{Rules: cel.Checker{}, Release: 30}), count(lint.Options{Rules: cel.Checker{}}); !maps.Equal(got, want) {
		t.Errorf("got %v for a release without its RuleChecker, want %v", got, want)
	}
	with, without := count(lint.Options{Rules: cel.Checker{}}), count(lint.Options{})
	if with["cel-rule"] != 1 {
		t.Errorf("got %v with a RuleChecker", with)
	}
	if delete(with, "cel-rule"); !maps.Equal(with, without) || len(without) == 0 {
		t.Errorf("got %v without a RuleChecker, want %v", without, with)
	}
}
