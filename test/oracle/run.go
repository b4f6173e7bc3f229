package oracle

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// BatchSize is the number of cases that share a schema.
const BatchSize = 8

// Stats counts the cases of a run.
type Stats struct {
	Cases, Schemas, Structural, Broken, GaveUp int64
	// Decoded counts the cases whose object was decoded, Changed those of them that decoding
	// changed, Valid those that are valid.
	Decoded, Changed, Valid, Updates int64
	// Panics counts the generated schemas on which the reference panics.
	Panics int64
	// Retries counts repeated calls of the reference, whose result may depend on the order of
	// a map.
	Retries int64
	Known   map[string]int64
}

func (s *Stats) add(o *Stats) {
	s.Cases += o.Cases
	s.Schemas += o.Schemas
	s.Structural += o.Structural
	s.Broken += o.Broken
	s.GaveUp += o.GaveUp
	s.Decoded += o.Decoded
	s.Changed += o.Changed
	s.Valid += o.Valid
	s.Updates += o.Updates
	s.Panics += o.Panics
	s.Retries += o.Retries
	for k, n := range o.Known {
		s.count(k, n)
	}
}

func (s *Stats) count(known string, n int64) {
	if s.Known == nil {
		s.Known = map[string]int64{}
	}
	s.Known[known] += n
}

// String returns the statistics in one line.
func (s *Stats) String() string {
	return fmt.Sprintf("%d cases: %d schemas (%d for objects, %d broken, %d given up), %d objects decoded (%d changed by it, %d valid, %d updates), reference panicked %d times and was asked again %d times, known differences %v",
		s.Cases, s.Schemas, s.Structural, s.Broken, s.GaveUp, s.Decoded, s.Changed, s.Valid, s.Updates, s.Panics, s.Retries, s.Known)
}

// parallel calls do with the numbers below n, on all processors, until a call returns false.
func parallel(n uint64, do func(i uint64) bool) {
	var next atomic.Uint64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < n && !stop.Load(); i = next.Add(1) - 1 {
				if !do(i) {
					stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
}

// Batch generates batch n, compares both sides and returns the differences.
func (g Generator) Batch(n uint64, stats *Stats) []*Difference {
	name := fmt.Sprintf("seed %d batch %d", g.Seed, n)
	b := g.batch(n)
	if b.chance(12) {
		var out []*Difference
		for range BatchSize {
			stats.Cases++
			stats.Schemas++
			stats.Broken++
			out = append(out, compareStructural(Case{Name: name, Schema: b.broken()})...)
		}
		return out
	}
	var out []*Difference
	base := Case{Name: name}
	stats.Schemas++
	if !b.chance(1) {
		base.Schema = b.acceptable()
		for _, p := range b.panics {
			stats.Panics++
			if wrong := NewCRDComparer().checkAlone(crdCase(p.schema, p.stored)); wrong != "" {
				out = append(out, &Difference{Case: &Case{Name: name, Schema: p.schema}, What: "answer where the reference panics", Reference: "panic", Ours: wrong})
			}
		}
		if base.Schema == nil {
			stats.GaveUp++
			return out
		}
	}
	base.Preserve = b.chance(4)
	if base.Schema != nil {
		out = append(out, compareStructural(base)...)
	}
	p, more := newPair(base)
	out = append(out, more...)
	if p == nil {
		return out
	}
	stats.Structural++
	for i := range BatchSize {
		c := b.objectCase(base.Schema, i)
		obj, differences := p.check(c)
		out = append(out, differences...)
		stats.Cases++
		if obj == nil {
			continue
		}
		stats.Decoded++
		if len(p.ref.Validate(obj, nil)) == 0 {
			stats.Valid++
		}
		if c.Old != nil {
			stats.Updates++
		}
		if !equal(obj, parse(c.Doc)) {
			stats.Changed++
		}
	}
	stats.Retries += int64(p.retries)
	return out
}

// objectCase generates an object for a schema. Its type depends on i.
func (g *gen) objectCase(schema map[string]any, i int) Case {
	if schema == nil {
		schema = object("type", "object", "x-kubernetes-preserve-unknown-fields", true)
	}
	obj := g.rootObject(schema)
	mutated := func(obj map[string]any, n int) map[string]any {
		var v any = clone(obj)
		g.mutate(&v, n)
		return v.(map[string]any)
	}
	var c Case
	switch i {
	case 0:
		c.Doc = encode(obj)
	case 1, 2:
		c.Doc = g.encodeNoisily(mutated(obj, g.r.IntN(3)))
	case 3:
		c.Doc = encode(mutated(obj, 1+g.r.IntN(4)))
	case 4:
		c.Doc = encode(mutated(obj, g.r.IntN(4)))
		c.Mode = FromStorage
	case 5, 6:
		old := mutated(obj, g.r.IntN(4))
		c.Old = encode(old)
		c.Doc = encode(mutated(old, g.r.IntN(3)))
	case 7:
		c.Doc = g.damage(g.encodeNoisily(obj))
	}
	return c
}
