package oracle

import (
	"context"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	engine "espalier.dev/schema"
)

// TestLint compares lint with the reference: an accepted CRD has no finding of severity error
// in its semantics, and a rejected one has at least one. Cases are the CRDs of the corpus and
// changes of them. ORACLE_CRD_LINTS sets the number of changes.
func TestLint(t *testing.T) {
	names, trees := corpusCRDs(t)
	cases := make([]CRDCase, len(trees))
	for i := range trees {
		cases[i] = CRDCase{Name: names[i], New: trees[i]}
	}
	m := NewCRDMutator(setting(t, "ORACLE_SEED", 1), trees)
	for i := range setting(t, "ORACLE_CRD_LINTS", 500) {
		c, _ := m.Case(i)
		c.Old = nil
		cases = append(cases, c)
	}
	judge := NewCRDComparer()
	accepted := 0
	for len(cases) > 0 {
		// In batches, which lint processes in parallel.
		batch := cases[:min(64, len(cases))]
		cases = cases[len(batch):]
		for i, found := range lintEach(t, batch) {
			c := batch[i]
			verdict := judge.Reference(c)
			if verdict.Panicked {
				continue // there is nothing to compare with
			}
			ok := verdict.Undecodable == nil && len(verdict.Errors) == 0
			if ok {
				accepted++
			}
			switch {
			case ok && len(found) > 0:
				t.Errorf("%s: accepted, but lint has %v", c.Name, found)
			case !ok && len(found) == 0:
				t.Errorf("%s: rejected, but lint has no error: %v %v", c.Name, verdict.Undecodable, verdict.Errors)
			}
		}
	}
	t.Logf("%d CRDs are accepted", accepted)
	if accepted < len(trees)*9/10 {
		t.Errorf("only %d CRDs are accepted", accepted)
	}
}

// lintEach returns the errors that lint finds in each CRD by itself.
func lintEach(t *testing.T, cases []CRDCase) [][]analysis.Finding {
	texts := make([][]byte, len(cases))
	for i, c := range cases {
		tree := map[string]any{}
		for k, v := range c.New {
			tree[k] = v
		}
		// For the reference, the type is not in the text.
		tree["apiVersion"], tree["kind"] = api.APIVersion, api.Kind
		texts[i] = mustJSON(tree)
	}
	all, err := lint.Run(context.Background(), texts, lint.Options{
		Rules:     cel.Checker{},
		Semantics: engine.Kubernetes,
		// Several cases have the same name.
		Configs: []lint.Config{{Disable: []string{"name-collision"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, found := range all {
		all[i] = nil
		for _, f := range found {
			if f.Severity == analysis.Error {
				all[i] = append(all[i], f)
			}
		}
	}
	return all
}
