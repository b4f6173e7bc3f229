package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/warning"

	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/bounds"
)

// comparison evaluates rules in both ways, and compares results and costs.
type comparison struct {
	t *testing.T
	// in are the sizes of the object and of the one before it.
	in largest
	// untracked and tracked count evaluations.
	untracked, tracked int
}

// value compares the rules of a value and below it.
func (c *comparison) value(v *validator, obj, old any) {
	if v == nil || obj == nil {
		return
	}
	if v.load != nil {
		v.load()
		for _, r := range v.rules {
			c.rule(v, r, obj, old)
		}
	}
	switch obj := obj.(type) {
	case []any:
		for _, item := range obj {
			c.value(v.items, item, nil)
		}
	case map[string]any:
		before, _ := old.(map[string]any)
		for name, value := range obj {
			c.value(v.additional, value, before[name])
		}
		for _, p := range v.props {
			c.value(p.validator, obj[p.name], before[p.name])
		}
	}
}

// rule compares a rule.
func (c *comparison) rule(v *validator, r *compiled, obj, old any) {
	switch {
	case r.err != nil || r.empty() || r.rule.usesOldSelf && old == nil && !r.optional:
		return
	case r.rule.untracked == nil:
		c.tracked++
		return
	}
	c.untracked++
	in := newActivation(v, obj, old)
	if r.optional && v.usesOldSelf {
		in = in.optional()
	}
	program, err := r.rule.tracked()
	if err != nil {
		c.t.Fatalf("%s: %v", r.source.Rule, err)
	}
	got, gotErr := r.rule.untracked.eval(c.t.Context(), in)
	want, details, wantErr := program.ContextEval(c.t.Context(), in)
	if cost, bound := *details.ActualCost(), r.rule.untracked.bound(c.in); float64(cost) > bound {
		c.t.Errorf("%s: costs %d, more than the bound %v", r.source.Rule, cost, bound)
	}
	if wantErr != nil && isOverCostLimit(wantErr) {
		return // it is not evaluated without tracking, because of the bound
	}
	if text := func(v ref.Val, err error) string { return fmt.Sprint(v == types.True, err) }; text(got, gotErr) != text(want, wantErr) {
		c.t.Errorf("%s: untracked %v, %v, and tracked %v, %v", r.source.Rule, got, gotErr, want, wantErr)
	}
}

// compare compares the rules of a schema on an object, one by one and together.
func (c *comparison) compare(p *program, obj, old schema.Object) {
	c.in = largest{}
	c.in.in(map[string]any(obj))
	c.in.in(map[string]any(old))
	var before any
	if old != nil {
		before = map[string]any(old)
	}
	c.value(p.root, map[string]any(obj), before)
	var warned, wantWarned recorder
	found := p.Validate(warning.WithWarningRecorder(c.t.Context(), &warned), obj, old)
	exact := p.evaluate(warning.WithWarningRecorder(c.t.Context(), &wantWarned), obj, old, true)
	if got, want := errorsOf(found), errorsOf(exact.found); !slices.Equal(got, want) || !slices.Equal(warned, wantWarned) {
		c.t.Errorf("found %v %v, want %v %v", got, warned, want, wantWarned)
	}
	assumed := p.evaluate(c.t.Context(), obj, old, false)
	if assumed.inexact {
		return
	}
	if spent := p.budget - exact.budget; exact.budget >= 0 && assumed.budget >= 0 && p.budget-assumed.budget+assumed.assumed < spent {
		c.t.Errorf("the rules cost %d, more than was assumed: %d", spent, p.budget-assumed.budget+assumed.assumed)
	}
}

// recorder records warnings.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

func errorsOf(found schema.Violations) (all []string) {
	for _, e := range found.FieldErrors() {
		all = append(all, e.Error())
	}
	return all
}

