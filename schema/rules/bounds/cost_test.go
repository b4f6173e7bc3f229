package bounds_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"espalier.dev/schema/rules/bounds"
)

var (
	costTime   = flag.Duration("cost-time", 0, "how long TestCost searches for expressions that take long for their cost")
	updateCost = flag.Bool("update-cost", false, "write what TestCost finds to testdata/cost.txt")
)

// maxRatio is how much longer an expression may take for a cost of 1 than a plain loop.
const maxRatio = 20

// TestCost searches for expressions that take long for what they cost, and compares them with a plain loop
// over a list in the same process. It is a long run (make cel-cost), because it measures time.
func TestCost(t *testing.T) {
	if *costTime == 0 {
		t.Skip("needs -cost-time")
	}
	f := newCostSearch(t)
	// Both are measured at the same time, because the speed of a machine varies.
	worst := map[string]found{}
	for end := time.Now().Add(*costTime); time.Now().Before(end); {
		text := f.expression()
		took, ok := f.measure(text)
		if !ok {
			continue
		}
		for _, name := range f.used {
			if r := took / f.plain(); r > worst[name].ratio {
				// Collecting the garbage of another expression takes time, too.
				for i := 0; i < 5 && r > maxRatio/4; i++ {
					runtime.GC()
					again, _ := f.measure(text)
					r = min(r, again/f.plain())
				}
				if r > worst[name].ratio {
					worst[name] = found{r, text}
				}
			}
		}
	}
	report(t, worst)
}

// found is the worst expression with a function.
type found struct {
	ratio float64
	text  string
}

func report(t *testing.T, worst map[string]found) {
	names := slices.SortedFunc(maps.Keys(worst), func(a, b string) int {
		return cmp.Or(cmp.Compare(worst[b].ratio, worst[a].ratio), cmp.Compare(a, b))
	})
	var table strings.Builder
	table.WriteString("# The time per cost of the worst expression that was found for each function, as a multiple of that of a\n" +
		"# plain loop: make cel-cost UPDATE=1\n")
	for i, name := range names {
		w := worst[name]
		fmt.Fprintf(&table, "%-24s %6.1f  %s\n", name, w.ratio, w.text)
		if i < 20 {
			t.Logf("%-24s %6.1f  %s", name, w.ratio, w.text)
		}
		if w.ratio > maxRatio {
			t.Errorf("%s takes %.1f times as long for its cost as a plain loop: %s", name, w.ratio, w.text)
		}
	}
	if *updateCost {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/cost.txt", []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// costSearch generates expressions from the declarations of functions.
type costSearch struct {
	env    *cel.Env
	in     map[string]any
	random *rand.Rand
	// overloads are those of all functions, by the kind of their result.
	overloads map[types.Kind][]call
	used      []string // the functions of the last expression
}

type call struct {
	name string
	*decls.OverloadDecl
}

func newCostSearch(t *testing.T) *costSearch {
	array := func(items spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &items}}}
	}
	scalar := func(kind string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{kind}}} }
	list := func(n int, item func(i int) any) (out []any) {
		for i := range n {
			out = append(out, item(i))
		}
		return out
	}
	value := func(v any, s spec.Schema) ref.Val { return common.UnstructuredToVal(v, &openapi.Schema{Schema: &s}) }
	fields := map[string]any{}
	for i := range 10_000 {
		fields[fmt.Sprintf("k%d", i)] = []any{int64(i)}
	}
	integers := array(scalar("integer"))
	env, err := bounds.EnvSet().StoredExpressionsEnv().Extend(append(variables, cel.Variable("p", cel.StringType), cel.Variable("u", cel.StringType))...)
	if err != nil {
		t.Fatal(err)
	}
	f := &costSearch{env: env, random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)), overloads: map[types.Kind][]call{},
		in: map[string]any{
			"s": strings.Repeat("a", 300_000), "t": strings.Repeat("a", 100_000) + "b", "u": strings.Repeat("a1,&=", 200), "n": int64(1000),
			"p":  "(a?){500}(b|a)*",
			"i":  value(list(100_000, func(i int) any { return int64(i) }), integers),
			"l":  value(list(20_000, func(i int) any { return fmt.Sprint(i % 1000) }), array(scalar("string"))),
			"ll": value(list(2000, func(i int) any { return []any{int64(i), int64(1)} }), array(integers)),
			"m":  value(fields, spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, AdditionalProperties: &spec.SchemaOrBool{Schema: &integers}}}),
		}}
	for name, fn := range bounds.Functions() {
		if strings.HasPrefix(name, "@") || strings.HasPrefix(name, "cel.@") || strings.HasPrefix(name, "__") {
			continue
		}
		for _, o := range fn.OverloadDecls() {
			kind := o.ResultType().Kind()
			f.overloads[kind] = append(f.overloads[kind], call{name, o})
		}
	}
	return f
}

