package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"espalier.dev/api"
	"espalier.dev/schema"
)

// TestEqual checks which values are equal: a number is, in whatever form.
func TestEqual(t *testing.T) {
	t.Parallel()
	const exact = 1 << 53
	for _, tt := range []struct {
		a, b any
		want bool
	}{
		{int64(1), int64(1), true}, {1.0, int64(1), true}, {int64(1), 1.0, true}, {1.0, 1.0, true}, {1.5, 1.5, true}, {1.5, int64(1), false}, {int64(1), 1.5, false},
		{float64(exact - 1), int64(exact - 1), true}, {int64(exact - 1), float64(exact - 1), true}, {float64(exact), int64(exact), false}, {int64(exact), float64(exact), false},
		{float64(-exact + 1), int64(-exact + 1), true}, {int64(-exact), float64(-exact), false}, {float64(exact), float64(exact), true},
		{"1", int64(1), false}, {nil, nil, true}, {[]any{"a"}, []any{"a"}, true}, {[]any{"a"}, []any{"b"}, false},
	} {
		if got := equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%v (%T) and %v (%T): got %t", tt.a, tt.a, tt.b, tt.b, got)
		}
	}
}

// TestScore checks how bad violations are: rules least, and operators by their closest branch.
func TestScore(t *testing.T) {
	t.Parallel()
	branches := func(sizes ...int) (list []schema.Violations) {
		for _, n := range sizes {
			list = append(list, make(schema.Violations, n))
		}
		return list
	}
	for _, tt := range []struct {
		violation schema.Violation
		want      float64
	}{
		{schema.Violation{Kind: schema.Rule}, 1},
		{schema.Violation{Kind: schema.RulesSkipped}, 1},
		{schema.Violation{Kind: schema.Required}, 1000},
		{schema.Violation{Kind: schema.AnyOf, Branches: branches(7, 3), Closest: 0}, 1007},
		{schema.Violation{Kind: schema.AnyOf, Branches: branches(7, 3), Closest: 1}, 1003},
		{schema.Violation{Kind: schema.AnyOf, Branches: branches(7, 3), Closest: 2}, 1000},
		{schema.Violation{Kind: schema.OneOf, Branches: branches(101), Closest: 0}, 1100},
		{schema.Violation{Kind: schema.OneOf, Branches: branches(100), Closest: 0}, 1100},
		{schema.Violation{Kind: schema.OneOf, Branches: branches(0, 0), Closest: -1, Holding: 2}, 1002},
		{schema.Violation{Kind: schema.OneOf, Closest: -1, Holding: 102}, 1100},
		{schema.Violation{Kind: schema.AllOf, Branches: branches(5), Closest: 0}, 1000},
	} {
		if got := score(schema.Violations{tt.violation}); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.violation.Kind, got, tt.want)
		}
		if got := score(schema.Violations{tt.violation, {Kind: schema.Rule}}); got != tt.want+1 {
			t.Errorf("%v and a rule: got %v, want %v", tt.violation.Kind, got, tt.want+1)
		}
	}
	if got := score(nil); got != 0 {
		t.Errorf("no violations: got %v", got)
	}
}