// TestUntracked evaluates expressions with and without tracking. The result must be the same, and the
// cost at most the bound.
func TestUntracked(t *testing.T) {
	const text = `
type: object
properties:
  spec:
    type: object
    properties:
      a: {type: string}
      b: {type: string}
      num: {type: integer}
      f: {type: number}
      ok: {type: boolean}
      bytes: {type: string, format: byte}
      d: {type: string, format: duration}
      t: {type: string, format: date-time}
      p: {x-kubernetes-int-or-string: true}
      any: {x-kubernetes-preserve-unknown-fields: true, type: object}
      l: {type: array, items: {type: integer}}
      s: {type: array, x-kubernetes-list-type: set, items: {type: string}}
      o: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: integer}, in: {type: array, items: {type: string}}}}}
      m: {type: object, additionalProperties: {type: string}}
      mo: {type: object, additionalProperties: {type: object, properties: {x: {type: integer}}}}
`
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	base, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("aé", 3000)
	list := func(n int) (all []any) {
		for i := range n {
			all = append(all, int64(i))
		}
		return all
	}
	objects := []map[string]any{
		{},
		{"a": "abc", "b": "abc", "num": int64(3), "f": 1.5, "ok": true, "bytes": "YWJj", "d": "2h", "t": "2021-01-01T00:00:00Z", "p": "a",
			"l": list(2), "s": []any{"a", "b"}, "m": map[string]any{"k": "abc"}, "any": map[string]any{"x": "abc"},
			"o": []any{map[string]any{"k": "a", "v": int64(1), "in": []any{"x", "y"}}}, "mo": map[string]any{"a": map[string]any{"x": int64(1)}}},
		{"a": long, "b": long, "num": int64(-3), "f": 3.0, "ok": false, "bytes": strings.Repeat("YWJj", 1000), "p": int64(1), "l": list(100),
			"s": []any{long, long + "x"}, "m": map[string]any{long: long, "b": ""}, "any": map[string]any{"x": int64(1)},
			"o": []any{map[string]any{"k": long, "in": []any{long, long, long}}, map[string]any{"k": "b", "v": int64(9)}}},
	}
	for _, untracked := range []string{
		"true", "self == self", "has(self.a)", "!has(self.a) || self.a == self.b", "has(self.a) ? self.a.size() > 2 : self.ok",
		"size(self.a) < size(self.b)", "self.a < self.b || self.a >= self.b", "self.a.startsWith(self.b)", "self.a.endsWith('c')",
		"self.a.contains('ab')", "self.a.matches('^[a-z]+(b|c)*$')", "matches(self.a, '.*')", "self.a in ['abc', 'x']", "self.num in self.l",
		"'k' in self.m", "self.m['k'] == 'abc'", "self.l[0] == 0", "self.l[self.num] > 0", "self.num + 1 > 2 * self.num - 3 % 2", "-self.numum < 3 / self.n",
		"self.f > 1.0 && self.f < 2", "self.num < 1.5", "self.bytes == b'abc' || self.bytes.size() > 3", "self.d > duration('1h')",
		"self.t < timestamp('2022-01-01T00:00:00Z')", "self.p == 'a' || self.p == 1", "self.l.all(x, x < 90)", "self.l.exists(x, x == 99)",
		"self.l.exists_one(x, x == 1)", "self.l.all(x, self.l.all(y, x != y || x == y))", "self.o.all(o, o.in.all(x, self.s.exists(y, x == y)))",
		"self.m.all(k, self.m[k] == k)", "self.mo.exists(k, self.mo[k].x == 1)", "self.s.all(x, x.size() < 9 && x in self.s)",
		"self.o.exists(o, has(o.v) && o.v == 9)", "[self.num, 2].exists(x, x == 2)", "self.l == [0, 1]", "self.l == self.l",
		"self.o == self.o && self.m == self.m", "quantity('1').isGreaterThan(quantity('2'))", "isQuantity(self.a) || isIP(self.b) || isCIDR(self.b)",
		"int('3') == self.num", "[1, 2, 3].all(i, [1, 2, 3].all(j, i + j > 0))", "isURL(self.a)", "has(self.any.x)", "dyn(self.num) == self.num || true",
		"self.l.all(i, v, i == v)", "oldSelf.a == self.a", "self.o.all(o, o in oldSelf.o)", "self.l[100] == 1", "self.a == null",
	} {
		for _, optional := range []bool{false, true} {
			rule := untracked
			if optional {
				rule = strings.ReplaceAll(rule, "oldSelf", "oldSelf.value()")
				if rule != untracked {
					rule = "oldSelf.hasValue() && " + rule
				}
			}
			s := base.DeepCopy()
			s.Properties["spec"].XValidations = []api.ValidationRule{{Rule: rule, OptionalOldSelf: &optional}}
			compiled, err := Compiler(WithBrokenRules())(s)
			if err != nil {
				t.Fatal(err)
			}
			p := compiled.(*program)
			c := comparison{t: t}
			for _, obj := range objects {
				for _, old := range objects {
					c.compare(p, schema.Object{"spec": obj}, schema.Object{"spec": old})
				}
				c.compare(p, schema.Object{"spec": obj}, nil)
			}
			if r := p.root.props[0].rules[0]; r.err == nil && c.untracked == 0 && rule != "dyn(self.num) == self.num || true" {
				t.Errorf("%s: costs are tracked", rule)
			}
		}
	}
	// What can make large values, or be costly in another way, is tracked.
	for _, rule := range []string{
		"self.a + self.b == 'x'", "self.l + self.l == []", "self.l.map(x, x + 1) == []", "self.l.filter(x, x > 1) == []", "self.a.contains(self.b)",
		"self.a.matches(self.b)", "self.a.split(',') == []", "self.a.replace('', self.b) == ''", "{'a': 1} == {'a': 1}", "string(self.num) == '1'",
		"self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, a == d))))", "self.?a.orValue('x') == 'x'", "self.s.join(',') == ''",
	} {
		s := base.DeepCopy()
		s.Properties["spec"].XValidations = []api.ValidationRule{{Rule: rule}}
		compiled, err := Compiler()(s)
		if err != nil {
			t.Fatal(err)
		}
		v := compiled.(*program).root.props[0].validator
		v.load()
		if v.rules[0].rule.untracked != nil {
			t.Errorf("%s: costs are not tracked", rule)
		}
	}
	declared := map[string]bool{}
	for _, f := range bounds.Functions() {
		for _, o := range f.OverloadDecls() {
			declared[o.ID()] = true
		}
	}
	for id := range cheap {
		if !declared[id] {
			t.Errorf("there is no overload %s", id)
		}
	}
}

