package impact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/schema"
)

// objectsOf returns objects with all combinations of fields of spec.x. The empty field is left out.
func objectsOf(t *testing.T, fields ...[]string) (all [][]byte) {
	t.Helper()
	combinations := [][]string{nil}
	for _, options := range fields {
		var next [][]string
		for _, c := range combinations {
			for _, option := range options {
				next = append(next, append(slices.Clone(c), option))
			}
		}
		combinations = next
	}
	for _, c := range combinations {
		all = append(all, object(t, "{"+strings.Join(present(c), ", ")+"}"))
	}
	return all
}

// present returns the strings that are not empty.
func present(s []string) []string {
	return slices.DeleteFunc(slices.Clone(s), func(s string) bool { return s == "" })
}

// becomeInvalid returns how many objects become invalid. The test fails if no change announces one of them.
func becomeInvalid(t *testing.T, c *impact.Comparison, objects [][]byte, change string) (invalid int) {
	t.Helper()
	for _, x := range objects {
		outcome, err := c.Try(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		if outcome.WasInvalid {
			continue
		}
		for _, o := range outcome.Of(impact.Invalid) {
			invalid++
			if len(c.Announcing(o)) == 0 {
				t.Fatalf("%s: %s becomes invalid: %s", change, x, o)
			}
		}
	}
	return invalid
}

// TestAddedFieldsUnderRules adds fields and rules about them, and tries all objects of a small
// domain: if one of them becomes invalid, a change says so. Many verdicts must be safe.
func TestAddedFieldsUnderRules(t *testing.T) {
	t.Parallel()
	// One change of several is tried in a short test, so that each field is still among them.
	every, expected := 1, 100
	if testing.Short() {
		every, expected = 7, 20
	}
	objects := objectsOf(t, []string{"", "a: x", "a: y"}, []string{"", "b: 1", "b: 7"}, []string{"", "c: {}", "c: {d: x}", "c: {d: y}"})
	props := [3][]string{
		{"a: {type: string}", "a: {type: string, default: x}", "a: {type: string, default: y}"},
		{"b: {type: integer}", "b: {type: integer, default: 7}"},
		{"c: {type: object, properties: {d: {type: string}}}", "c: {type: object, default: {}, properties: {d: {type: string, default: x}}}"},
	}
	schemaOf := func(more string, fields ...string) string {
		return "{type: object, properties: {e: {type: string}, " + strings.Join(present(fields), ", ") + "}" + more + "}"
	}
	safe, invalid, changes := 0, 0, 0
	for _, rule := range []string{
		"!has(self.a) || self.a == 'x'",
		"!has(self.a) || has(self.b)",
		"has(self.a) != has(self.b)",
		"!(has(self.a) && has(self.b) && has(self.c))",
		"self.?a.orValue('x') == 'x' || self.?b.orValue(0) < 5",
		"has(self.c) && has(self.c.d) ? self.c.d == 'x' : !has(self.b)",
		"[has(self.a), has(self.b), has(self.c)].filter(x, x).size() <= 1",
	} {
		for i := range 12 * 8 {
			if changes++; changes%every != 0 {
				continue
			}
			fields := []string{props[0][i%3], props[1][i/3%2], props[2][i/6%2]}
			before := slices.Clone(fields)
			for f := range before {
				if i/12&(1<<f) == 0 {
					before[f] = ""
				}
			}
			after := schemaOf(fmt.Sprintf(", x-kubernetes-validations: [{rule: %q}]", rule), fields...)
			c := compare(t, crdOf(t, schemaOf("", before...)), crdOf(t, after), schema.Kubernetes)
			for i := range c.Changes {
				if c.Changes[i].Kind == "rule-added" && c.Changes[i].Class() == impact.Safe {
					safe++
				}
			}
			invalid += becomeInvalid(t, c, objects, fmt.Sprintf("rule %s, fields %q → %q", rule, before, fields))
		}
	}
	t.Logf("%d safe rules, %d invalid objects", safe, invalid)
	if safe < expected || invalid < expected {
		t.Errorf("%d safe rules, %d invalid objects: the test proves nothing", safe, invalid)
	}
}

// TestDefaultsUnderRules changes defaults under rules that read them, and tries all objects of a
// small domain: if one of them becomes invalid, a change says so. Many verdicts must be milder.
func TestDefaultsUnderRules(t *testing.T) {
	t.Parallel()
	every, expected := 1, 100
	if testing.Short() {
		every, expected = 7, 20
	}
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
	objects := objectsOf(t, []string{"", "a: x", "a: y", "a: z"}, []string{"", "b: 1", "b: 7"}, []string{"", "c: {}", "c: {d: x}", "c: {d: y}"})
	defaults := [][3]string{{}, {"x"}, {"y"}, {"", "1"}, {"", "7"}, {"", "", "x"}, {"", "", "y"}, {"x", "7", ""}, {"y", "1", "x"}}
	verdicts := map[impact.Class]int{}
	invalid, changes := 0, 0
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
				if changes++; before == after || changes%every != 0 {
					continue
				}
				c := compare(t, crdOf(t, schemaOf(rule, before)), crdOf(t, schemaOf(rule, after)), schema.KEP)
				verdicts[c.Class()]++
				invalid += becomeInvalid(t, c, objects, fmt.Sprintf("rule %s, defaults %q → %q", rule, before, after))
			}
		}
	}
	t.Logf("%v, %d invalid objects", verdicts, invalid)
	if verdicts[impact.Invalid] < expected || verdicts[impact.Defaulted] < expected || invalid < expected {
		t.Errorf("%v, %d invalid objects: the test proves nothing", verdicts, invalid)
	}
}