// TestLiterals checks the values that violations suggest.
func TestLiterals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		violation schema.Violation
		want      string
	}{
		{schema.Violation{Kind: schema.Enum, Want: schema.Operand{Allowed: []any{"a", int64(2)}}}, `["a",2]`},
		{schema.Violation{Kind: schema.MaxLength, Want: schema.Operand{Limit: 5}}, `[5]`},
		{schema.Violation{Kind: schema.MinLength, Want: schema.Operand{Limit: 5}}, `[5]`},
		{schema.Violation{Kind: schema.AdditionalItems, Want: schema.Operand{Limit: 5}}, `[5]`},
		{schema.Violation{Kind: schema.Maximum, Value: int64(7), Want: schema.Operand{Bound: 2.5}}, `[2]`},
		{schema.Violation{Kind: schema.Maximum, Value: 7.5, Want: schema.Operand{Bound: 2.5}}, `[2.5]`},
		{schema.Violation{Kind: schema.Minimum, Value: 1.5, Want: schema.Operand{Bound: 2}}, `[2]`},
		{schema.Violation{Kind: schema.MultipleOf, Value: 1.5, Want: schema.Operand{Bound: 1 << 53}}, `[9007199254740992.0]`},
		{schema.Violation{Kind: schema.MultipleOf, Value: 1.5, Want: schema.Operand{Bound: 1<<53 - 1}}, `[9007199254740991]`},
		{schema.Violation{Kind: schema.FactorNotPositive, Value: int64(1), Want: schema.Operand{Bound: -1}}, `[-1]`},
		{schema.Violation{Kind: schema.BadOperand, Value: int64(1), Want: schema.Operand{Bound: 3}}, `[3]`},
		{schema.Violation{Kind: schema.Pattern, Want: schema.Operand{Pattern: "^[ab]$"}}, `["a"]`},
		{schema.Violation{Kind: schema.WrongFormat, Want: schema.Operand{Format: "ipv4"}}, `["192.0.2.1"]`},
		{schema.Violation{Kind: schema.WrongFormat, Want: schema.Operand{Format: "unknown"}}, `null`},
		{schema.Violation{Kind: schema.WrongType, Want: schema.Operand{Types: []string{"string", "integer", "Boolean", "object", "array", "number", "null"}}}, `["example",1,true,{},[],1]`},
		{schema.Violation{Kind: schema.Required}, `null`},
	} {
		var text []string
		for _, v := range literals(&tt.violation) {
			if f, ok := v.(float64); ok && f == math.Trunc(f) {
				text = append(text, fmt.Sprintf("%.1f", f))
				continue
			}
			text = append(text, encode(t, v))
		}
		got := "null"
		if text != nil {
			got = "[" + strings.Join(text, ",") + "]"
		}
		if got != tt.want {
			t.Errorf("%v %+v: got %s, want %s", tt.violation.Kind, tt.violation.Want, got, tt.want)
		}
	}
}

// TestClues checks the names and values that rules suggest.
func TestClues(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`self.a == 'x'`:                        `["x"]`,
		`self.a == "x\"y\\z"`:                  `["x\"y\\z"]`,
		`self.a == r'\d' || self.b == 'q\n\''`: `["\\d","q\n'"]`,
		`self.a in ['x', 'x', 5, 5, 07]`:       `["x",5,7]`,
		`self.a.startsWith('x')`:               `["x","xexample","examplex","examplexexample"]`,
		`self.a.contains('x')`:                 `["x","xexample","examplex","examplexexample"]`,
		`self.a.split('x')`:                    `["x","xexample","examplex","examplexexample"]`,
		`self.a.matches('^[ab]$')`:             `["a","^[ab]$"]`,
		`self.a.matches('^[a-z]+$')`:           `["a","aa","aaa","aaaa","^[a-z]+$"]`,
		`self.a == '7' && self.b1 == 8`:        `["7",8]`,
		`self.a == 99999999999999999999`:       `null`,
	} {
		if got := encode(t, newClues(source).values); got != want {
			t.Errorf("%s: got %s, want %s", source, got, want)
		}
	}
	words := newClues(`self.a__dash__b + self.__in__ + self.c__dot__d == 'e f' && has(self.x_1)`).words
	for word, want := range map[string]bool{"self": true, "a-b": true, "a__dash__b": true, "in": true, "c.d": true, "e f": true, "x_1": true, "e": false, "has": true, "b": false} {
		if words[word] != want {
			t.Errorf("%s: got %t", word, words[word])
		}
	}
}