// TestUntrackedBudget spends the budget in ways in which the assumed costs are too high: what is reported
// must not depend on them.
func TestUntrackedBudget(t *testing.T) {
	const text = `
type: object
properties:
  l:
    type: array
    items: {type: string}
    x-kubernetes-validations:
    - {rule: "self.all(x, x == 'a')", message: not all are a}
    - {rule: "self.all(x, x.contains(x))"}
    - {rule: "self.map(x, x + 'b').size() > 3", message: too few}
    - {rule: "self.exists(x, x == 'z')", messageExpression: "'none is z, of ' + string(self.size())"}
  z: {type: string, x-kubernetes-validations: [{rule: self == 'z', message: it is not z}]}
`
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	obj := schema.Object{"l": []any{"a", "a", "b", strings.Repeat("x", 1000)}, "z": "y"}
	compiled, err := Compiler()(s)
	if err != nil {
		t.Fatal(err)
	}
	p := compiled.(*program)
	outcomes := map[string]bool{}
	inexact := 0
	for p.budget = 1; p.budget < 15_000; p.budget += 1 + p.budget/2000 {
		want, got := errorsOf(p.evaluate(t.Context(), obj, nil, true).found), errorsOf(p.Validate(t.Context(), obj, nil))
		if !slices.Equal(got, want) {
			t.Fatalf("with a budget of %d: got %q, want %q", p.budget, got, want)
		}
		outcomes[fmt.Sprint(want)] = true
		if p.evaluate(t.Context(), obj, nil, false).inexact {
			inexact++
		}
	}
	if len(outcomes) < 4 || inexact < 10 {
		t.Errorf("%d outcomes, and %d evaluations are repeated: the test proves little", len(outcomes), inexact)
	}
}

// TestUntrackedWarnings checks that warnings are reported once and in order, however many there are.
func TestUntrackedWarnings(t *testing.T) {
	const text = `
type: object
properties:
  l:
    type: array
    x-kubernetes-list-type: set
    items: {type: string, x-kubernetes-validations: [{rule: self == 'a', message: it is not a}, {rule: self + 'x' == 'ax'}]}
`
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compiler()(s)
	if err != nil {
		t.Fatal(err)
	}
	p := compiled.(*program)
	for _, size := range []int{1, 1000, 2 * maxWarned} {
		obj := schema.Object{"l": []any{"a", strings.Repeat("b", size), strings.Repeat("c", size)}}
		var got recorder
		if found := p.Validate(warning.WithWarningRecorder(t.Context(), &got), obj, obj); len(found) > 0 {
			t.Errorf("found %d errors, want warnings", len(found))
		}
		if len(got) != 4 || !strings.Contains(got[0], "it is not a") || !strings.Contains(got[3], "ax") {
			t.Errorf("%d warnings, want 4", len(got))
		}
		if e := p.evaluate(t.Context(), obj, obj, false); e.inexact != (size > maxWarned) || e.warned > 4*maxWarned {
			t.Errorf("with values of %d bytes, %d bytes of warnings are kept, inexact is %v", size, e.warned, e.inexact)
		}
	}
}

