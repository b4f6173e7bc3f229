package object

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// TestConcern compares the results of both semantics for random schemas and objects: where they are
// said to agree, they do.
func TestConcern(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	var randomSchema func(depth int) map[string]any
	randomSchema = func(depth int) map[string]any {
		s := map[string]any{"type": one("object", "object", "object", "array", "string")}
		switch {
		case depth == 0:
			s["type"] = "string"
		case s["type"] == "array":
			s["items"] = randomSchema(depth - 1)
		case s["type"] == "object" && random.IntN(4) == 0:
			s["additionalProperties"] = randomSchema(depth - 1)
		case s["type"] == "object":
			properties := map[string]any{}
			for range random.IntN(3) {
				properties[one("a", "b", "c")] = randomSchema(depth - 1)
			}
			s["properties"] = properties
		}
		if random.IntN(6) == 0 {
			s["nullable"] = true
		}
		if s["type"] == "object" && random.IntN(4) == 0 {
			s["x-kubernetes-preserve-unknown-fields"] = true
			if random.IntN(3) == 0 {
				delete(s, "properties")
			}
			if random.IntN(6) == 0 {
				s["x-kubernetes-embedded-resource"] = true
			}
		}
		return s
	}
	// A value mostly has the type of its schema, which is nil if there is none.
	var randomValue func(s map[string]any, depth int) any
	randomValue = func(s map[string]any, depth int) any {
		typ, _ := s["type"].(string)
		if typ == "" || random.IntN(20) == 0 {
			typ = one("object", "array", "string", "null")
		}
		below := func(key string) map[string]any {
			part, _ := s[key].(map[string]any)
			return part
		}
		switch {
		case typ == "null":
			return nil
		case typ == "array" && depth > 0:
			return []any{randomValue(below("items"), depth-1), randomValue(below("items"), depth-1)}
		case typ == "string" || depth == 0:
			return "text"
		}
		m := map[string]any{}
		for range random.IntN(4) {
			name := one("a", "b", "c", "d")
			part, _ := below("properties")[name].(map[string]any)
			if part == nil {
				part = below("additionalProperties")
			}
			m[name] = randomValue(part, depth-1)
		}
		return m
	}
	differ, skipped := 0, 0
	for range 2000 {
		spec := randomSchema(4)
		text, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"spec": spec}})
		if err != nil {
			t.Fatal(err)
		}
		hub, err := codec.DecodeLenient(fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
			"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"kind":"Thing","plural":"things"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":%s}}]}}`, text))
		if err != nil {
			t.Fatal(err)
		}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			d, err := crd.New(hub, crd.Options{Semantics: sem, IgnoreRules: true})
			if err != nil {
				t.Fatal(err)
			}
			c := New(d, Options{})
			for range 10 {
				value, err := json.Marshal(randomValue(spec, 5))
				if err != nil {
					t.Fatal(err)
				}
				source := fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":%s}`, value)
				result, err := admit(t.Context(), c.admitter, source, nil)
				if err != nil {
					continue // both are compared then
				}
				found := c.compare(t.Context(), source, nil, result, nil)
				if len(found) > 0 {
					differ++
				}
				if c.differences["v1"].concern(result) {
					continue
				}
				if skipped++; len(found) > 0 {
					t.Fatalf("schema %s\nobject %s\n%s semantics, not compared: %v", text, source, sem, found)
				}
			}
		}
	}
	if differ < 100 || skipped < 1000 {
		t.Errorf("%d objects differ, and %d are not compared: the test is too weak", differ, skipped)
	}
}
