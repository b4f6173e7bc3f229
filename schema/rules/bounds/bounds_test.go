package bounds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

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
	program, err := env.Program(ast, cel.CostLimit(20_000_000), cel.InterruptCheckFrequency(100))
	if err != nil {
		return "program: " + err.Error()
	}
	value, details, err := program.Eval(map[string]any{"s": s})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(value.Value(), " ", *details.ActualCost())
}

// shared returns an expression whose value has the same list many times, 2 to the power of depth.
func shared(depth int, of string, expression func(v string) string) string {
	open, last := "[["+of+"]].all(v0, ", "v0"
	for i := range depth {
		v := fmt.Sprintf("v%d", i+1)
		open += fmt.Sprintf("[[%s, %s]].all(%s, ", last, last, v)
		last = v
	}
	return open + expression(last) + strings.Repeat(")", depth+1)
}

// TestBoundsOfShared evaluates calls whose arguments have the same value a million times, or much more often.
func TestBoundsOfShared(t *testing.T) {
	const depth = 30
	for expression, name := range map[string]string{
		"%[1]s == %[1]s": "==", "[%[1]s] != [%[1]s]": "!=", "%[1]s in [%[1]s]": "in", "[%[1]s].indexOf(%[1]s) == 0": "indexOf",
		"[%[1]s].lastIndexOf(%[1]s) == 0": "lastIndexOf", "[%[1]s].includes(%[1]s)": "includes", "%[1]s.includes(%[1]s)": "",
		"[%[1]s, %[1]s].distinct().size() == 1": "distinct", "sets.contains([%[1]s], [%[1]s])": "sets.contains",
		"sets.intersects([%[1]s], [%[1]s])": "sets.intersects", "sets.equivalent([%[1]s], [%[1]s])": "sets.equivalent",
		"{'a': %[1]s} == {'a': %[1]s}": "==", "optional.of(%[1]s) == optional.of(%[1]s)": "==", "'%%s'.format([%[1]s]) != ''": "format",
		"dyn(%[1]s) == 1": "dyn", "%[1]s.flatten(100).size() > 0": "flatten",
	} {
		if testing.Short() && name != "==" && name != "distinct" && name != "format" {
			continue
		}
		expression = shared(depth, "1", func(v string) string { return fmt.Sprintf(expression, v) })
		got := eval(t, bounds.EnvSet(), expression, "")
		if want := "the arguments of " + name + " are too large"; name != "" && !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", expression[len(expression)-200:], got, want)
		}
	}
}

// TestJoinedLists evaluates calls of lists that are made by joining a list with itself again and again.
func TestJoinedLists(t *testing.T) {
	for _, expression := range []string{
		"%[1]s.size() > 0", "%[1]s == %[1]s", "5 in %[1]s", "%[1]s.reverse() == []", "%[1]s.slice(0, 1) == []", "%[1]s.max() == 1", "%[1]s.sum() == 1",
		"%[1]s.isSorted()", "%[1]s.sort() == []", "%[1]s.distinct() == []", "%[1]s.map(x, string(x)).join() == ''", "%[1]s.indexOf(3) == 1",
	} {
		open, last := "[[1, 2]].all(v0, ", "v0"
		for i := range 40 {
			v := fmt.Sprintf("v%d", i+1)
			open += fmt.Sprintf("[%s + %s].all(%s, ", last, last, v)
			last = v
		}
		got := eval(t, bounds.EnvSet(), open+fmt.Sprintf(expression, last)+strings.Repeat(")", 41), "")
		if !strings.Contains(got, "the arguments of + are too large") && !strings.Contains(got, "cost limit exceeded") {
			t.Errorf("%s: got %s", expression, got)
		}
	}
}

// TestBounds evaluates calls that would take seconds, or gigabytes.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	long := strings.Repeat("a", 900_000)
	const quantity, replace = "the number is too long, or its exponent too large, for a quantity", "the result of replace is larger than 16 MiB"
	const pattern = "too long for a regular expression"
	for expression, want := range map[string]string{
		"quantity('1e999999999').isGreaterThan(quantity('1'))":                     quantity,
		"isQuantity('1e-999999999')":                                               "false",
		"s.matches('^(.*a){1000}$')":                                               pattern,
		"s.matches('^(.*a){1000}' + '$')":                                          pattern,
		"s.find('(.*a){1000}')":                                                    pattern,
		"s.findAll('a.*b|a').size()":                                               pattern,
		"s.replace('', 'bbbbbbbbbbbbbbbbbbbb')":                                    replace,
		"s.replace('a', 'bbbbbbbbbbbbbbbbbbbb').size()":                            replace,
		"s.replace('a', 'bbbbbbbbbbbbbbbbbbbb', 3).size()":                         "900057",
		"s.indexOf(s + 'b')":                                                       "-1",
		"s.indexOf(s.substring(0, 450000) + 'b')":                                  "-1",
		"s.lastIndexOf('b' + s.substring(0, 450000))":                              "-1",
		"s.lastIndexOf(s.substring(1))":                                            "1",
		"s.split(s.substring(0, 450000) + 'b').size()":                             "the arguments of split are too large",
		"s.replace(s.substring(0, 450000) + 'b', '')":                              "the arguments of replace are too large",
		"lists.range(100000000)":                                                   "the arguments of lists.range are too large",
		"s.split('').distinct().size()":                                            "the arguments of distinct are too large",
		"s.split('').join(s)":                                                      "the arguments of join are too large",
		"sets.contains(s.split(''), s.split(''))":                                  "the arguments of sets.contains are too large",
		"'%.999999999f'.format([1.0])":                                             "the arguments of format are too large",
		"s.find('((a?){500}){2}' + 'a{1000}')":                                     pattern,
		"''.matches('(?i)' + s.substring(0, 1000).replace('a', '[b-\U0001E942]'))": "the arguments of matches are too large",
	} {
		if got := eval(t, bounds.EnvSet(), expression, long); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", expression, got[:min(200, len(got))], want)
		}
	}
}