// TestJoinedClues checks the strings that are made from those in several rules.
func TestJoinedClues(t *testing.T) {
	t.Parallel()
	rules := func(n int) (list []api.ValidationRule) {
		for i := range n {
			list = append(list, api.ValidationRule{Rule: fmt.Sprintf("self != '%d'", i)})
		}
		return list
	}
	for _, tt := range []struct {
		s     schema.Structural
		count int
		last  string
	}{
		{schema.Structural{Generic: schema.Generic{Type: "integer"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(2)}}, 1, "x"},
		{schema.Structural{Generic: schema.Generic{Type: "string"}}, 1, "x"},
		{schema.Structural{Generic: schema.Generic{Type: "string"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(2)}}, 1 + 8, "11"},
		{schema.Structural{Generic: schema.Generic{Type: "string"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(8)}}, 1 + 128, "77"},
		{schema.Structural{Generic: schema.Generic{Type: "string"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(9)}}, 1 + 128, "77"},
		{schema.Structural{Generic: schema.Generic{Type: "string"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(1)}, ValueValidation: &schema.ValueValidation{Format: "byte"}}, 1 + 2, "MDA="},
		{schema.Structural{Generic: schema.Generic{Type: "string"}, ValidationExtensions: schema.ValidationExtensions{XValidations: rules(1)}, ValueValidation: &schema.ValueValidation{Format: "date"}}, 1 + 2, "00"},
	} {
		c := clues{values: []any{"x"}}
		c.join(&tt.s)
		if len(c.values) != tt.count || c.values[len(c.values)-1] != tt.last {
			t.Errorf("%d rules: got %d values, the last is %v, want %d and %s", len(tt.s.XValidations), len(c.values), c.values[len(c.values)-1], tt.count, tt.last)
		}
	}
	numbers := clues{values: []any{int64(5)}}
	if numbers.join(&schema.Structural{Generic: schema.Generic{Type: "string"}, ValueValidation: &schema.ValueValidation{Format: "byte"}}); numbers.values[0] != int64(5) {
		t.Errorf("a number is encoded: %v", numbers.values)
	}
}

// TestAllButOne checks for how many fields all but one are removed.
func TestAllButOne(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{0: 0, 2: 0, 3: 4, 40: 41, 41: 0} {
		removals := make([]edit, n)
		for i := range removals {
			removals[i] = removing(schema.Path{field(fmt.Sprint(i))})
		}
		list := allButOne(removals)
		if len(list) != want {
			t.Errorf("%d fields: got %d edits, want %d", n, len(list), want)
		}
		for i, e := range list {
			obj := schema.Object{}
			for k := range n {
				obj[fmt.Sprint(k)] = true
			}
			left := 1
			if i == n {
				left = 0
			}
			if e(obj); len(obj) != left || left == 1 && obj[fmt.Sprint(i)] == nil {
				t.Errorf("%d fields: edit %d leaves %v", n, i, obj)
			}
		}
	}
}

// TestRuleEdits checks how many edits a rule about several strings suggests, and how deep it is assumed to look.
func TestRuleEdits(t *testing.T) {
	t.Parallel()
	v := version(t, `{type: object, properties: {a: {type: string}, b: {type: string}, c: {type: string}, d: {type: string}, e: {type: string}}, x-kubernetes-validations: [{rule: "self.a == self.b && self.c == 'z' && self.d == self.e"}]}`)
	m := newRepairer(t.Context(), v, v.Structural(), &generator{})
	violation := schema.Violation{Kind: schema.Rule, Want: schema.Operand{Rule: "self.a == self.b && self.c == 'z' && self.d == self.e"}}
	// A likely value for each, their removal, that of all but one and of all, and a part of the rest.
	if got := len(m.rule(schema.Object{"a": "x", "b": "y", "c": "w", "d": "u", "e": "v"}, &violation)); got != 5+5+6+200 {
		t.Errorf("got %d edits", got)
	}
	// A likely value for each, twelve additions for each and all of them together.
	if got := len(m.rule(schema.Object{}, &violation)); got != 5+5*12+1 {
		t.Errorf("got %d edits of missing fields", got)
	}
	if got := len(m.rule(schema.Object{"b": "x", "c": "z", "d": "u", "e": "v"}, &violation)); got != 5+4+5+12+200 {
		t.Errorf("got %d edits with one missing field", got)
	}

	text, obj := `{type: integer}`, any(int64(1))
	for range maxTargetDepth + 3 {
		text, obj = `{type: object, properties: {a: `+text+`}}`, map[string]any{"a": obj}
	}
	v = version(t, text)
	m = newRepairer(t.Context(), v, v.Structural(), &generator{})
	var visited []int
	m.targets(obj.(map[string]any), nil, newClues("self.a"), 0, func(path schema.Path, _ *schema.Structural, _ any, _ bool) { visited = append(visited, len(path)) })
	if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(visited, want) {
		t.Errorf("got the depths %v, want %v", visited, want)
	}
}

