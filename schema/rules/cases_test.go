package rules_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

func TestParse(t *testing.T) {
	canonical := func(rule string) string {
		t.Helper()
		parsed, err := rules.Parse(rule)
		if err != nil {
			t.Fatalf("%s: %v", rule, err)
		}
		again, err := rules.Parse(parsed.Canonical)
		if err != nil || again.Canonical != parsed.Canonical {
			t.Errorf("%s: the canonical form %s has another one: %s, %v", rule, parsed.Canonical, again.Canonical, err)
		}
		return parsed.Canonical
	}
	for _, same := range [][2]string{
		{"self.a==1", "self.a == 1"},
		{"self.a == 'x'", "self.a == \"x\" // comment"},
		{"(self.a) && ((self.b))", "self.a&&self.b"},
		{"self.all(x,x>1)", "self.all(x, x > 1)"},
		{"has( self . a )", "has(self.a)"},
		{"self.?a.orValue( 1 ) > 0", "self.?a.orValue(1) > 0"},
	} {
		if a, b := canonical(same[0]), canonical(same[1]); a != b {
			t.Errorf("%s and %s differ: %s, %s", same[0], same[1], a, b)
		}
	}
	for _, other := range [][2]string{
		{"self.a == 'x'", "self.a == 'x '"},
		{"self.a - (self.b - 1) > 0", "self.a - self.b - 1 > 0"},
		{"self.a == 1", "self.a == 1.0"},
		{"self.a == '1'", "self.a == b'1'"},
		{"self in ['a', 'b']", "self in [\"a', 'b\"]"},
		{"self.all(x, x > 1)", "self.exists(x, x > 1)"},
		{"self.`a-b` == 1", "self.a-b == 1"},
		{"{'a': self.a} == {'b': 1}", "{'a': self.b} == {'b': 1}"},
	} {
		if a, b := canonical(other[0]), canonical(other[1]); a == b {
			t.Errorf("%s and %s are the same: %s", other[0], other[1], a)
		}
	}
	for rule, want := range map[string]bool{
		"self == oldSelf": true, "self.oldSelf == 1": false, "self == 'oldSelf'": false, "self.all(oldSelf, oldSelf > 1)": false, "has(oldSelf.a)": true,
	} {
		if parsed, err := rules.Parse(rule); err != nil || parsed.UsesOldSelf != want {
			t.Errorf("%s: %v, %v", rule, parsed, err)
		}
	}
	if _, err := rules.Parse("self.("); err == nil {
		t.Error("no error for a syntax error")
	}
}

func TestHolds(t *testing.T) {
	str := func() *schema.Structural { return &schema.Structural{Generic: schema.Generic{Type: "string"}} }
	object := func(props map[string]*schema.Structural) *schema.Structural {
		return &schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: props}
	}
	s := object(map[string]*schema.Structural{
		"a": str(), "b": str(), "a-b": str(), "namespace": str(),
		"o": object(map[string]*schema.Structural{"d": str(), "e": str()}),
	})
	optional := true
	for _, tt := range []struct {
		rule   string
		path   []string
		value  any
		absent bool
		want   bool
	}{
		{"self.a == 'x'", []string{"a"}, "x", false, true},
		{"self.a == 'x'", []string{"a"}, "y", false, false},
		{"self.a == 'x'", []string{"a"}, nil, true, false},
		{"!has(self.a) || self.a == 'x'", []string{"a"}, nil, true, true},
		{"has(self.a)", []string{"b"}, "x", false, false},
		{"!has(self.a)", []string{"b"}, "x", false, false},
		{"self.a == self.b", []string{"a"}, "x", false, false},
		{"self.b == 'x' || has(self.a)", []string{"a"}, "x", false, true},
		{"self.b == 'x' && has(self.a)", []string{"a"}, "x", false, false},
		{"self.?a.orValue('x') == 'x'", []string{"a"}, nil, true, true},
		{"self.?b.orValue('x') == 'x'", []string{"a"}, nil, true, false},
		{"!has(self.o) || !has(self.o.d) || self.o.d == 'x'", []string{"o", "d"}, "x", false, true},
		{"!has(self.o) || !has(self.o.e)", []string{"o", "d"}, "x", false, false},
		{"has(self.a__dash__b)", []string{"a"}, "x", false, false},
		{"!has(self.a__dash__b)", []string{"a"}, "x", false, false},
		{"!has(self.`a-b`)", []string{"a"}, "x", false, false},
		{"!has(self.__namespace__)", []string{"a"}, "x", false, false},
		{"self == self", []string{"a"}, "x", false, false},
		{"self.a == 'x' || self == oldSelf", []string{"a"}, "x", false, false},
		{"nonsense(self)", []string{"a"}, "x", false, false},
		{"true", []string{"unknown"}, "x", false, false},
		{"true", nil, "x", false, false},
	} {
		c := schema.RuleCase{Rule: api.ValidationRule{Rule: tt.rule}, Schema: s, Path: tt.path, Value: tt.value, Absent: tt.absent}
		if got := rules.Holds(c); got != tt.want {
			t.Errorf("%s with %v = %v, %t: got %t", tt.rule, tt.path, tt.value, tt.absent, got)
		}
	}
	for _, tt := range []struct {
		rule   string
		path   []string
		fields map[string]any
		want   bool
	}{
		{"!has(self.a) || has(self.b)", nil, map[string]any{"a": nil}, true},
		{"!has(self.a) && self.b == 'y'", nil, map[string]any{"a": nil, "b": "y"}, true},
		{"!has(self.a) && self.b == 'y'", nil, map[string]any{"a": nil}, false},
		{"!has(self.a__dash__b)", nil, map[string]any{"a-b": nil}, true},
		{"self.__namespace__ == 'y'", nil, map[string]any{"namespace": "y"}, true},
		{"self.o.d == 'y' && !has(self.o.e)", nil, map[string]any{"o": map[string]any{"d": "y"}}, true},
		{"self.o.d == 'x' && self.b == 'y'", []string{"o", "d"}, map[string]any{"b": "y"}, true},
		{"self.o.d == 'x' && self.a == 'y'", []string{"o", "d"}, map[string]any{"b": "y"}, false},
		{"self == self", nil, map[string]any{"a": nil}, false},
		{"true", nil, map[string]any{"unknown": nil}, false},
	} {
		c := schema.RuleCase{Rule: api.ValidationRule{Rule: tt.rule}, Schema: s, Path: tt.path, Value: "x", Fields: tt.fields}
		if got := rules.Holds(c); got != tt.want {
			t.Errorf("%s with %v, %v: got %t", tt.rule, tt.path, tt.fields, got)
		}
	}
	if rules.Holds(schema.RuleCase{Rule: api.ValidationRule{Rule: "!oldSelf.hasValue()", OptionalOldSelf: &optional}, Schema: s, Path: []string{"a"}, Absent: true}) {
		t.Error("a rule with an optional oldSelf holds")
	}
	if rules.Holds(schema.RuleCase{Rule: api.ValidationRule{Rule: "self.metadata.name != ''"}, Schema: s, IsResource: true, Path: []string{"a"}, Absent: true}) {
		t.Error("the name is known")
	}
}
