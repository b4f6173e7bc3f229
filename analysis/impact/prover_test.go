package impact

import (
	"testing"

	"espalier.dev/schema"
)

// TestProverSteps checks that a prover proves nothing after its last step.
func TestProverSteps(t *testing.T) {
	length := func(n int64) *schema.NestedValueValidation {
		return &schema.NestedValueValidation{ValueValidation: schema.ValueValidation{MinLength: &n}}
	}
	p := prover{2, newRuleParser(nil)}
	for i, want := range []bool{true, true, false, false} {
		if got := p.holds([]*schema.NestedValueValidation{length(2)}, length(1)); got != want {
			t.Errorf("step %d: got %t", i, got)
		}
	}
}
