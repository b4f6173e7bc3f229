package oracle

import (
	"fmt"
	"sync"
	"testing"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// TestGeneratedRules compares generated rules on generated schemas and objects.
func TestGeneratedRules(t *testing.T) {
	seed := setting(t, "ORACLE_SEED", 1)
	first := setting(t, "ORACLE_FIRST", 0)
	batches := setting(t, "ORACLE_RULE_BATCHES", 100)
	var (
		mu    sync.Mutex
		total ruleCount
		found collector
	)
	parallel(batches, func(i uint64) bool {
		count, differences := ruleBatch(Generator{Seed: seed}, first+i)
		mu.Lock()
		defer mu.Unlock()
		total.add(count)
		more := true
		for _, d := range differences {
			more = found.add(d) && more
		}
		return more
	})
	t.Logf("compared %d schemas with %d rules (%d do not compile, %d are too expensive), %d CRD validations, %d objects and %d updates, of which %d violate a rule",
		total.versions, total.rules, total.broken, total.expensive, total.verdicts, total.objects, total.updates, total.failing)
	for _, d := range found.found {
		t.Error(d.String())
	}
	if len(found.found) > 0 {
		t.Errorf("differences by type: %v", found.count)
	}
	if batches >= 100 && (total.failing == 0 || total.verdicts == 0 || total.expensive == 0 || total.broken == 0) {
		t.Error("the generator no longer makes all types of cases")
	}
}

// ruleBatch compares one schema with rules, and some objects for it.
func ruleBatch(from Generator, n uint64) (count ruleCount, out []*Difference) {
	g := from.batch(n)
	base := Case{Name: fmt.Sprintf("seed %d batch %d", from.Seed, n), Schema: g.acceptable()}
	if base.Schema == nil {
		return count, nil
	}
	if g.addRules(base.Schema, 25+g.r.IntN(50)) == 0 {
		return count, nil
	}
	report := func(what, ref, ours string) {
		out = append(out, &Difference{Case: &base, What: what, Reference: ref, Ours: ours})
	}
	props, err := ReferenceSchema(encode(base.Schema))
	if err != nil {
		report("reading the schema", errText(err), "")
		return count, out
	}
	ours, _, err := OurStructural(encode(base.Schema))
	if err != nil {
		report("structural form", "no error", errText(err))
		return count, out
	}
	var refFacts RuleFacts
	if guard(func() { refFacts = ReferenceRules(props) }) != "" {
		return count, out // the reference panics: nothing to compare
	}
	facts, rules := OurRules(ours)
	for _, r := range rules.Rules() {
		count.rules++
		if r.Err != nil || r.MessageErr != nil {
			count.broken++
		}
		if r.Cost.Exceeded() {
			count.expensive++
		}
	}
	count.versions++
	for _, line := range refFacts.compare(facts) {
		report("facts of a rule", line, "")
	}
	if ref, our, compared := compareRuleErrors(props, ours); compared {
		count.verdicts++
		if ref != our {
			report("verdict on rules", ref, our)
		}
	}
	perCall, budget := uint64(celconfig.PerCallLimit), int64(celconfig.RuntimeCELCostBudget)
	if g.chance(10) {
		perCall, budget = uint64(1+g.r.IntN(30)), int64(1+g.r.IntN(100))
	}
	pair, err := NewRulePair(base, perCall, budget)
	if err != nil {
		report("compile", "no error", errText(err))
		return count, out
	}
	if pair == nil {
		return count, out
	}
	decoder, err := NewReference(encode(base.Schema), testKind, true, false)
	if err != nil {
		return count, out
	}
	run := func(obj, old map[string]any) {
		d, failing := pair.check(base.Name, obj, old, budget)
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
	for range 6 {
		obj := decoder.Decode(encode(g.rootObject(base.Schema)), FromStorage).Object
		if obj == nil {
			continue
		}
		run(obj, nil)
		var v any = clone(obj)
		g.mutate(&v, g.r.IntN(3))
		changed := decoder.Decode(encode(v), FromStorage).Object
		if changed == nil {
			continue
		}
		run(changed, obj)
		run(obj, changed)
		run(obj, clone(obj))
	}
	return count, out
}
