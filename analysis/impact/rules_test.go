package impact_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestDefaultsUnderRules changes defaults under rules that read them, and tries all objects of a
// small domain: if one of them becomes invalid, a change says so. Many verdicts must be milder.
func TestDefaultsUnderRules(t *testing.T) {
	t.Parallel()
	schemaOf := func(rule string, defaults [3]string) string {
		with := func(typ, value string) string {
			if value != "" {
				typ += ", default: " + value
			}
			return typ
		}
		return fmt.Sprintf("{type: object, properties: {a: {%s}, b: {%s}, c: {type: object, properties: {d: {%s}}}}, x-kubernetes-validations: [{rule: %q}]}",
			with("type: string", defaults[0]), with("type: integer", defaults[1]), with("type: string", defaults[2]), rule)
	}
	var objects []string
	for _, a := range []string{"", `"a":"x",`, `"a":"y",`, `"a":"z",`} {
		for _, b := range []string{"", `"b":1,`, `"b":7,`} {
			for _, c := range []string{"", `"c":{},`, `"c":{"d":"x"},`, `"c":{"d":"y"},`} {
				body := a + b + c
				if body != "" {
					body = body[:len(body)-1]
				}
				objects = append(objects, "{"+body+"}")
			}
		}
	}
	defaults := [][3]string{{}, {"x"}, {"y"}, {"", "1"}, {"", "7"}, {"", "", "x"}, {"", "", "y"}, {"x", "7", ""}, {"y", "1", "x"}}
	verdicts := map[impact.Class]int{}
	invalid := 0
	for _, rule := range []string{
		"!has(self.a) || self.a == 'x'",
		"has(self.a)",
		"!has(self.a) || has(self.b)",
		"self.a == 'x' || self.b > 5",
		"self.?a.orValue('x') == 'x'",
		"has(self.c) && has(self.c.d) ? self.c.d == 'x' : true",
		"!has(self.c) || self.c.d == 'x'",
		"has(self.b) && self.b > 5 || !has(self.b)",
		"!has(oldSelf.a) || has(self.a) && self.a == oldSelf.a",
		"[has(self.a), has(self.b)].exists_one(x, x)",
	} {
		for _, before := range defaults {
			for _, after := range defaults {
				if before == after {
					continue
				}
				c, err := impact.Compare(t.Context(), crdOf(t, schemaOf(rule, before)), crdOf(t, schemaOf(rule, after)), impact.Options{Semantics: schema.KEP, Rules: cel.Checker{}})
				if err != nil {
					t.Fatal(err)
				}
				verdicts[c.Class()]++
				for _, x := range objects {
					object, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "n", "namespace": "ns"}, "spec": map[string]any{"x": json.RawMessage(x)}})
					if err != nil {
						t.Fatal(err)
					}
					outcome, err := c.Try(t.Context(), object)
					if err != nil {
						t.Fatal(err)
					}
					if outcome.WasInvalid {
						continue
					}
					for _, o := range outcome.Of(impact.Invalid) {
						invalid++
						if len(c.Announcing(o)) == 0 {
							t.Fatalf("rule %s, defaults %q → %q: %s becomes invalid: %s", rule, before, after, x, o)
						}
					}
				}
			}
		}
	}
	t.Logf("%v, %d invalid objects", verdicts, invalid)
	if verdicts[impact.Invalid] < 100 || verdicts[impact.Defaulted] < 100 || invalid < 100 {
		t.Errorf("%v, %d invalid objects: the test proves nothing", verdicts, invalid)
	}
}
