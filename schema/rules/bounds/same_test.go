package bounds_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"espalier.dev/schema/rules/bounds"
)

// variables are those of the expressions of these tests.
var variables = []cel.EnvOption{
	cel.Variable("s", cel.StringType), cel.Variable("t", cel.StringType), cel.Variable("n", cel.IntType),
	cel.Variable("l", cel.ListType(cel.StringType)), cel.Variable("i", cel.ListType(cel.IntType)),
	cel.Variable("ll", cel.ListType(cel.ListType(cel.IntType))), cel.Variable("m", cel.MapType(cel.StringType, cel.ListType(cel.IntType))),
}

// result is what an evaluation returns.
type result struct {
	text string
	cost uint64
}

// programs compiles expressions for an environment.
func programs(t testing.TB, set *environment.EnvSet, options ...cel.ProgramOption) func(expression string) cel.Program {
	t.Helper()
	env, err := set.StoredExpressionsEnv().Extend(variables...)
	if err != nil {
		t.Fatal(err)
	}
	return func(expression string) cel.Program {
		ast, issues := env.Compile(expression)
		if issues != nil {
			t.Fatalf("%s: %v", expression, issues)
		}
		program, err := env.Program(ast, options...)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		return program
	}
}

func evaluate(program cel.Program, in map[string]any) result {
	value, details, err := program.Eval(in)
	if err != nil {
		return result{text: "error: " + err.Error()}
	}
	return result{fmt.Sprint(value.Value()), *details.ActualCost()}
}

// TestSameAnswers compares the answers and the costs of functions with those of Kubernetes for small inputs.
// Only values in values can cost more.
func TestSameAnswers(t *testing.T) {
	expressions := strings.Split(strings.TrimSpace(`
s.indexOf(t)
s.indexOf(t, n)
s.lastIndexOf(t)
s.lastIndexOf(t, n)
dyn(s).indexOf(dyn(t))
dyn(l).lastIndexOf(dyn(t))
l.indexOf(t)
i.lastIndexOf(n)
ll.indexOf(i)
l.distinct()
i.distinct()
ll.distinct()
l.sort()
i.sort()
dyn(i).sort()
l.sortBy(x, x.size())
sets.contains(l, [s, t])
sets.intersects(i, [n, 1])
sets.equivalent(ll, [i])
i.slice(0, n)
i.reverse()
ll.flatten()
[ll].flatten(2)
[ll].flatten(n)
lists.range(n)
i.min()
l.max()
i.sum()
l.isSorted()
l.join()
l.join(t)
s.split(t)
s.split('')
s.split(t, n)
s.replace(t, s)
s.replace(t, '', n)
'%s %s %s'.format([s, i, m])
'%d %x'.format([n, s])
'%.3f'.format([1.0 / 3.0])
'%.2e'.format([double(n)])
s == t
s != t
i == [1, 2]
i != i
ll == [i]
m == {'a': i}
dyn(s) == n
n in i
s in l
i in ll
s in m
dyn(n) in dyn(m)
dyn(n) in dyn(s)
l + [s]
dyn(s) + dyn(n)
dyn(i) + dyn(l)
dyn(m) + dyn(l)
i + i
s + t
n + 1
s < t
s >= t
s.size()
size(l)
m.size()
s.contains(t)
s.startsWith(t)
s.endsWith(t)
s.charAt(n)
s.matches('[a-c]{1,3}')
s.find('b+')
s.findAll('[a-c]')
s.findAll('[a-c]*', n)
int(s)
double(s)
bool(s)
duration(s)
timestamp(s)
isURL(s)
url(s).getQuery()
url('http://x/?a=' + t).getQuery()
semver('1.0.0-' + s).compareTo(semver('1.0.0-b'))
timestamp('2024-01-01T00:00:00Z').getHours()
optional.of(s) == optional.of(t)
optional.unwrap([optional.of(n), optional.none()])
[?optional.of(n)]
i.transformMap(k, v, v * 2)
i.transformMapEntry(k, v, {v: k})
i.map(x, x in ll[0])
ll.all(x, x == i)
m.map(k, m[k] == i).size()
{s: i}[t]
i[n]
quantity('1Gi').isGreaterThan(quantity(s))
isQuantity(s)
isQuantity(s + 'x')
quantity('x' + s).isInteger()
s.matches('^1.*$')
s.matches(s)
dyn(s).matches('1')
dyn(1).matches('1')
s.matches('(' + s)
s.find('[0-9]')
s.find(s)
s.find('(' + s)
s.findAll('[0-9]').size()
s.findAll('.', 1)[0]
s.findAll(s)[0]
s.findAll('(' + s, 2)
dyn(s).findAll('.', 2).size()
dyn(s).find(dyn('.'))
s.replace('1', 'a').replace('', 'b')
s.replace('0', 'xyz', 1)
s.replace('0', 'xyz', -1)
dyn(s).replace(dyn('1'), 'a')
s.replace('', s.replace('1', s.find('1'))) == s || s.matches('0')
dyn(i)[dyn(i)]
type(i) == list
`), "\n")
	usual := programs(t, environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	bound := programs(t, bounds.EnvSet())
	random := rand.New(rand.NewPCG(1, 2))
	for _, expression := range expressions {
		plain, guarded := usual(expression), bound(expression)
		for range 300 {
			in := inputs(random)
			want, got := evaluate(plain, in), evaluate(guarded, in)
			if nested := strings.Contains(expression, "ll") || strings.Contains(expression, "m"); nested && got.cost > want.cost {
				want.cost = got.cost
			}
			if got != want {
				t.Errorf("%s of %v: got %v, want %v", expression, in, got, want)
				break
			}
		}
	}
}

// inputs returns random values of the variables. They are so few that most functions find something.
func inputs(random *rand.Rand) map[string]any {
	text := func() string {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString([]string{"a", "b", "c", "ab", "é", "1", ",", "\u4e16"}[random.IntN(8)])
		}
		return b.String()
	}
	number := func() int64 { return int64(random.IntN(6) - 1) }
	numbers := func() []int64 {
		out := []int64{}
		for range random.IntN(5) {
			out = append(out, number())
		}
		return out
	}
	in := map[string]any{"s": text(), "t": text(), "n": number(), "i": numbers()}
	if random.IntN(2) == 0 {
		in["t"] = text()[:0]
	}
	l, ll, m := []string{}, [][]int64{}, map[string][]int64{}
	for range random.IntN(4) {
		l, ll, m[text()] = append(l, text()), append(ll, numbers()), numbers()
	}
	in["l"], in["ll"], in["m"] = l, ll, m
	return in
}
