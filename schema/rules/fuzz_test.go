package rules_test

import (
	"context"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// FuzzRule compiles whatever it is given and, if that succeeds, evaluates it.
func FuzzRule(f *testing.F) {
	for _, seed := range []struct{ rule, message, path string }{
		{"self.a.size() > 1", "'x' + self.a", ".a"},
		{"self.l.all(x, x > oldSelf.l[0])", "", "['l']"},
		{"has(self.m) && self.m.exists(k, self.m[k].matches('^a'))", "string(1/0)", ".m['k']"},
		{"self == oldSelf", "self", "."},
		{"quantity(self.a).isGreaterThan(quantity('1'))", "''", ".a.b"},
		{"self.d > duration('1h') || self.t < timestamp('2020-01-01T00:00:00Z')", "type(self) == map ? 'a' : 'b'", "['\\'"},
		{"self.p == 1 || self.p == 'a'", "[1,2].map(x, string(x)).join(',')", "x"},
	} {
		f.Add(seed.rule, seed.message, seed.path, false)
		f.Add(seed.rule, seed.message, seed.path, true)
	}
	const text = `
type: object
properties:
  spec:
    type: object
    properties:
      a: {type: string}
      l: {type: array, items: {type: integer}}
      m: {type: object, additionalProperties: {type: string}}
      d: {type: string, format: duration}
      t: {type: string, format: date-time}
      p: {x-kubernetes-int-or-string: true}
`
	base := structural(text)
	spec := map[string]any{
		"a": "abc", "l": []any{int64(1), int64(2)}, "m": map[string]any{"k": "abc"}, "d": "2h", "t": "2021-01-01T00:00:00Z", "p": "a",
	}
	obj := schema.Object{"apiVersion": "v1", "kind": "K", "spec": spec}
	f.Fuzz(func(t *testing.T, rule, message, path string, optional bool) {
		if len(rule)+len(message)+len(path) > 10_000 {
			return
		}
		s := base.DeepCopy()
		s.Properties["spec"].XValidations = []api.ValidationRule{{Rule: rule, MessageExpression: message, FieldPath: path, OptionalOldSelf: &optional}}
		report := rules.Check(s, rules.CheckOptions{Remedies: true})
		report.FieldErrors(nil, false)
		p, err := schema.Compile(s, schema.WithRules(rules.Compiler(rules.WithBrokenRules(), rules.WithBudget(100_000), rules.WithPerCallLimit(50_000))))
		if err != nil {
			t.Fatalf("broken rules are let in, but: %v", err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Validate(ctx, obj, nil).FieldErrors()
		p.Validate(ctx, obj, schema.Object{"spec": map[string]any{"a": "abc"}}).FieldErrors()
	})
}
