package rules

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"

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
			x, problem := e.compileOnce(env, text, cel.BoolType, ruleWording)
			if again, _ := e.compileOnce(env, text, cel.BoolType, ruleWording); problem != nil || x.ast != again.ast && s.expressions < maxExpressions {
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