// TestWithoutSchema checks the edits of values that no schema describes.
func TestWithoutSchema(t *testing.T) {
	t.Parallel()
	v := version(t, `{type: object}`)
	m := newRepairer(t.Context(), v, nil, &generator{})
	path := schema.Path{field("a"), field("b")}
	for _, tt := range []struct {
		value     string
		violation schema.Violation
		want      string
	}{
		{`{}`, schema.Violation{Kind: schema.Required}, `{"a":{"b":"example"}} {"a":{"b":1}} {"a":{"b":true}} {"a":{"b":{}}} {"a":{"b":[]}}`},
		{`{"b":1}`, schema.Violation{Kind: schema.UnionMembers}, ``},
		{`{"b":1}`, schema.Violation{Kind: schema.DuplicateItem}, ``},
		{`{"b":1}`, schema.Violation{Kind: schema.AllOf, Branches: []schema.Violations{{{Kind: schema.UnionMembers}}, {{Kind: schema.Enum, Path: path, Want: schema.Operand{Allowed: []any{"x"}}}}}}, `{"a":{"b":"x"}}`},
		{`{"b":1}`, schema.Violation{Kind: schema.Maximum, Value: int64(1), Want: schema.Operand{Bound: 0}}, `{"a":{"b":0}}`},
		{`{"b":[1,2]}`, schema.Violation{Kind: schema.MaxItems}, `{"a":{"b":[1]}} {"a":{"b":[]}}`},
		{`{"b":{"c":1,"d":2}}`, schema.Violation{Kind: schema.MaxProperties}, `{"a":{"b":{"c":1}}} {"a":{"b":{"d":2}}}`},
		{`{"b":{"c":1,"d":2}}`, schema.Violation{Kind: schema.Not}, `{"a":{"b":{"d":2}}} {"a":{"b":{"c":1}}}`},
		{`{"b":1}`, schema.Violation{Kind: schema.Not}, ``},
		{`{"b":1}`, schema.Violation{Kind: schema.Rule, Want: schema.Operand{Rule: "self == 2"}}, ``},
	} {
		obj := func() schema.Object { return parse(t, `{"a":`+tt.value+`}`) }
		tt.violation.Path = path
		var got []string
		for _, e := range m.direct(obj(), &tt.violation) {
			changed := obj()
			e(changed)
			got = append(got, encode(t, changed))
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%v: got %s, want %s", tt.violation.Kind, text, tt.want)
		}
		if got := len(m.edits(obj(), &tt.violation)); got != len(m.direct(obj(), &tt.violation))+2 {
			t.Errorf("%v: got %d edits", tt.violation.Kind, got)
		}
	}
}

// TestLastTrial checks that nothing is tried when no trials are left.
func TestLastTrial(t *testing.T) {
	t.Parallel()
	v := version(t, `{type: object, required: [a], properties: {a: {type: string}}}`)
	obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "example"}}
	for _, left := range []int{0, 1} {
		m := newRepairer(t.Context(), v, v.Structural(), &generator{})
		first := m.try(obj)
		m.left = left
		if got := m.improve(first, map[string]int{}); (got != nil) != (left == 1) || m.left != 0 {
			t.Errorf("%d left: got %v, and %d are left", left, got, m.left)
		}
		m.left = left
		if got := m.detour(first); (got != nil) != (left == 1) || m.left != 0 {
			t.Errorf("detour, %d left: got %v, and %d are left", left, got, m.left)
		}
		m.left = left + 1
		if found := m.repair(obj); found.Valid() != (left == 1) || m.left != 0 {
			t.Errorf("repair, %d left: got %v, and %d are left", left, found, m.left)
		}
	}
}

