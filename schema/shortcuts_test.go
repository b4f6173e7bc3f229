package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/api"
)

// TestCanonicalTimes compares the shortcut for times with a parser, on all limits of the fields of
// a time.
func TestCanonicalTimes(t *testing.T) {
	for _, year := range []int{0, 1, 2, 999, 1900, 2000, 2023, 2024, 9999} {
		for month := range 14 {
			for day := range 33 {
				for _, clock := range []string{"00:00:00", "23:59:59", "24:00:00", "00:60:00", "00:00:60"} {
					s := fmt.Sprintf("%04d-%02d-%02dT%sZ", year, month, day, clock)
					_, err := time.Parse(time.RFC3339, s)
					// The first years are left to the parser, because of the zero time.
					if got, want := isCanonicalTime(s), err == nil && year > 1; got != want {
						t.Fatalf("%s: got %v, want %v", s, got, want)
					}
				}
			}
		}
	}
	const fine = "2024-02-03T04:05:06Z"
	for i := range len(fine) {
		for _, c := range []byte{'/', ':', 'x', ' '} {
			s := fine[:i] + string(c) + fine[i+1:]
			if got := isCanonicalTime(s); got != (s == fine) {
				t.Errorf("%s: got %v", s, got)
			}
		}
	}
	for _, s := range []string{"", fine + "Z", fine[1:], "2024-02-03T04:05:06+00:00"} {
		if isCanonicalTime(s) {
			t.Errorf("%q is canonical", s)
		}
	}
}

