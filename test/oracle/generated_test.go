package oracle

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"espalier.dev/test/oracle/builtin"
)

func TestMain(m *testing.M) { os.Exit(builtin.Main(m)) }

// setting reads a number from the environment.
func setting(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// collector keeps the first few differences of each type and counts the rest.
type collector struct {
	mu    sync.Mutex
	found []*Difference
	count map[string]int
}

// perSort is the number of differences shown for each type.
const perSort = 3

func (c *collector) add(d *Difference) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[d.What]++
	if c.count[d.What] <= perSort {
		c.found = append(c.found, d)
	}
	return len(c.found) < 30 && c.count[d.What] < 100
}

// report fails the test with the differences, minimized.
func (c *collector) report(t *testing.T) {
	t.Helper()
	for _, d := range c.found {
		t.Error(minimize(d).String())
	}
	if len(c.found) > 0 {
		t.Errorf("differences by type: %v", c.count)
	}
}

func TestGenerated(t *testing.T) {
	cases := setting(t, "ORACLE_CASES", 6000)
	gen := Generator{Seed: setting(t, "ORACLE_SEED", 1)}
	first := setting(t, "ORACLE_FIRST", 0)
	batches := (cases + BatchSize - 1) / BatchSize

	var found collector
	var stats Stats
	var mu sync.Mutex
	parallel(batches, func(i uint64) bool {
		more, counted := true, Stats{}
		for _, d := range gen.Batch(first+i, &counted) {
			if d.Known != "" {
				counted.count(d.Known, 1)
			} else {
				more = found.add(d) && more
			}
		}
		mu.Lock()
		defer mu.Unlock()
		stats.add(&counted)
		return more
	})
	t.Logf("seed %d: %s", gen.Seed, &stats)
	found.report(t)
	if t.Failed() || cases < 4000 {
		return
	}

	// A run that compares too little must fail.
	if stats.GaveUp*5 > stats.Schemas {
		t.Errorf("no acceptable schema was found in %d of %d attempts: the generator makes too many that the API server rejects", stats.GaveUp, stats.Schemas)
	}
	if stats.Decoded*2 < stats.Cases-stats.Broken || stats.Valid*10 < stats.Decoded || stats.Changed*5 < stats.Decoded {
		t.Errorf("too few objects are decoded: %s", &stats)
	}
}

// TestBatchesRepeat checks that a seed and a number determine a batch.
func TestBatchesRepeat(t *testing.T) {
	for n := range uint64(50) {
		one, two := Generator{Seed: 3}.batch(n), Generator{Seed: 3}.batch(n)
		for i := range BatchSize {
			a, b := one.broken(), two.broken()
			if !equal(a, b) {
				t.Fatalf("batch %d: %s and %s", n, encode(a), encode(b))
			}
			if a, b := one.objectCase(a, i), two.objectCase(b, i); string(a.Doc) != string(b.Doc) || string(a.Old) != string(b.Old) {
				t.Fatalf("batch %d: %s and %s", n, a.Doc, b.Doc)
			}
		}
	}
}

// TestKnownDifferences checks that every known difference has a reason, and that there are
// few.
func TestKnownDifferences(t *testing.T) {
	known := KnownDifferences()
	if len(known) > 5 {
		t.Errorf("%d known differences: five are the limit", len(known))
	}
	ids := map[string]bool{}
	for _, k := range known {
		if k.ID == "" || k.Cites == "" || k.Why == "" || k.Matches == nil || ids[k.ID] {
			t.Errorf("%q must have an ID of its own, a citation and a reason", k.ID)
		}
		ids[k.ID] = true
	}
}

// TestReferencePanics runs a batch in which the reference panics on a schema.
func TestReferencePanics(t *testing.T) {
	var stats Stats
	for _, d := range (Generator{Seed: 20261115}).Batch(97031, &stats) {
		if d.Known == "" {
			t.Error(d.String())
		}
	}
	if stats.Panics == 0 {
		t.Errorf("the reference did not panic: %s", &stats)
	}
}