// TestNumbers checks the Go types of numbers: an integer that a float64 may not represent is a float64
// where the schema allows it.
func TestNumbers(t *testing.T) {
	t.Parallel()
	const exact = 1 << 53
	for _, tt := range []struct {
		min, max float64
		integer  bool
		want     any
	}{
		{exact - 1, exact, false, int64(exact - 1)}, {exact, 2 * exact, false, float64(exact)}, {exact, 2 * exact, true, int64(exact)},
		{-2 * exact, -exact, false, float64(-exact)}, {-2 * exact, 1 - exact, false, int64(1 - exact)}, {-2 * exact, -exact, true, int64(-exact)},
		{-1e30, -1e19, true, -1e19}, {-1e30, -1 << 63, true, int64(math.MinInt64)}, {1 << 63, 1e30, true, float64(1 << 63)}, {1.5, 1.75, false, 1.5},
	} {
		n := needs(&schema.ValueValidation{Minimum: &tt.min, Maximum: &tt.max}, nil)
		if got := number(n, tt.integer, 0); got != tt.want {
			t.Errorf("%v to %v, integer %t: got %v (%T), want %v (%T)", tt.min, tt.max, tt.integer, got, got, tt.want, tt.want)
		}
	}
}

// TestManyValues checks that no more values are generated than the limit, in lists and in maps.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{type: array, minItems: 1000000, items: {type: array, minItems: 1000000, items: {type: boolean}}}`,
		`{type: object, minProperties: 1000000, additionalProperties: {type: object, minProperties: 1000000, additionalProperties: {type: boolean}}}`,
	} {
		s := version(t, "{type: object, properties: {v: "+text+"}}").Structural().Properties["v"]
		var g generator
		if g.value(s, nil, 0); g.made != maxValues {
			t.Errorf("%s: got %d values", text, g.made)
		}
	}
	n := needs(&schema.ValueValidation{MinLength: new(int64(2 * maxText))}, nil)
	if s := n.fit("example"); len(s) != maxText || !strings.HasPrefix(s, "examplehij") {
		t.Errorf("got %d bytes", len(s))
	}
	for variation, want := range map[int]string{0: "192.0.2.1", 199: "192.0.2.200", 200: "192.0.2.1"} {
		if got, ok := ofFormat("ipv4", variation); !ok || got != want {
			t.Errorf("%d: got %s, want %s", variation, got, want)
		}
	}
}

// TestKeys checks which violations are the same.
func TestKeys(t *testing.T) {
	t.Parallel()
	path := schema.Path{field("a"), index(1)}
	for _, tt := range []struct {
		violation schema.Violation
		want      string
	}{
		{schema.Violation{Kind: schema.Rule, Want: schema.Operand{Rule: "x", Pattern: "y"}}, "rule x"},
		{schema.Violation{Kind: schema.Pattern, Want: schema.Operand{Rule: "x", Pattern: "y"}}, "pattern y"},
		{schema.Violation{Kind: schema.WrongFormat, Want: schema.Operand{Format: "date"}}, "format date"},
		{schema.Violation{Kind: schema.WrongDiscriminator, Want: schema.Operand{Discriminator: "d"}}, "discriminator d"},
		{schema.Violation{Kind: schema.Dependency, Want: schema.Operand{Name: "n"}}, "dependency n"},
		{schema.Violation{Kind: schema.Metadata, Want: schema.Operand{Name: "n"}}, "metadata n"},
		{schema.Violation{Kind: schema.Required, Want: schema.Operand{Name: "n"}}, "required "},
	} {
		tt.violation.Path = path
		kind, operand, _ := strings.Cut(tt.want, " ")
		if got := key(&tt.violation); !strings.HasPrefix(got, "/a/1 ") || !strings.Contains(got, kind) || !strings.HasSuffix(got, " "+operand) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestFullBegin checks that no fields are added to begin with when there are too many values.
func TestFullBegin(t *testing.T) {
	t.Parallel()
	s := version(t, `{type: object, properties: {v: {type: object, properties: {a: {type: boolean}}}}}`).Structural().Properties["v"]
	for made, want := range map[int]string{maxValues - 1: `{"a":true}`, maxValues: `{}`} {
		if got := encode(t, (&generator{made: made}).some(s, nil)); got != want {
			t.Errorf("%d values: got %s, want %s", made, got, want)
		}
	}
}

// TestValid checks which samples are valid.
func TestValid(t *testing.T) {
	t.Parallel()
	if !(&Sample{}).Valid() || (&Sample{Problem: errors.New("x")}).Valid() || (&Sample{Violations: make(schema.Violations, 1)}).Valid() {
		t.Error("a sample with a problem or a violation is valid, or one without is not")
	}
}
