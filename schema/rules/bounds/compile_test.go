package bounds_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"espalier.dev/schema/rules/bounds"
)

// nested returns an expression that is n times in itself, innermost last.
func nested(n int, format func(level int, in string) string) string {
	text := "true"
	for i := n - 1; i >= 0; i-- {
		text = format(i, text)
	}
	return text
}

// variable returns the variable of a level around the given one, or a number if there is none.
func variable(level int) string {
	if level == 0 {
		return "1"
	}
	return fmt.Sprint("v", level-1)
}

// TestTooComplex has expressions that would take very long to compile, or much memory.
func TestTooComplex(t *testing.T) {
	for name, text := range map[string]string{
		"chained optMap":                  "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".hasValue()",
		"chained optFlatMap":              "optional.of(1)" + strings.Repeat(".optFlatMap(x,optional.of(x))", 30) + ".hasValue()",
		"chained optMap, then an error":   "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".hasValue(",
		"chained optMap, and a bad macro": "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".all(1, true)",
		"empty maps":                      "[" + strings.Repeat("{},", 3_400) + "{}].size() > 0",
		"repetitions in patterns":         strings.Repeat("'a'.matches('"+strings.Repeat("x{1000}", 1_000)+"') || ", 10) + "true",
		"ranges without case":             "'a'.matches('(?i)" + strings.Repeat("[b-\U0001E942]", 1_000) + "')",
		"escaped ranges without case":     "'a'.matches('(\\x3fi)" + strings.Repeat(`[b-\\x{1E942}]`, 1_000) + "')",
		"negations":                       "1" + strings.Repeat("- -1", 20_000) + " == 1",
		"parts of a name":                 "a" + strings.Repeat(".a", 60_000) + "{}",
		"macros":                          strings.Repeat("self.map(x, x) == [] || ", 4_000) + "true",
		"maps of maps": nested(30, func(i int, in string) string {
			return fmt.Sprintf("[{%s: %[1]s}].all(v%d, %s)", variable(i), i, in)
		}),
		"maps of maps in variables": nested(30, func(i int, in string) string {
			return fmt.Sprintf("cel.bind(v%d, {%s: %[2]s}, %s)", i, variable(i), in)
		}),
		"maps of maps by inference": nested(30, func(i int, in string) string {
			if i == 0 {
				return "[].all(v0, " + in + ")"
			}
			return fmt.Sprintf("[].all(v%d, %s == {v%[1]d: v%[1]d} && %[3]s)", i, variable(i), in)
		}),
	} {
		if err := bounds.Check(text, bounds.TypeSize{}); !errors.Is(err, bounds.ErrTooComplex) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestNotTooComplex has large expressions that kube-apiserver compiles within a second.
func TestNotTooComplex(t *testing.T) {
	env, err := bounds.EnvSet().StoredExpressionsEnv().Extend(ext.Bindings(), cel.Variable("self", cel.DynType), cel.Variable("s", cel.StringType))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"conditions":    strings.Repeat("s == 'abc' || ", 1_500) + "true",
		"texts":         "s in [" + strings.Repeat("'abcdefgh', ", 8_000) + "'']",
		"macros":        strings.Repeat("self.a.all(x, x.b.exists(y, y == 1)) && ", 1_000) + "true",
		"lists":         strings.Repeat("self.map(x, x.a) == self.filter(x, x.b) || ", 100) + "true",
		"empty maps":    "[" + strings.Repeat("{},", 1_500) + "{}].size() > 0",
		"empty values":  "{" + strings.Repeat("'a': [], ", 1_000) + "'b': []}.size() > 0",
		"optional ones": strings.Repeat("self.?a.optMap(x, x.b + 1).orValue(0) == 1 || ", 50) + "true",
		"patterns": strings.Repeat("s.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]{1,61}[a-z0-9])?)*$') || ", 100) +
			"s.matches('(?i)^[a-z0-9-]{1,63}$')",
		"chains": "self.?a" + strings.Repeat(".optMap(x, x.b)", 7) + ".hasValue()",
		"variables": nested(10, func(i int, in string) string {
			return fmt.Sprintf("cel.bind(v%d, self.a%[1]d.map(x, {x.name: x}), %s)", i, in)
		}),
		"ifs": nested(60, func(i int, in string) string { return fmt.Sprintf("(s == '%d' ? self.a%[1]d : %s)", i, in) }) + " == true",
	} {
		if err := bounds.Check(text, bounds.TypeSize{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if testing.Short() {
			continue // compiling takes seconds
		}
		if _, issues := env.Compile(text); issues != nil {
			t.Errorf("%s: %v", name, issues)
		}
	}
}

// TestSteps makes sure that the size of types counts.
func TestSteps(t *testing.T) {
	large := bounds.SizeOf(cel.MapType(cel.MapType(cel.IntType, cel.IntType), cel.ListType(cel.ListType(cel.ListType(cel.StringType)))))
	if large != (bounds.TypeSize{Parts: 8, Depth: 5}) {
		t.Errorf("got the size %v", large)
	}
	text := strings.Repeat("self == self && ", 100) + "true"
	if less, more := bounds.Steps(text, bounds.TypeSize{}), bounds.Steps(text, large); less >= more {
		t.Errorf("got %g steps, %g for a larger type", less, more)
	}
}

// TestAllowance compiles expressions that are too much together.
func TestAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var a bounds.Allowance
	text := "[" + strings.Repeat("{},", 1_500) + "{}].size() > 0"
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = a.Check(text, bounds.TypeSize{})
	}
	if !errors.Is(err, bounds.ErrTooComplexTogether) || n < 3 {
		t.Errorf("expression %d: %v", n, err)
	}
	// Those that are too complex alone are not estimated without end.
	a = bounds.Allowance{}
	text = "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30)
	for n = 0; n < 1_000 && !errors.Is(a.Check(text, bounds.TypeSize{}), bounds.ErrTooComplexTogether); n++ {
	}
	if n > 50 {
		t.Errorf("%d too complex expressions", n)
	}
}

// TestIsHeavy finds out that an expression is heavy without doing what it is heavy for, because nothing limits how often
// that is asked at the same time.
func TestIsHeavy(t *testing.T) {
	heavy := "optional.of(1)" + strings.Repeat(".optMap(x,x)", 30) + ".hasValue()"
	var before, after runtime.MemStats
	bounds.IsHeavy([]string{heavy})
	runtime.ReadMemStats(&before)
	isHeavy := bounds.IsHeavy([]string{heavy})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; !isHeavy || n > 16<<20 {
		t.Errorf("heavy: %t, after %d bytes", isHeavy, n)
	}
	if bounds.IsHeavy([]string{"s.matches('^[a-z0-9-]*$')", "self.?a.optMap(x, x.b + 1).orValue(0) == 1"}) {
		t.Error("small expressions are heavy")
	}
	// A short text can have large ranges.
	if !bounds.IsHeavy([]string{"'a'.matches('(?i)" + strings.Repeat("[b-\U0001E942]", 15) + "')"}) {
		t.Error("large ranges are not heavy")
	}
}
