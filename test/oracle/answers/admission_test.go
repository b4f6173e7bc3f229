package answers

import (
	"os"
	"strings"
	"testing"

	"espalier.dev/test/oracle/builtin"
)

// TestBuiltinAdmission compares admission plugins and the charges of resource quotas with the
// reference. BUILTIN_KINDS chooses scenarios by a part of their name.
func TestBuiltinAdmission(t *testing.T) {
	t.Parallel()
	refs, runner, kinds := builtinReferences(t)
	seeds, err := builtin.Seeds()
	if err != nil {
		t.Fatal(err)
	}
	runner.Seed = uint64(number("BUILTIN_SEED", 0))
	cases, only := number("BUILTIN_CASES", 25), number("BUILTIN_CASE", -1)
	for _, s := range builtin.Scenarios() {
		if !strings.Contains(s.Name(), os.Getenv("BUILTIN_KINDS")) {
			continue
		}
		t.Run(s.Name(), func(t *testing.T) {
			t.Parallel()
			ref := <-refs
			defer func() { refs <- ref }()
			first, n := 0, cases
			if only >= 0 {
				first, n = only, 1
			}
			sum, err := runner.With(ref).RunAdmission(s, kinds, seeds, first, n)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(sum)
			for _, d := range sum.Differences {
				t.Error(d)
			}
			if n > 20 && sum.Accepted < n/10 {
				t.Errorf("only %d of %d cases are accepted: the scenario compares errors only", sum.Accepted, n)
			}
		})
	}
}