// plain returns the time per cost of a plain loop.
func (f *costSearch) plain() float64 {
	took, _ := f.measure("i.slice(0, 1000).all(x, x >= 0)")
	return took
}

// measure returns the nanoseconds per cost of an expression, or false if there is no such expression.
func (f *costSearch) measure(text string) (float64, bool) {
	ast, issues := f.env.Compile(text)
	if issues != nil {
		return 0, false
	}
	program, err := f.env.Program(ast, cel.InterruptCheckFrequency(100), bounds.Ranges(ast.NativeRep()))
	if err != nil {
		return 0, false
	}
	best := 0.0
	for range 3 {
		start, cost, runs := time.Now(), uint64(0), 0
		for ; runs < 1000 && time.Since(start) < time.Millisecond; runs++ {
			_, details, _ := program.Eval(f.in)
			cost += max(1, *details.ActualCost())
		}
		if took := float64(time.Since(start).Nanoseconds()) / float64(cost); best == 0 || took < best {
			best = took
		}
	}
	return best, true
}

// expression returns an expression, which may not be valid.
func (f *costSearch) expression() string {
	f.used = nil
	kinds := slices.Sorted(maps.Keys(f.overloads))
	kind := kinds[f.random.IntN(len(kinds))]
	c := f.overloads[kind][f.random.IntN(len(f.overloads[kind]))]
	text := f.call(c, 2)
	switch f.random.IntN(6) {
	case 0:
		return fmt.Sprintf("i.slice(0, 50).all(x, [%s].size() > 0)", text)
	case 1:
		return fmt.Sprintf("[%s].all(x, i.slice(0, 50).all(y, [x] == [x]))", text)
	case 2:
		f.used = nil
		defer func() { f.used = append(f.used, "exists") }()
		return fmt.Sprintf("i.slice(0, 50).all(x, %s.exists(y, true))", f.value(types.NewListType(types.IntType), 1))
	}
	return text
}

// value returns an expression of a type.
func (f *costSearch) value(of *types.Type, depth int) string {
	known := map[types.Kind][]string{
		types.StringKind: {"s", "t", "u", "p", "''", "'a'", "l[0]", "'x=%s %d'"}, types.IntKind: {"n", "1", "0", "i[5]", "s.size()"},
		types.ListKind: {"i", "l", "ll", "[]", "[i, i]", "[s, s]", "(i + i)", "ll.map(x, x)", "[[ll, ll], [ll, ll]]"},
		types.MapKind:  {"m", "{'a': i}", "{s: s}"}, types.BoolKind: {"true", "n > 1"}, types.DoubleKind: {"1.5", "double(n)"}, types.UintKind: {"3u"},
		types.BytesKind: {"bytes(s)", "b'abc'"}, types.TimestampKind: {"timestamp('2024-01-01T00:00:00Z')"}, types.DurationKind: {"duration('1h')"},
	}
	calls := f.overloads[of.Kind()]
	choices := known[of.Kind()]
	if of.Kind() == types.DynKind || of.Kind() == types.AnyKind || of.Kind() == types.TypeParamKind {
		choices = slices.Concat(known[types.StringKind], known[types.ListKind], known[types.MapKind])
	}
	if len(choices) > 0 && (depth == 0 || len(calls) == 0 || f.random.IntN(3) > 0) {
		return choices[f.random.IntN(len(choices))]
	}
	if len(calls) == 0 || depth < -2 {
		return "n"
	}
	return f.call(calls[f.random.IntN(len(calls))], depth-1)
}

// call returns a call of a function with arguments of its types.
func (f *costSearch) call(c call, depth int) string {
	f.used = append(f.used, c.name)
	var args []string
	for _, of := range c.ArgTypes() {
		args = append(args, f.value(of, depth))
	}
	operator, isOperator := operators.FindReverse(c.name)
	switch {
	case c.name == operators.Index && len(args) == 2:
		return args[0] + "[" + args[1] + "]"
	case c.name == operators.Conditional:
		return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")"
	case isOperator && operator != "" && len(args) == 2:
		return "(" + args[0] + " " + operator + " " + args[1] + ")"
	case isOperator && operator != "" && len(args) == 1:
		return operator + "(" + args[0] + ")"
	case c.IsMemberFunction() && len(args) > 0:
		return args[0] + "." + c.name + "(" + strings.Join(args[1:], ", ") + ")"
	}
	return c.name + "(" + strings.Join(args, ", ") + ")"
}
