package rules

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules/bounds"
)

// TestShared checks that schemas share environments and expressions if, and only if, rules cannot
// distinguish their types.
func TestShared(t *testing.T) {
	max := int64(3)
	text := func(v *schema.ValueValidation) schema.Structural {
		return schema.Structural{Generic: schema.Generic{Type: "string"}, ValueValidation: v}
	}
	object := func(name string, of schema.Structural) schema.Structural {
		return schema.Structural{Generic: schema.Generic{Type: "object"}, Properties: map[string]*schema.Structural{name: &of}}
	}
	list := func(of schema.Structural) schema.Structural {
		return schema.Structural{Generic: schema.Generic{Type: "array"}, Items: &of}
	}
	number := schema.Structural{Generic: schema.Generic{Type: "integer"}}
	s := newShared(PerCallLimit)
	of := func(x schema.Structural) *environments { return s.of(declOf(newView(&x, false), false)) }
	short := text(&schema.ValueValidation{MaxLength: &max})
	same := [][]schema.Structural{
		{text(nil), short},
		{number},
		{text(&schema.ValueValidation{Format: "date-time"})},
		{object("a", text(nil)), object("a", short)},
		{object("b", text(nil))},
		{object("a", number)},
		{object("a", object("a", number))},
		{object("a", object("b", number))},
		{list(text(nil)), list(short)},
		{list(number)},
		{list(object("a", number))},
	}
	known := map[*environments]string{}
	for i, group := range same {
		for j, x := range group {
			name := fmt.Sprintf("type %d.%d", i, j)
			e := of(x)
			if j > 0 && e != of(group[0]) {
				t.Errorf("%s does not share the environments of its group", name)
			}
			if other, ok := known[e]; ok && j == 0 {
				t.Errorf("%s has the environments of %s", name, other)
			}
			known[e] = name
		}
	}
	// What is kept is bounded.
	for i := range 2 * maxEnvironments {
		e := of(object(fmt.Sprint("a", i), number))
		env, err := e.of(bounds.EnvSet().StoredExpressionsEnv(), false)
		if err != nil {
			t.Fatal(err)
		}
		for j := range 2 * maxExpressions / maxEnvironments {
			text := fmt.Sprintf("%d == 1", j%30)
			x, problem := e.compileOnce(env, nil, text, cel.BoolType, ruleWording)
			if again, _ := e.compileOnce(env, nil, text, cel.BoolType, ruleWording); problem != nil || x.ast != again.ast && s.expressions < maxExpressions {
				t.Fatal("the expression is compiled again", problem)
			}
		}
		kept := 0
		for _, e := range s.environments {
			kept += len(e.expressions)
		}
		if len(s.environments) > maxEnvironments || kept > maxExpressions || kept != s.expressions {
			t.Fatalf("%d environments and %d of %d expressions are kept", len(s.environments), kept, s.expressions)
		}
	}
}

// TestLoad checks that the rules of a field are compiled when the first object has it, once for all goroutines,
// and that a rule that does not compile is then a violation.
func TestLoad(t *testing.T) {
	rule := func(text string) schema.Structural {
		s := schema.Structural{Generic: schema.Generic{Type: "integer"}}
		s.XValidations = []api.ValidationRule{{Rule: text}}
		return s
	}
	good, broken, unused := rule("self > 1"), rule("self.x"), rule("self > 2")
	root := &schema.Structural{Generic: schema.Generic{Type: "object"},
		Properties: map[string]*schema.Structural{"good": &good, "broken": &broken, "unused": &unused}}
	p, err := compile(root, options{perCallLimit: PerCallLimit, budget: Budget, broken: true})
	if err != nil {
		t.Fatal(err)
	}
	loaded := func() (names []string) {
		for _, v := range p.root.props {
			if len(v.rules) > 0 {
				names = append(names, v.name)
			}
		}
		return names
	}
	if got := loaded(); got != nil {
		t.Errorf("%v are compiled before an object has them", got)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for object, want := range map[*schema.Object]int{{"good": int64(2)}: 0, {"good": int64(1), "broken": int64(1)}: 2} {
				if got := p.Validate(t.Context(), *object, nil); len(got) != want {
					t.Errorf("%v: %v", *object, got)
				}
			}
		})
	}
	all.Wait()
	if got, want := loaded(), []string{"broken", "good"}; !slices.Equal(got, want) {
		t.Errorf("%v are compiled, want %v", got, want)
	}
	if _, err := compile(root, options{perCallLimit: PerCallLimit, budget: Budget}); err == nil {
		t.Error("a compiler that reports broken rules does not report one that no object has")
	}
}
