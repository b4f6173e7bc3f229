package crd_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// bound is how many bytes judging a hostile definition may allocate, all in all. What
// runs away in time does so in memory too, and unlike time it can be counted.
const bound = 8 << 30

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// decoded reads a schema as a server would; deep nesting may be rejected right there.
func decoded(t *testing.T, text string) *api.JSONSchemaProps {
	t.Helper()
	s := &api.JSONSchemaProps{}
	if err := api.Unmarshal([]byte(text), s); err != nil {
		t.Skipf("rejected by the decoder: %v", err)
	}
	return s
}

// TestHostile holds that definitions made to hurt are judged at bounded cost, and
// that nothing panics. The short run has smaller ones, and a lower bound: quadratic cost has a
// hundredth at a tenth of the size.
func TestHostile(t *testing.T) {
	smaller := 1
	if testing.Short() {
		smaller = 10
	}
	nest := func(n int, open, inner, end string) string {
		n /= smaller
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	var wide strings.Builder
	for i := range 20_000 / smaller {
		fmt.Fprintf(&wide, `,"p%d":{"type":"string","default":1}`, i)
	}
	deepDefault := nest(1000, `{"a":`, `1`, `}`)
	cases := map[string]string{
		"nested logical operators":  `{"type":"object","properties":{"a":{"type":"object","allOf":[` + nest(4000, `{"anyOf":[`, `{"type":"x"}`, `]}`) + `]}}}`,
		"1 MB of logical operators": `{"type":"object","allOf":[{}` + strings.Repeat(`,{"not":{"anyOf":[{"required":["a"]}]}}`, 25_000/smaller) + `]}`,
		"nested untyped":            nest(2000, `{"properties":{"a":`, `{}`, `}}`),
		"nested defaults":           nest(2000, `{"type":"object","default":{},"properties":{"a":`, `{"type":"string","default":1}`, `}}`),
		"nested defaults, embedded": `{"type":"object","properties":{"r":` + nest(300, `{"type":"object","default":{},"x-kubernetes-embedded-resource":true,"properties":{"metadata":{"type":"object","default":{"name":"A B"}},"a":`, `{"type":"string"}`, `}}`) + `}}`,
		"deep default":              `{"type":"object","properties":{"a":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"default":` + deepDefault + `}}}`,
		"deep default, pruned":      `{"type":"object","properties":{"a":{"type":"object","default":` + deepDefault + `}}}`,
		"many bad defaults":         `{"type":"object","properties":{"a":{"type":"object"}` + wide.String() + `}}`,
		"large pattern":             `{"type":"object","properties":{"a":{"type":"string","pattern":"` + strings.Repeat("(a|b)*", 50_000/smaller) + `","default":"ab"}}}`,
		"repeated pattern":          `{"type":"object","properties":{"a":{"type":"string","pattern":"((a{100}){100}){100}"}}}`,
		"keywords of draft 4":       `{"type":"object","properties":{"a":` + nest(2000, `{"definitions":{"x":`, `{"uniqueItems":true,"$ref":"#"}`, `}}`) + `}}`,
		"rules at every level":      nest(1500, `{"type":"object","uniqueItems":true,"x-kubernetes-validations":[{"rule":"true","fieldPath":".a.a"}],"properties":{"a":`, `{"type":"string"}`, `}}`),
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			s := decoded(t, text)
			spent := allocated(func() {
				for _, sem := range both {
					c := definition(t, "", func(c *api.CustomResourceDefinition) {
						c.Spec.Versions[0].Schema = &api.CustomResourceValidation{OpenAPIV3Schema: s}
					})
					o := crd.Options{Semantics: sem, IgnoreRules: true}
					size := 0
					for _, e := range crd.ValidateCreate(context.Background(), c, o).Errors {
						size += len(e.Field) + len(e.Detail)
					}
					if size > 64<<20 {
						t.Errorf("%v: errors of %d bytes", sem, size)
					}
					crd.ValidateUpdate(context.Background(), c.DeepCopy(), c, o)
				}
			})
			t.Logf("%d MB", spent>>20)
			if spent > bound/uint64(smaller) {
				t.Errorf("allocates %d MB", spent>>20)
			}
		})
	}
}

// TestHostileReferences: a web of references costs what its definitions cost.
func TestHostileReferences(t *testing.T) {
	definitions := map[string]api.JSONSchemaProps{}
	for i := range 40 {
		next := fmt.Sprintf("#/definitions/d%d", i+1)
		definitions[fmt.Sprint("d", i)] = api.JSONSchemaProps{AllOf: []api.JSONSchemaProps{{Ref: &next}, {Ref: &next}}}
	}
	definitions["d40"] = api.JSONSchemaProps{Type: []string{"string"}}
	first := "#/definitions/d0"
	c := betaDefinition(t, "", func(c *v1beta1.CustomResourceDefinition) {
		c.Spec.Validation = &v1beta1.CustomResourceValidation{JSONSchema: &api.JSONSchemaProps{
			Definitions: definitions, Properties: map[string]api.JSONSchemaProps{"a": {Ref: &first}},
		}}
	})
	if spent := allocated(func() { expect(t, createBeta(c, schema.KEP).Errors) }); spent > 64<<20 {
		t.Errorf("allocates %d MB", spent>>20)
	}
}

// TestManyVersions validates a CRD with so many versions that a search in all of them for each
// one would not end before the tests time out.
func TestManyVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	t.Parallel()
	c := definition(t, `{"type": "object"}`)
	first := c.Spec.Versions[0]
	for i := range 300_000 {
		v := first
		v.Name, v.Storage = fmt.Sprint("v1beta", i), false
		c.Spec.Versions = append(c.Spec.Versions, v)
	}
	c.Spec.Versions[len(c.Spec.Versions)-1].Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
	if errs := create(c, schema.KEP).Errors; len(errs) > 0 {
		t.Errorf("got %d errors, the first is %v", len(errs), errs[0])
	}
}
