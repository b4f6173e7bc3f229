package oracle

import (
	"testing"
)

// FuzzDecode fuzzes the bytes of an object; the number selects the schema.
func FuzzDecode(f *testing.F) {
	gen := Generator{Seed: 11}
	for n := range uint64(30) {
		g := gen.batch(n)
		s := g.acceptable()
		if s == nil {
			continue
		}
		for i := range BatchSize {
			f.Add(n, g.objectCase(s, i).Doc)
		}
	}
	for _, s := range scraps {
		f.Add(uint64(1), []byte(`{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"x"},"spec":`+s+`,"a":{"b":[`+s+`]}}`))
	}
	// Generating a schema takes longer than decoding an object.
	pairs := map[uint64]*pair{}
	f.Fuzz(func(t *testing.T, n uint64, doc []byte) {
		if len(doc) > 1<<16 {
			t.Skip()
		}
		n %= 64
		p, ok := pairs[n]
		if !ok {
			if s := gen.batch(n).acceptable(); s != nil {
				p, _ = newPair(Case{Name: "fuzz", Schema: s})
			}
			pairs[n] = p
		}
		if p == nil {
			t.Skip()
		}
		_, differences := p.check(Case{Doc: doc})
		_, more := p.check(Case{Doc: doc, Mode: FromStorage})
		failOn(t, append(differences, more...))
	})
}

// FuzzSchema fuzzes the text of the schema.
func FuzzSchema(f *testing.F) {
	gen := Generator{Seed: 12}
	for n := range uint64(40) {
		g := gen.batch(n)
		f.Add(n, encode(g.broken()))
		if s := g.acceptable(); s != nil {
			f.Add(n, encode(s))
		}
	}
	f.Fuzz(func(t *testing.T, n uint64, doc []byte) {
		s := parse(doc)
		if s == nil || len(doc) > 1<<14 {
			t.Skip()
		}
		differences := compareStructural(Case{Name: "fuzz", Schema: s})
		props, err := ReferenceSchema(encode(s))
		if err != nil {
			failOn(t, differences)
			return
		}
		if _, errs, err := ReferenceStructural(props); err == nil && len(errs) == 0 && accepts(props, false) {
			if p, more := newPair(Case{Name: "fuzz", Schema: s}); p != nil {
				g := gen.batch(n)
				for i := range BatchSize {
					_, more := p.check(g.objectCase(s, i))
					differences = append(differences, more...)
				}
			} else {
				differences = append(differences, more...)
			}
		}
		failOn(t, differences)
	})
}

// FuzzBatch fuzzes the seed and the number of generated cases.
func FuzzBatch(f *testing.F) {
	for n := range uint64(20) {
		f.Add(n, n*n)
	}
	f.Fuzz(func(t *testing.T, seed, n uint64) {
		failOn(t, Generator{Seed: seed}.Batch(n, &Stats{}))
	})
}

func failOn(t *testing.T, differences []*Difference) {
	t.Helper()
	for _, d := range differences {
		if d.Known == "" {
			t.Error(d.String())
		}
	}
}
