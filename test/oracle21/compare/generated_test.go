package compare

import (
	"fmt"
	"testing"
)

// TestGenerated compares the validation of changed copies of corpus CRDs, as creates and as
// updates.
func TestGenerated(t *testing.T) {
	files := readCorpus(t)
	small := files[:0:0]
	for _, f := range files {
		if len(f.data) < 200_000 {
			small = append(small, f)
		}
	}
	cases, first, seed := setting(t, "ORACLE21_CASES", 600), setting(t, "ORACLE21_FIRST", 0), setting(t, "ORACLE21_SEED", 1)
	count := inParallel(t, cases, func(p *pair, i int) error {
		number := first + i
		m := newMutator(uint64(seed), uint64(number))
		f := small[m.r.IntN(len(small))]
		crd := object(f.data)
		m.change(crd, m.r.IntN(4))
		name := fmt.Sprintf("seed %d case %d %s", seed, number, f.name)
		data := encode(crd)
		if _, _, err := p.definition(name, data, string(data)); err != nil {
			return err
		}
		if _, err := p.create(name, data, string(data)); err != nil {
			return err
		}
		old := clone(crd).(map[string]any)
		m.store(old)
		m.change(crd, 1+m.r.IntN(3))
		if meta, ok := crd["metadata"].(map[string]any); ok {
			meta["resourceVersion"] = "1"
		}
		data, oldData := encode(crd), encode(old)
		return p.update(name, data, oldData, string(data)+" replaces "+string(oldData))
	})
	t.Logf("compared %+v", count)
	if count.Updated < cases/2 {
		t.Errorf("only %d of %d cases have an update to compare", count.Updated, cases)
	}
}