// TestRuleErrors checks kube-apiserver's errors about rules.
func TestRuleErrors(t *testing.T) {
	yes, root := true, field.NewPath("spec")
	dear := RuleCost{Total: 15, Limit: 10}
	within := &SchemaPath{{Keyword: "items"}}
	cost := func(what, factor string) string {
		return "Forbidden: " + what + " exceeds budget by factor of " + factor + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
	}
	for name, tt := range map[string]struct {
		schema  SchemaRules
		forgive bool
		want    []string
	}{
		"fine":             {SchemaRules{Rules: []CheckedRule{{Cost: RuleCost{Total: 10, Limit: 10}, MessageCost: RuleCost{Total: 10, Limit: 10}}}}, false, nil},
		"cost":             {SchemaRules{Rules: []CheckedRule{{}, {Index: 1, Cost: dear}}}, false, []string{"spec.x-kubernetes-validations[1].rule: " + cost("estimated rule cost", "1.5x")}},
		"forgiven":         {SchemaRules{Rules: []CheckedRule{{Cost: dear, MessageCost: dear}}}, true, nil},
		"message cost":     {SchemaRules{Rules: []CheckedRule{{MessageCost: dear}}}, false, []string{"spec.x-kubernetes-validations[0].messageExpression: " + cost("estimated messageExpression cost", "1.5x")}},
		"error":            {SchemaRules{Rules: []CheckedRule{{Err: fmt.Errorf("why"), Source: api.ValidationRule{Rule: "r"}}}}, true, []string{`spec.x-kubernetes-validations[0].rule: Invalid value: {"Rule":"r"`}},
		"message error":    {SchemaRules{Rules: []CheckedRule{{MessageErr: fmt.Errorf("why"), MessageCost: dear}}}, false, []string{"spec.x-kubernetes-validations[0].messageExpression: Invalid value: "}},
		"old self":         {SchemaRules{Uncorrelatable: within, Rules: []CheckedRule{{UsesOldSelf: true, Source: api.ValidationRule{Rule: "r"}}}}, false, []string{`spec.x-kubernetes-validations[0].rule: Invalid value: "r": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.items`}},
		"no old self":      {SchemaRules{Uncorrelatable: within, Rules: []CheckedRule{{}}}, false, nil},
		"old self, fine":   {SchemaRules{Rules: []CheckedRule{{UsesOldSelf: true, Source: api.ValidationRule{OptionalOldSelf: &yes}}}}, false, nil},
		"optional old":     {SchemaRules{Rules: []CheckedRule{{Source: api.ValidationRule{OptionalOldSelf: &yes}}}}, false, []string{"spec.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"}},
		"no types":         {SchemaRules{Err: fmt.Errorf("why"), NoType: true}, false, []string{"spec.x-kubernetes-validations: Internal error: internal error: failed to construct type information for x-kubernetes-validations rules: why"}},
		"no rules":         {SchemaRules{Err: fmt.Errorf("why")}, false, []string{"spec.x-kubernetes-validations: Internal error: why"}},
		"error and a cost": {SchemaRules{Rules: []CheckedRule{{Err: fmt.Errorf("why"), Cost: dear}}}, false, []string{"[0].rule: Forbidden: estimated rule cost", "[0].rule: Invalid value: "}},
	} {
		t.Run(name, func(t *testing.T) {
			report := &RuleReport{Schemas: []SchemaRules{tt.schema}}
			got := report.FieldErrors(root, tt.forgive)
			if len(got) != len(tt.want) {
				t.Fatalf("got %v, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i].Error(), want) {
					t.Errorf("got %s, want %s", got[i], want)
				}
			}
		})
	}
	for total, want := range map[uint64]string{14: "1.400000x", 15: "1.5x", 20: "2.0x", 1000: "100.0x", 1001: "more than 100x"} {
		if got := overBudget("it", total, 10); !strings.HasPrefix(got, "it exceeds budget by factor of "+want+" (") {
			t.Errorf("%d: got %s, want %s", total, got, want)
		}
	}
	// The total lists the four most expensive expressions that cost one percent, the first first.
	rule := func(i int, rule, message uint64) CheckedRule {
		return CheckedRule{Index: i, Cost: RuleCost{Total: rule}, MessageCost: RuleCost{Total: message}}
	}
	const percent = SchemaCostLimit / 100
	r := &RuleReport{TotalCost: SchemaCostLimit, Schemas: []SchemaRules{
		{Rules: []CheckedRule{rule(0, percent-1, percent), rule(1, 9*percent, 0)}}, {Rules: []CheckedRule{rule(2, 2*percent, 3*percent), rule(3, 4*percent, 0)}}}}
	var got []string
	for _, e := range r.MostExpensive() {
		got = append(got, fmt.Sprint(e.Index, e.Keyword))
	}
	if want := []string{"1rule", "3rule", "2messageExpression", "2rule"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(r.Rules()) != 4 || r.Exceeded() || len(r.TotalErrors(root)) != 0 {
		t.Errorf("at the limit: got %v", r.TotalErrors(root))
	}
	r.TotalCost++
	if got := r.TotalErrors(root); !r.Exceeded() || len(got) != 5 || got[0].Field != "spec.x-kubernetes-validations[1].rule" || got[4].Field != "spec" {
		t.Errorf("above the limit: got %v", got)
	}
	few := &RuleReport{Schemas: []SchemaRules{{Rules: []CheckedRule{rule(0, percent-1, percent)}}}}
	if got := few.MostExpensive(); len(got) != 1 || got[0].Keyword != "messageExpression" {
		t.Errorf("one percent: got %v", got)
	}
}

// TestSkeletonTypes checks that the skeleton has a type where all schemas have the same types, in
// any order.
func TestSkeletonTypes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "string"}`: "string",
		`{"type": "string", "anyOf": [{"type": "string"}]}`:                                "string",
		`{"type": "string", "anyOf": [{"type": "integer"}]}`:                               "",
		`{"type": ["string", "integer"], "allOf": [{"type": ["integer", "string"]}]}`:      "string integer",
		`{"type": ["string", "integer"], "allOf": [{"type": ["string", "string"]}]}`:       "",
		`{"type": ["string", "null"], "allOf": [{"type": ["string", "integer"]}]}`:         "",
		`{"type": ["string", "string"], "allOf": [{"type": "string"}]}`:                    "string string",
		`{"type": ["string", "integer"], "allOf": [{"type": "string"}, {"type": "null"}]}`: "",
	} {
		if got := strings.Join(Skeleton(readSchema(t, text)).Type, " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
