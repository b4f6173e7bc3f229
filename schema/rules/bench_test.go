package rules_test

import (
	"context"
	"fmt"
	"testing"

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
