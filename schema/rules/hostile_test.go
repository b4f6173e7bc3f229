package rules_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// TestHostile compiles rules that are written to hurt. Each must fail or succeed in
// bounded time, say where it stands, and not say too much.
func TestHostile(t *testing.T) {
	many := func(n int, part, joint string) string {
		return strings.TrimSuffix(strings.Repeat(part+joint, n), joint)
	}
	tests := []struct{ name, rule, message, want string }{
		{"longer than the compiler takes", many(20_000, "true", "&&"), "", "expression code point size exceeds limit"},
		{"100 KB of conditions", many(14_000, "true", "&&"), "", ""},
		{"100 KB of mistakes", many(12_000, "self.x", "||"), "", "undefined field 'x'"},
		{"100 KB of nonsense", strings.Repeat("(]", 49_000), "", "Syntax error"},
		{"100 KB in one string", "self.a == '" + strings.Repeat("x", 98_000) + "'", "", ""},
		{"100 KB of parentheses", strings.Repeat("(", 49_000) + "true" + strings.Repeat(")", 49_000), "", "recursion limit"},
		{"100 KB of negations", strings.Repeat("!", 99_000) + "true", "", ""},
		{"nested lists", strings.Repeat("[", 5000) + "1" + strings.Repeat("]", 5000) + " == []", "", "recursion limit"},
		{"nested macros", strings.Repeat("self.l.all(x,", 200) + "true" + strings.Repeat(")", 200), "", ""},
		{"nested conditions", strings.Repeat("true ? (", 1000) + "true" + strings.Repeat(") : false", 1000), "", "recursion limit"},
		{"a long chain of fields", "self" + strings.Repeat(".a", 40_000) + " == ''", "", ""},
		{"not UTF-8", "self.a == '\xff\xfe'", "", ""},
		{"chained macros that double", "optional.of(1)" + strings.Repeat(".optMap(x, x)", 30) + ".hasValue()", "", "too complex to be compiled: use fewer"},
		{"a message with them", "true", "optional.of('')" + strings.Repeat(".optFlatMap(x, optional.of(x))", 30) + ".value()", "messageExpression compilation failed: the expression is too complex"},
		{"empty maps", "[" + strings.Repeat("{},", 3_400) + "{}].size() > 0", "", "too complex to be compiled"},
		{"an optional item of any type", "[?dyn(self.a)].size() == 0", "", "the compiler of CEL failed"},
		{"a message without end", "true", strings.Repeat("(", 90_000), "messageExpression"},
	}
	for _, tt := range tests {
		if testing.Short() && strings.HasPrefix(tt.name, "100 KB") {
			continue // each takes a quarter of a second
		}
		t.Run(tt.name, func(t *testing.T) {
			s := structural(`{type: object, properties: {spec: {type: object, properties: {a: {type: string}, l: {type: array, items: {type: integer}}}}}}`)
			s.Properties["spec"].XValidations = []api.ValidationRule{{Rule: tt.rule, MessageExpression: tt.message}}
			_, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
			report := rules.Check(s, rules.CheckOptions{})
			if len(report.Rules()) != 1 {
				t.Errorf("%d rules", len(report.Rules()))
			}
			for _, e := range report.FieldErrors(nil, false) {
				if len(e.Detail) > 40<<10 || !strings.HasPrefix(e.Field, "properties[spec].x-kubernetes-validations[0]") {
					t.Errorf("%s: detail of %d bytes", e.Field, len(e.Detail))
				}
			}
			if err == nil {
				if tt.want != "" {
					t.Errorf("compiles, want %s", tt.want)
				}
				return
			}
			if text := err.Error(); !strings.Contains(text, ".properties[spec].x-kubernetes-validations[0]") || len(text) > 4<<10 || !strings.Contains(text, tt.want) {
				t.Errorf("got %.300s (%d bytes), want %s", text, len(text), tt.want)
			}
		})
	}
}

// TestManyBrokenRules keeps the list of errors short.
func TestManyBrokenRules(t *testing.T) {
	s := structural(`{type: object, properties: {a: {type: integer}}}`)
	for i := range 5000 {
		s.Properties["a"].XValidations = append(s.Properties["a"].XValidations, api.ValidationRule{Rule: fmt.Sprintf("self.x%d", i)})
	}
	_, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
	if err == nil || len(err.Error()) > 16<<10 || !strings.Contains(err.Error(), "and 4990 more") {
		t.Errorf("got %.200v", err)
	}
}

