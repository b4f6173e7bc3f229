package schema

import (
	"errors"
	"testing"
)

// TestCompileRules checks that a schema with rules is not compiled without them by accident, wherever
// they are.
func TestCompileRules(t *testing.T) {
	const rules = `"x-kubernetes-validations":[{"rule":"true"}]`
	failure := errors.New("failure")
	for _, text := range []string{
		`{"type":"object",` + rules + `}`, `{"type":"object",` + rules + `,"properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string",` + rules + `},"b":{"type":"string"}}}`,
		`{"type":"object","allOf":[{` + rules + `}]}`, `{"type":"object","allOf":[{` + rules + `},{"required":["a"]}]}`, `{"type":"object","properties":{"a":{"type":"string",` + rules + `}},"not":{"required":["a"]}}`,
	} {
		s := mustStructural(t, text)
		if p, err := Compile(s); !errors.Is(err, ErrRules) || p != nil {
			t.Errorf("%s: got %v, %v", text, p, err)
		}
		if p, err := Compile(s, WithRules(func(*Structural) (Rules, error) { return nil, failure })); !errors.Is(err, failure) || p != nil {
			t.Errorf("%s: a compiler that fails: got %v, %v", text, p, err)
		}
		if _, err := Compile(s, WithoutRules()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if p, err := Compile(nil); err != nil || len(p.Validate(t.Context(), Object{"a": 1.5}, nil)) > 0 {
		t.Errorf("without a schema: got %v", err)
	}
}
