package rules_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// TestCheckTypes checks which rules have a type and can be evaluated, in schemas whose parents have
// rules too.
func TestCheckTypes(t *testing.T) {
	const rule = `x-kubernetes-validations: [{rule: "true"}]`
	for _, text := range []string{
		`{type: object, x-kubernetes-validations: [{rule: "has(self.pod)"}], properties: {PROPS}}`,
		`{type: object, properties: {PROPS}}`,
	} {
		const props = `
  pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-validations: [{rule: "self.metadata.name == 'x' && self.kind != ''"}],
    properties: {metadata: {type: object, x-kubernetes-validations: [{rule: "self.name != ''"}], properties: {name: {type: string, x-kubernetes-validations: [{rule: "self != ''"}]}}}}},
  list: {type: array, maxItems: 3, x-kubernetes-validations: [{rule: "self.all(x, x.k != '')"}], items: {type: object, x-kubernetes-validations: [{rule: "self.k != ''"}], properties: {k: {type: string, x-kubernetes-validations: [{rule: "self != ''"}]}}}},
  map: {type: object, maxProperties: 3, x-kubernetes-validations: [{rule: "self.all(k, self[k] > 1)"}], additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}},
  "with space": {type: object, x-kubernetes-validations: [{rule: "self.a > 1"}], properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}},
  any: {x-kubernetes-preserve-unknown-fields: true, ` + rule + `, properties: {a: {type: integer, ` + rule + `, properties: {b: {type: integer, ` + rule + `}}}}},
  "any other": {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, ` + rule + `}}},
  x-y: {type: object, properties: {true: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}`
		report := rules.Check(structural(strings.Replace(text, "PROPS", props, 1)), rules.CheckOptions{})
		var got []string
		for _, s := range report.Schemas {
			line := s.Path.String()
			switch {
			case s.Err != nil:
				line += fmt.Sprintf(": %v %t", s.Err, s.NoType)
			case s.Rules[0].Err != nil:
				line += ": " + s.Rules[0].Err.Error()
			}
			if s.Unreachable {
				line += " unreachable"
			}
			got = append(got, line)
		}
		const noDecl = ": unable to convert structural schema to CEL declarations true unreachable"
		want := []string{
			".properties[any].properties[a].properties[b]" + noDecl, ".properties[any].properties[a]" + noDecl, ".properties[any]" + noDecl,
			".properties[any other].properties[a] unreachable",
			".properties[list].items.properties[k]", ".properties[list].items", ".properties[list]",
			".properties[map].additionalProperties", ".properties[map]",
			".properties[pod].properties[metadata].properties[name]", ".properties[pod].properties[metadata]", ".properties[pod]",
			".properties[with space].properties[a]", ".properties[with space]", ".properties[x-y].properties[true]",
		}
		if report.Schemas[len(report.Schemas)-1].Path == nil {
			want = append(want, "")
			want[3] = ".properties[any other].properties[a]" + noDecl // a value with a type around it has none
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %q\nwant %q", text, got, want)
		}
	}
}

// TestCheckSums checks that costs that are too high to be counted do not become low.
func TestCheckSums(t *testing.T) {
	const dear = `{rule: "self.all(a, self.all(b, self.all(c, self.all(d, a == b && c == d))))"}`
	report := rules.Check(structural(`{type: object, properties: {l: {type: array, items: {type: string}, x-kubernetes-validations: [`+dear+`, `+dear+`, {rule: "self.size() > 1", messageExpression: "self[0]"}]}}}`), rules.CheckOptions{})
	if report.TotalCost != math.MaxUint64 || !report.Exceeded() {
		t.Errorf("got %d", report.TotalCost)
	}
	// The sum has all rules and messages.
	cheap := rules.Check(structural(`{type: object, properties: {l: {type: array, maxItems: 3, items: {type: string, maxLength: 5}, x-kubernetes-validations: [{rule: "self.size() > 1", messageExpression: "self[0]"}, {rule: "self.size() > 2"}]}}}`), rules.CheckOptions{})
	var sum uint64
	for _, r := range cheap.Rules() {
		sum += r.Cost.Total + r.MessageCost.Total
	}
	if sum == 0 || cheap.TotalCost != sum {
		t.Errorf("got %d, want %d", cheap.TotalCost, sum)
	}
	// Without rules, there is nothing to report.
	if none := rules.Check(structural(`{type: object}`), rules.CheckOptions{}); len(none.Schemas) != 0 || none.TotalCost != 0 {
		t.Errorf("got %+v", none)
	}
	stopped := rules.Check(structural(`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}`), rules.CheckOptions{Stop: func() bool { return true }})
	if len(stopped.Schemas) != 0 {
		t.Errorf("got %+v", stopped)
	}
}

// TestHoldsElsewhere checks that nothing is known where a rule cannot be evaluated.
func TestHoldsElsewhere(t *testing.T) {
	str := &schema.Structural{Generic: schema.Generic{Type: "string"}}
	object := func(props map[string]*schema.Structural) *schema.Structural {
		return &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: props}
	}
	resource := object(map[string]*schema.Structural{"d": str})
	resource.XEmbeddedResource = true
	values := object(nil)
	values.AdditionalProperties = &schema.StructuralOrBool{Structural: str}
	s := object(map[string]*schema.Structural{"a": str, "a-b": object(map[string]*schema.Structural{"d": str}), "r": resource, "o": object(map[string]*schema.Structural{"d": str}), "m": values})
	holds := func(s *schema.Structural, path ...string) bool {
		return rules.Holds(schema.RuleCase{Rule: api.ValidationRule{Rule: "true || self == self"}, Schema: s, Path: path, Value: "x"})
	}
	for _, tt := range []struct {
		s    *schema.Structural
		path []string
		want bool
	}{
		{s, []string{"a"}, true}, {s, []string{"o", "d"}, true}, {s, []string{"a-b"}, true}, {s, []string{"r"}, true},
		{s, []string{"a-b", "d"}, false}, {s, []string{"r", "d"}, false}, {s, []string{"m", "x"}, false}, {s, []string{"o", "none"}, false},
		{&schema.Structural{}, []string{"a"}, false}, {values, []string{"x"}, false},
	} {
		if got := holds(tt.s, tt.path...); got != tt.want {
			t.Errorf("%q: got %t", tt.path, got)
		}
	}
}
