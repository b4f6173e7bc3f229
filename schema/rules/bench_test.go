package rules_test

import (
	"context"
	"fmt"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

func BenchmarkValidate(b *testing.B) {
	p, err := schema.Compile(structural(espaliers), schema.WithRules(rules.Compiler()))
	if err != nil {
		b.Fatal(err)
	}
	obj := schema.Object{"spec": map[string]any{"tiers": int64(4), "height": int64(180), "fruit": "pear"}}
	ctx := context.Background()
	for _, old := range []schema.Object{nil, obj} {
		b.Run(fmt.Sprintf("update=%t", old != nil), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found := p.Validate(ctx, obj, old); found != nil {
					b.Fatal(found)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	s := structural(espaliers)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rules.Compiler()(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRules evaluates rules with calls that are limited.
func BenchmarkRules(b *testing.B) {
	for name, rule := range map[string]string{
		"equality": "self.a == 'abc' && self.c != 4", "objects": "self.o == oldSelf.o", "lists": "self.l == oldSelf.l", "in": "self.a in self.l",
		"size": "self.a.size() < 10 && self.l.all(x, x.size() < 63)", "matches": "self.a.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",
		"format": "'%s %d'.format([self.a, self.c]) != ''", "indexOf": "self.a.indexOf('b') == 1", "exists": "self.l.exists(x, self.l.exists_one(y, x == y))",
		"sum": "self.l.map(x, x.size()).sum() < 100", "dyn": "dyn(self.o) != dyn(self.l)", "concat": "(self.l + ['x']).size() > 0",
	} {
		s := structural(`{type: object, properties: {a: {type: string}, c: {type: integer}, l: {type: array, items: {type: string}}, o: {type: object, properties: {a: {type: string}, b: {type: array, items: {type: integer}}}}}}`)
		s.XValidations = []api.ValidationRule{{Rule: rule}}
		p, err := schema.Compile(s, schema.WithRules(rules.Compiler()))
		if err != nil {
			b.Fatal(err)
		}
		obj := schema.Object{"a": "abc", "c": int64(3), "l": []any{"a", "b", "abc", "d", "e"}, "o": map[string]any{"a": "b", "b": []any{int64(1), int64(2)}}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if found := p.Validate(b.Context(), obj, obj); found != nil {
					b.Fatal(found)
				}
			}
		})
	}
}