// TestExpensiveEvaluation runs what costs too much, without the help of estimates.
func TestExpensiveEvaluation(t *testing.T) {
	p := compile(t, `{type: object, properties: {l: {type: array, items: {type: integer}, x-kubernetes-validations: [
		{rule: "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > 0))))"}, {rule: "false"}]}}}`)
	list := make([]any, 3000)
	for i := range list {
		list[i] = int64(i + 1)
	}
	errs := p.Validate(context.Background(), schema.Object{"l": list}, nil).FieldErrors()
	if len(errs) != 1 || errs[0].Field != "l" || !strings.Contains(errs[0].Detail, "actual cost limit exceeded") {
		t.Errorf("got %v", errs)
	}
}

// TestBudgetOverManyValues uses the budget up over many values that are cheap each.
func TestBudgetOverManyValues(t *testing.T) {
	p := compile(t, `{type: object, properties: {l: {type: array, items: {type: array, items: {type: integer}, x-kubernetes-validations: [
		{rule: "self.all(a, self.all(b, a + b > 0))"}]}}}}`, rules.WithBudget(rules.Budget/10))
	row := make([]any, 300)
	for i := range row {
		row[i] = int64(1)
	}
	rows := make([]any, 20)
	for i := range rows {
		rows[i] = row
	}
	errs := p.Validate(context.Background(), schema.Object{"l": rows}, nil).FieldErrors()
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Field, "l[") || !strings.Contains(errs[0].Detail, "running out of cost budget") {
		t.Errorf("got %v", errs)
	}
}

// TestDeepSchema has a rule at the bottom of a deep schema, and one at each level.
func TestDeepSchema(t *testing.T) {
	const depth = 200
	s := &schema.Structural{Generic: schema.Generic{Type: "integer"}}
	s.XValidations = []api.ValidationRule{{Rule: "self > 1"}}
	var obj any = int64(1)
	for range depth {
		s = &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{"a": s}}
		s.XValidations = []api.ValidationRule{{Rule: "has(self.a)"}}
		obj = map[string]any{"a": obj}
	}
	p, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
	if err != nil {
		t.Fatal(err)
	}
	errs := p.Validate(context.Background(), obj.(map[string]any), nil).FieldErrors()
	if len(errs) != 1 || strings.Count(errs[0].Field, "a") != depth {
		t.Errorf("got %v", errs)
	}
}

// TestCostlyQuantities evaluates rules on quantities that would take very long to parse, or to
// compare with others.
func TestCostlyQuantities(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: string, maxLength: 20, x-kubernetes-validations: [
		{rule: isQuantity(self), message: none}, {rule: "quantity(self).isLessThan(quantity('10Gi'))", message: large}, {rule: "dyn(self) == self && isQuantity('1' + self)", message: made}]}}}`)
	for text, want := range map[string]string{
		"1Gi": "[]", "1e-3": "[]",
		"1e12": `[a: Invalid value: "1e12": large]`,
		"1e-99999": `[a: Invalid value: "1e-99999": none a: Invalid value: "string": the number is too long, or its exponent too large, for a quantity evaluating rule: large` +
			` a: Invalid value: "1e-99999": made]`,
		"1e999": `[a: Invalid value: "1e999": large]`,
	} {
		var got []string
		for _, err := range p.Validate(context.Background(), schema.Object{"a": text}, nil).FieldErrors() {
			got = append(got, err.Error())
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}

// TestManyFailures evaluates a rule that fails on every item of a long list.
func TestManyFailures(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}, {rule: "self == 'y'"}]}}}}`)
	list := make([]any, 200_000)
	for i := range list {
		list[i] = "z"
	}
	if vs := p.Validate(context.Background(), schema.Object{"a": list}, nil); len(vs) != schema.MaxViolations {
		t.Errorf("%d violations", len(vs))
	}
}

// TestCostlyPattern matches a text with a pattern for which it is too long.
func TestCostlyPattern(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	p := compile(t, `{type: object, properties: {a: {type: string, pattern: "^(.*a){1000}$"}}}`)
	for n, want := range map[int]string{1_000: "", 999: `should match '^(.*a){1000}$'`, 900_000: `in body should match '^(.*a){1000}$', but a text of 900000 bytes is too long for a regular expression`} {
		errs := p.Validate(context.Background(), schema.Object{"a": strings.Repeat("a", n)}, nil).FieldErrors()
		switch {
		case want == "" && len(errs) > 0, want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Detail, want)):
			t.Errorf("%d bytes: got %.200v", n, errs)
		}
	}
}

