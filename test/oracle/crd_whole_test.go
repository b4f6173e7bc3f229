package oracle

import (
	"sync"
	"sync/atomic"
	"testing"

	"espalier.dev/internal/testcase"
)

// corpusCRDs reads the v1 CRDs of a part of the corpus.
func corpusCRDs(t testing.TB) (names []string, trees []map[string]any) {
	c := readCorpus(t)
	names = testcase.Part(c.files(t, "v1"))
	for _, name := range names {
		trees = append(trees, c.read(t, name))
	}
	return names, trees
}

// differences reports the first few differences and counts the rest.
type differences struct {
	mu    sync.Mutex
	count int
}

func (d *differences) add(t testing.TB, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count <= 25 {
		t.Error(text)
	}
}

// TestWholeCRDCreate creates v1 CRDs of the corpus on both sides.
func TestWholeCRDCreate(t *testing.T) {
	names, trees := corpusCRDs(t)
	judge := NewCRDComparer()
	var found differences
	accepted := 0
	for i, tree := range trees {
		ours, difference := judge.CompareCRD(CRDCase{Name: names[i], New: tree})
		if difference != "" {
			found.add(t, difference)
		}
		if len(ours.Errors) == 0 {
			accepted++
		}
	}
	t.Logf("%d CRDs, %d accepted, %d differences", len(trees), accepted, found.count)
	if accepted < len(trees)*9/10 {
		t.Errorf("only %d of %d CRDs are accepted", accepted, len(trees))
	}
}

// TestWholeCRDUpdate compares creates and updates of CRDs that are derived from the corpus
// and from generated CRDs. ORACLE_CRD_UPDATES sets their number.
func TestWholeCRDUpdate(t *testing.T) {
	_, trees := corpusCRDs(t)
	m := NewCRDMutator(setting(t, "ORACLE_SEED", 1), trees)
	n := setting(t, "ORACLE_CRD_UPDATES", 1500)
	judge := NewCRDComparer()
	var (
		found                differences
		refused, undecodable atomic.Uint64
		mu                   sync.Mutex
		reached              = map[string]int{}
	)
	parallel(n, func(i uint64) bool {
		c, kinds := m.Case(i)
		ours, difference := judge.CompareCRD(c)
		if difference != "" {
			found.add(t, difference)
		}
		if len(ours.Errors) > 0 {
			refused.Add(1)
		}
		if ours.Undecodable != nil {
			undecodable.Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, k := range kinds {
			reached[k]++
		}
		return true
	})
	t.Logf("%d writes, %d rejected, %d undecodable, the reference panicked %d times, %d differences", n, refused.Load(), undecodable.Load(), judge.Panics.Load(), found.count)
	for _, k := range m.Kinds() {
		if reached[k] == 0 && n >= 1500 {
			t.Errorf("no case has the change %q", k)
		}
	}
}
