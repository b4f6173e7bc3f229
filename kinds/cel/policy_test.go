package cel

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/admissionregistration"
)

// TestPolicyVariables compiles policies one after the other: each has its own variables only, although
// their environments are used again.
func TestPolicyVariables(t *testing.T) {
	c := New().(*compilers)
	for range 2 { // results are kept
		testPolicyVariables(t, c)
	}
}

func testPolicyVariables(t *testing.T, c *compilers) {
	expression := func(text string) admissionregistration.Expression {
		return admissionregistration.Expression{Purpose: admissionregistration.Validation, Text: text}
	}
	type variable struct {
		name, text string
		wrong      bool
	}
	type check struct {
		text  string
		wrong bool
	}
	for i, policy := range []struct {
		variables []variable
		checks    []check
	}{
		{nil, []check{{"object.a == 1", false}, {"variables.a", true}}},
		{[]variable{{"a", "1", false}, {"b", "variables.a + 1", false}}, []check{{"variables.a == 1 && variables.b == 2", false}, {"variables.c", true}}},
		{nil, []check{{"variables.a == 1", true}}},
		{[]variable{{"c", "object.a", false}}, []check{{"variables.c == 1", false}}},
		{[]variable{{"c", "'text'", false}}, []check{{"variables.c == 'text'", false}, {"variables.c == 1", true}}},
		{[]variable{{"c", "variables.a", true}}, nil},
		{[]variable{{"c", "true", false}, {"d", "true", false}}, []check{{"variables.c", false}, {"variables.a == 1", true}, {"variables.d", false}}},
		{[]variable{{"b", "variables.a", true}, {"a", "1", false}}, []check{{"variables.a == 1", false}}},
	} {
		p, err := c.Policy()
		if err != nil {
			t.Fatal(err)
		}
		path := field.NewPath("x")
		for _, v := range policy.variables {
			if errs := p.Declare(path, v.name, expression(v.text)); len(errs) > 0 != v.wrong {
				t.Errorf("policy %d, variable %s: %v", i, v.name, errs)
			}
		}
		for _, x := range policy.checks {
			if errs := p.Compile(path, expression(x.text), x.text); len(errs) > 0 != x.wrong {
				t.Errorf("policy %d, %s: %v", i, x.text, errs)
			}
		}
		p.Close()
	}
}

// TestPolicyLimit makes sure that the variables of many policies do not pile up.
func TestPolicyLimit(t *testing.T) {
	c := New().(*compilers)
	p := &policyCompiler{from: c}
	current, err := c.compose()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxVariables + 1 {
		current.declared[string(rune('a'+i))] = true
	}
	p.own = current
	p.Close()
	if c.used.Get() != nil {
		t.Error("a compiler with many variables is used again")
	}
}
