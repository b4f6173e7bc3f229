package oracle

import (
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"espalier.dev/internal/testcase"
)

// ruleCount counts the comparisons.
type ruleCount struct {
	versions, rules, broken, expensive, verdicts, objects, updates, failing int
	// written is the number of rules in the files.
	written int
}

func (c *ruleCount) add(o ruleCount) {
	c.versions += o.versions
	c.rules += o.rules
	c.broken += o.broken
	c.expensive += o.expensive
	c.verdicts += o.verdicts
	c.objects += o.objects
	c.updates += o.updates
	c.failing += o.failing
	c.written += o.written
}

// TestCorpusRules compares all rules of the corpus: their compilation and cost, the errors of
// the API server about them, and their results on objects.
func TestCorpusRules(t *testing.T) {
	mutations := int(setting(t, "ORACLE_MUTATIONS", 3))
	c := readCorpus(t)
	files := testcase.Part(c.files(t, "v1*"))
	var (
		mu    sync.Mutex
		total ruleCount
		found collector
	)
	parallel(uint64(len(files)), func(i uint64) bool {
		count, differences, err := compareRules(c.dir, files[i], c.objects[files[i]], mutations)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", files[i], err)
		}
		total.add(count)
		for _, d := range differences {
			found.add(d)
		}
		return true
	})
	t.Logf("compared %d versions with %d rules (%d do not compile, %d are too expensive), %d CRD validations, %d objects and %d updates, of which %d violate a rule",
		total.versions, total.rules, total.broken, total.expensive, total.verdicts, total.objects, total.updates, total.failing)
	for _, d := range found.found {
		t.Error(shortCase(d))
	}
	if len(found.found) > 0 {
		t.Errorf("differences by type: %v", found.count)
	}
	if total.rules < 100 || total.rules < 1300 && testcase.WholeCorpus() || total.rules != total.written {
		t.Errorf("%d rules were compared; the files have %d", total.rules, total.written)
	}
}

// shortCase omits a schema that is too long to read.
func shortCase(d *Difference) string {
	if len(encode(d.Case.Schema)) > 4000 {
		c := *d.Case
		c.Schema = nil
		out := *d
		out.Case = &c
		return out.String()
	}
	return d.String()
}

func compareRules(dir, file string, objects []corpusObject, mutations int) (count ruleCount, out []*Difference, err error) {
	crd, err := readYAML(filepath.Join(dir, file))
	if err != nil {
		return count, nil, err
	}
	for _, v := range versions(file, crd) {
		if !v.schema {
			continue
		}
		count.written += countRules(v.base.Schema)
		props, err := ReferenceSchema(encode(v.base.Schema))
		if err != nil {
			return count, out, err
		}
		if _, errs, err := ReferenceStructural(props); err != nil || len(errs) > 0 {
			continue
		}
		ours, _, err := OurStructural(encode(v.base.Schema))
		if err != nil {
			return count, out, err
		}
		facts, report := OurRules(ours)
		n := len(report.Rules())
		if n == 0 {
			continue
		}
		count.versions++
		count.rules += n
		for _, r := range report.Rules() {
			if r.Err != nil || r.MessageErr != nil {
				count.broken++
			}
			if r.Cost.Exceeded() {
				count.expensive++
			}
		}
		c := v.base
		for _, line := range ReferenceRules(props).compare(facts) {
			out = append(out, &Difference{Case: &c, What: "facts of a rule", Reference: line})
		}
		ref, our, compared := compareRuleErrors(props, ours)
		if compared {
			count.verdicts++
		}
		if ref != our {
			out = append(out, &Difference{Case: &c, What: "verdict on rules", Reference: ref, Ours: our})
		}
		more, err := compareRulesOn(dir, v.base, objects, mutations, &count)
		if err != nil {
			return count, out, err
		}
		out = append(out, more...)
	}
	return count, out, nil
}

// compareRulesOn compares both sides on the objects of a version, and on changed copies.
func compareRulesOn(dir string, base Case, objects []corpusObject, mutations int, count *ruleCount) (out []*Difference, err error) {
	const budget = celconfig.RuntimeCELCostBudget
	pair, err := NewRulePair(base, celconfig.PerCallLimit, budget)
	if err != nil || pair == nil {
		return nil, err
	}
	decoder, err := NewReference(encode(base.Schema), base.Kind, base.Namespaced, base.Preserve)
	if err != nil {
		return nil, err
	}
	run := func(name string, obj, old map[string]any) {
		d, failing := pair.check(name, obj, old, budget)
		if d != nil {
			out = append(out, d)
		}
		if failing {
			count.failing++
		}
		if old != nil {
			count.updates++
		} else {
			count.objects++
		}
	}
	for i, o := range objects {
		if o.apiVersion != base.Kind.GroupVersion().String() {
			continue
		}
		obj, err := readYAML(filepath.Join(dir, o.file))
		if err != nil {
			return out, err
		}
		g := &gen{r: rand.New(rand.NewPCG(uint64(len(o.file)), uint64(i)))}
		decoded := decoder.Decode(encode(obj), FromRequest).Object
		if decoded == nil {
			continue
		}
		run(o.file, decoded, nil)
		run(o.file+" unchanged", decoded, clone(decoded))
		previous := decoded
		for range mutations {
			var v any = clone(decoded)
			g.mutate(&v, 1+g.r.IntN(3))
			changed := decoder.Decode(encode(v), FromStorage).Object
			if changed == nil {
				continue
			}
			run(o.file+" changed", changed, nil)
			run(o.file+" updated", changed, previous)
			run(o.file+" updated to", decoded, changed)
			previous = changed
		}
	}
	return out, nil
}

// countRules counts the rules anywhere in a tree.
func countRules(v any) int {
	n := 0
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if list, ok := x.([]any); ok && k == "x-kubernetes-validations" {
				n += len(list)
				continue
			}
			n += countRules(x)
		}
	case []any:
		for _, x := range v {
			n += countRules(x)
		}
	}
	return n
}
