package cel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/schema/rules/bounds"
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

// TestPolicyTypes declares variables whose types double, and then a policy whose types are small.
func TestPolicyTypes(t *testing.T) {
	c := New()
	compile := func(variable string, n int) (errs field.ErrorList) {
		p, err := c.Policy()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i := range n {
			e := admissionregistration.Expression{Purpose: admissionregistration.Validation, Text: "1"}
			if i > 0 {
				e.Text = fmt.Sprintf(variable, i-1)
			}
			errs = append(errs, p.Declare(field.NewPath("variables").Index(i), fmt.Sprint("v", i), e)...)
		}
		e := admissionregistration.Expression{Purpose: admissionregistration.Validation, Text: fmt.Sprintf("variables.v%d == variables.v%[1]d", n-1)}
		return append(errs, p.Compile(field.NewPath("expression"), e, e.Text)...)
	}
	if !testing.Short() { // takes seconds
		errs := compile("{variables.v%d: variables.v%[1]d}", 60)
		if len(errs) == 0 || errs[0].Type != field.ErrorTypeInvalid || !strings.Contains(errs[0].Detail, "too complex to be compiled") {
			t.Errorf("got %.300v", errs)
		}
	}
	if errs := compile("variables.v%d + 1", 60); len(errs) > 0 {
		t.Errorf("small types: %v", errs)
	}
	if errs := compile("[variables.v%d]", 8); len(errs) > 0 {
		t.Errorf("nested lists: %v", errs)
	}
}

// TestTogether checks the expressions of objects that are too many.
func TestTogether(t *testing.T) {
	check := New().Together()
	var err error
	n := 0
	for ; err == nil && n < 240; n++ {
		err = check("[" + strings.Repeat("{},", 1_500) + fmt.Sprintf("{}].size() > %d", n))
	}
	if !errors.Is(err, bounds.ErrTooComplexTogether) || n < 3 {
		t.Errorf("expression %d: %v", n, err)
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