// TestUntrackedLarge evaluates rules on an object for which the sum of the bounds is above the budget, but
// not the sum of the costs: it must not be evaluated twice.
func TestUntrackedLarge(t *testing.T) {
	const text = `
type: object
properties:
  l:
    type: array
    items:
      type: object
      properties: {a: {type: string}, ports: {type: array, items: {type: integer}}}
      x-kubernetes-validations: [{rule: "self.ports.all(p, p < 5)"}, {rule: has(self.a)}, {rule: "self.a + 'x' == 'ax'"}]
`
	var props api.JSONSchemaProps
	if err := yaml.Unmarshal([]byte(text), &props); err != nil {
		t.Fatal(err)
	}
	s, err := schema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compiler()(s)
	if err != nil {
		t.Fatal(err)
	}
	var items []any
	for range 3000 {
		items = append(items, map[string]any{"a": "a", "ports": []any{int64(1), int64(2)}})
	}
	p := compiled.(*program)
	e := p.evaluate(t.Context(), schema.Object{"l": items}, nil, false)
	if len(e.found) > 0 || e.inexact {
		t.Errorf("found %v, inexact is %v", errorsOf(e.found), e.inexact)
	}
	if bound := p.root.props[0].items.rules[0].rule.untracked.bound(*e.sizes); bound*3000 < float64(p.budget) {
		t.Errorf("the bounds are %v: the test proves little", bound)
	}
}

// TestUntrackedAgain checks that rules of the same type share the environment that they need when their
// costs are tracked after all: environments need much memory.
func TestUntrackedAgain(t *testing.T) {
	s := &schema.Structural{Generic: schema.Generic{Type: "string"}}
	for i := range 20 {
		s.XValidations = append(s.XValidations, api.ValidationRule{Rule: fmt.Sprintf("self != '%d'", i)})
	}
	compiled, err := Compiler()(&schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{"a": s}})
	if err != nil {
		t.Fatal(err)
	}
	p := compiled.(*program)
	if found := p.evaluate(t.Context(), schema.Object{"a": "x"}, nil, true).found; len(found) > 0 {
		t.Fatal(found)
	}
	environments := map[any]bool{}
	for _, r := range p.root.props[0].rules {
		program, err := r.rule.tracked()
		if err != nil {
			t.Fatal(err)
		}
		environments[reflect.ValueOf(program).Elem().FieldByName("Env").Pointer()] = true
	}
	if len(environments) != 1 {
		t.Errorf("%d environments, want 1", len(environments))
	}
}

// TestUntrackedNames compares the sizes of names with what expressions see.
func TestUntrackedNames(t *testing.T) {
	for _, key := range []string{"", "a", "in", "namespace", "a-b", "example.com/a_b", "__", "_____", "--//..", strings.Repeat("/", 100)} {
		escaped, ok := apiservercel.Escape(key)
		if !ok {
			escaped = key
		}
		var size largest
		size.in(map[string]any{key: int64(1)})
		if size.text < len(escaped) || size.text > 9*len(key)+4 {
			t.Errorf("%q counts as %d characters, and is %q", key, size.text, escaped)
		}
	}
}

// TestUntrackedCorpus does the same as TestUntracked with the rules and objects of the corpus.
func TestUntrackedCorpus(t *testing.T) {
	if testing.Short() {
		t.Skip("uses the corpus")
	}
	dir := testcase.Corpus(t)
	// The schemas with rules, by apiVersion and kind.
	programs := map[string][]*program{}
	definitions, err := filepath.Glob(filepath.Join(dir, "v1", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range definitions {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(src), "x-kubernetes-validations") {
			continue
		}
		text, err := yaml.YAMLToJSON(src)
		if err != nil {
			t.Fatal(err)
		}
		definition, err := codec.DecodeLenient(text)
		if err != nil {
			continue
		}
		for _, v := range definition.Spec.Versions {
			if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
				continue
			}
			s, err := schema.NewStructural(v.Schema.OpenAPIV3Schema)
			if err != nil {
				continue
			}
			if compiled, err := Compiler(WithBrokenRules())(s); err == nil && compiled != nil {
				key := definition.Spec.Group + "/" + v.Name + " " + definition.Spec.Names.Kind
				programs[key] = append(programs[key], compiled.(*program))
			}
		}
	}
	c := comparison{t: t}
	before := map[string]schema.Object{}
	objects, err := filepath.Glob(filepath.Join(dir, "cr*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range objects {
		src, err := os.ReadFile(file)
		if err != nil {
			continue // a directory
		}
		for r := yamlx.NewBytesReader(src, yamlx.Options{}); ; {
			d, err := r.Next()
			if err != nil {
				break
			}
			text, err := d.JSON()
			if err != nil {
				continue
			}
			value, err := jsonx.Parse(text)
			obj, ok := value.(schema.Object)
			if err != nil || !ok {
				continue
			}
			id := api.IdentifyObject(obj)
			key := id.APIVersion + " " + id.Kind
			for _, p := range programs[key] {
				c.compare(p, obj, nil)
				if old := before[key]; old != nil {
					c.compare(p, obj, old)
				}
			}
			before[key] = obj
		}
	}
	t.Logf("%d evaluations without tracking, and %d of rules whose costs are tracked", c.untracked, c.tracked)
	if c.untracked < 1000 {
		t.Errorf("only %d evaluations without tracking: the test proves little", c.untracked)
	}
}
