package bounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"espalier.dev/schema/rules/bounds"
)

// eval evaluates an expression of the text s. The result has the value and the cost, or the
// error.
func eval(t *testing.T, set *environment.EnvSet, expression, s string) string {
	t.Helper()
	env, err := set.StoredExpressionsEnv().Extend(cel.Variable("s", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression)
	if issues != nil {
		t.Fatal(issues)
	}
	program, err := env.Program(ast, cel.CostTracking(&library.CostEstimator{}), cel.InterruptCheckFrequency(100))
	if err != nil {
		return "program: " + err.Error()
	}
	value, details, err := program.Eval(map[string]any{"s": s})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(value.Value(), " ", *details.ActualCost())
}

// TestSame checks that bounded functions have the same results and costs as those of Kubernetes.
func TestSame(t *testing.T) {
	for _, expression := range []string{
		"quantity('1Gi').isGreaterThan(quantity(s))", "isQuantity(s)", "isQuantity(s + 'x')", "quantity('x' + s).isInteger()",
		"s.matches('^1.*$')", "s.matches(s)", "dyn(s).matches('1')", "dyn(1).matches('1')", "s.matches('(' + s)", "s.find('[0-9]')", "s.find(s)", "s.find('(' + s)",
		"s.findAll('[0-9]').size()", "s.findAll('.', 1)[0]", "s.findAll(s)[0]", "s.findAll('(' + s, 2)", "dyn(s).findAll('.', 2).size()", "dyn(s).find(dyn('.'))",
		"s.replace('1', 'a').replace('', 'b')", "s.replace('0', 'xyz', 1)", "s.replace('0', 'xyz', -1)", "dyn(s).replace(dyn('1'), 'a')", "s.replace('', s.replace('1', s.find('1'))) == s || s.matches('0')",
	} {
		for _, s := range []string{"1000", "", "1e3"} {
			want := eval(t, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), expression, s)
			if got := eval(t, bounds.EnvSet(), expression, s); got != want {
				t.Errorf("%s of %q: got %s, want %s", expression, s, got, want)
			}
		}
	}
}

// TestBounds evaluates calls that would take seconds, or gigabytes.
func TestBounds(t *testing.T) {
	long := strings.Repeat("a", 900_000)
	const quantity, replace = "the number is too long, or its exponent too large, for a quantity", "the result of replace is larger than 16 MiB"
	const pattern = "too long for a regular expression"
	for expression, want := range map[string]string{
		"quantity('1e999999999').isGreaterThan(quantity('1'))": quantity,
		"isQuantity('1e-999999999')":                           "false",
		"s.matches('^(.*a){1000}$')":                           pattern,
		"s.matches('^(.*a){1000}' + '$')":                      pattern,
		"s.find('(.*a){1000}')":                                pattern,
		"s.findAll('a.*b|a').size()":                           pattern,
		"s.replace('', 'bbbbbbbbbbbbbbbbbbbb')":                replace,
		"s.replace('a', 'bbbbbbbbbbbbbbbbbbbb').size()":        replace,
		"s.replace('a', 'bbbbbbbbbbbbbbbbbbbb', 3).size()":     "900057",
	} {
		if got := eval(t, bounds.EnvSet(), expression, long); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", expression, got[:min(200, len(got))], want)
		}
	}
}
