package oracle

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	engine "espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// BenchmarkRules compares the speed of both sides on the rules of the corpus:
// compiling all of them, and evaluating them on all objects and updates.
func BenchmarkRules(b *testing.B) {
	c := readCorpus(b)
	type job struct {
		pair    *RulePair
		ours    *engine.Structural
		objects []map[string]any
	}
	var jobs []job
	for _, file := range c.files(b, "v1") {
		if info, err := os.Stat(filepath.Join(c.dir, file)); err != nil || info.Size() > 1<<20 || len(c.objects[file]) == 0 {
			continue
		}
		for _, v := range versions(file, c.read(b, file)) {
			if countRules(v.base.Schema) == 0 {
				continue
			}
			pair, err := NewRulePair(v.base, celconfig.PerCallLimit, celconfig.RuntimeCELCostBudget)
			if err != nil {
				b.Fatal(err)
			}
			decoder, err := NewReference(encode(v.base.Schema), v.base.Kind, v.base.Namespaced, v.base.Preserve)
			if err != nil {
				b.Fatal(err)
			}
			j := job{pair: pair}
			if j.ours, _, err = OurStructural(encode(v.base.Schema)); err != nil {
				b.Fatal(err)
			}
			for _, o := range c.objects[file] {
				obj, err := readYAML(filepath.Join(c.dir, o.file))
				if err != nil || o.apiVersion != v.base.Kind.GroupVersion().String() {
					continue
				}
				if obj = decoder.Decode(encode(obj), FromRequest).Object; obj != nil {
					j.objects = append(j.objects, obj)
				}
			}
			jobs = append(jobs, j)
		}
	}
	all := func(b *testing.B, f func(j job)) {
		b.ReportAllocs()
		for b.Loop() {
			for _, j := range jobs {
				f(j)
			}
		}
	}
	evaluate := func(f func(p *RulePair, obj, old map[string]any)) func(job) {
		return func(j job) {
			for _, obj := range j.objects {
				f(j.pair, obj, nil)
				f(j.pair, obj, obj)
			}
		}
	}
	b.Run("compile/reference", func(b *testing.B) {
		all(b, func(j job) { cel.NewValidator(j.pair.structural, true, celconfig.PerCallLimit) })
	})
	b.Run("compile/ours", func(b *testing.B) {
		all(b, func(j job) {
			if _, err := rules.Compiler()(j.ours); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("evaluate/reference", func(b *testing.B) {
		all(b, evaluate(func(p *RulePair, obj, old map[string]any) { p.Reference(obj, old, celconfig.RuntimeCELCostBudget) }))
	})
	b.Run("evaluate/ours", func(b *testing.B) {
		all(b, evaluate(func(p *RulePair, obj, old map[string]any) { p.Ours(obj, old) }))
	})
}