// TestCostlyCalls evaluates rules whose calls take far longer than their cost tells. Each must end soon,
// with the right answer or an error.
func TestCostlyCalls(t *testing.T) {
	nested := "[[1, 1]].all(v0, " // and so on, each list has the one before twice
	for i := range 30 {
		nested += fmt.Sprintf("[[v%d, v%d]].all(v%d, ", i, i, i+1)
	}
	ends := strings.Repeat(")", 31)
	tests := []struct{ name, rule, message, want string }{
		{"text in a text", "self.a.indexOf(self.b) == -1 && self.a.lastIndexOf(self.b) == -1", "", ""},
		{"the same list many times", nested + "v30 == v30" + ends, "", "the arguments of == are too large"},
		{"the same list many times in a message", "false", nested + "'%s'.format([v30]) == ''" + ends + " ? 'a' : 'b'", "failed rule: false"},
		{"large values again and again", "self.l.all(x, self.l == oldSelf.l)", "", "cost limit"},
		{"lists that are made again and again", "self.l.all(x, (self.l + [x]).size() > 0)", "", "cost limit"},
		{"sizes of a large text", "self.l.all(x, self.a.size() > 0)", "", "cost limit"},
		{"loops that end at once", "self.l.all(x, self.l.exists(y, y == 'l') && self.m.exists(k, true))", "", ""},
		{"a large pattern", "!self.a.matches('^(.*a){1000}$')", "", "too long for a regular expression"},
	}
	size := 20_000
	if testing.Short() {
		size = 5_000
	}
	list, named := make([]any, size), map[string]any{}
	for i := range list {
		list[i] = "l"
		named[fmt.Sprint(i)] = "m"
	}
	obj := schema.Object{"a": strings.Repeat("a", 1_500_000), "b": strings.Repeat("a", 750_000) + "b", "l": list, "m": named}
	for _, tt := range tests {
		if testing.Short() && tt.want == "cost limit" {
			continue // each takes seconds: TestExpensiveEvaluation reaches the limit, too
		}
		t.Run(tt.name, func(t *testing.T) {
			s := structural(`{type: object, properties: {a: {type: string}, b: {type: string}, l: {type: array, items: {type: string}}, m: {type: object, additionalProperties: {type: string}}}}`)
			s.XValidations = []api.ValidationRule{{Rule: tt.rule, MessageExpression: tt.message}}
			p, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var old schema.Object
			if strings.Contains(tt.rule, "oldSelf") {
				old = obj
			}
			got := fmt.Sprint(p.Validate(ctx, obj, old).FieldErrors())
			if tt.want == "" && got != "[]" || !strings.Contains(got, tt.want) || ctx.Err() != nil {
				t.Errorf("got %.500s, want %s (%v)", got, tt.want, ctx.Err())
			}
		})
	}
}

// TestTooComplexTogether checks a schema whose rules compile one by one, but not all of them.
func TestTooComplexTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: kinds/cel has such a test of policies")
	}
	s := structural(`{type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}`)
	for i := range 30 {
		rule := fmt.Sprintf("[%s{}].size() > %d", strings.Repeat("{},", 1_500), i)
		s.Properties["spec"].XValidations = append(s.Properties["spec"].XValidations, api.ValidationRule{Rule: rule})
	}
	errs := rules.Check(s, rules.CheckOptions{}).FieldErrors(nil, false)
	if len(errs) == 0 || len(errs) == 30 || !strings.Contains(errs[0].Detail, "all CEL expressions of the object together are too complex") {
		t.Errorf("got %d errors: %.300v", len(errs), errs)
	}
}

// TestStoredTooComplex uses a CRD that was stored before there was a bound: its other rules are evaluated, the rule beyond
// the bound is a violation, and an update that does not change the schema is accepted.
func TestStoredTooComplex(t *testing.T) {
	s := structural(`{type: object, properties: {spec: {type: object, properties: {a: {type: string}}}}}`)
	s.Properties["spec"].XValidations = []api.ValidationRule{
		{Rule: "self.a == 'a'", Message: "must be a"},
		{Rule: "optional.of(1)" + strings.Repeat(".optMap(x, x)", 30) + ".hasValue()"},
	}
	p, err := schema.Compile(s, schema.WithRules(rules.Compiler(rules.WithBrokenRules())))
	if err != nil {
		t.Fatal(err)
	}
	violations := p.Validate(t.Context(), schema.Object{"spec": map[string]any{"a": "b"}}, nil).FieldErrors()
	text := fmt.Sprint(violations)
	if len(violations) != 2 || !strings.Contains(text, "must be a") || !strings.Contains(text, "too complex to be compiled") {
		t.Errorf("got %s", text)
	}
	report := rules.Check(s, rules.CheckOptions{})
	if errs := report.FieldErrors(nil, false); len(errs) != 1 {
		t.Errorf("changed: %v", errs)
	}
	if errs := report.FieldErrors(nil, true); len(errs) != 0 {
		t.Errorf("unchanged: %v", errs)
	}
}
