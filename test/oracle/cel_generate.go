package oracle

import (
	"fmt"
	"strings"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// addRules adds rules to the schemas below s, outside of logical operators, and returns their
// number.
func (g *gen) addRules(s map[string]any, often int) int {
	n := 0
	walkSchemas(s, "", func(path string, s map[string]any) {
		if !g.chance(often) {
			return
		}
		var list []any
		for range 1 + g.r.IntN(2) {
			list = append(list, g.rule(s, path == ""))
		}
		s["x-kubernetes-validations"] = list
		n += len(list)
	})
	return n
}

// rule generates a rule for a schema.
func (g *gen) rule(s map[string]any, root bool) map[string]any {
	r := object()
	text := g.condition("self", s, root, 2)
	switch {
	case g.chance(25):
		text = g.transition(s)
		if g.chance(30) {
			r["optionalOldSelf"] = true
			text = pick(g, []string{
				"!oldSelf.hasValue() || oldSelf.value() == self",
				"oldSelf.hasValue()",
				"oldSelf.orValue(self) == self && " + text,
				"oldSelf.optMap(o, o == self).orValue(true)",
			})
		}
	case g.chance(4):
		text = pick(g, []string{"self.nonsense == 1", "self +", "1", "", "self.a.b.c", "'x'.matches('[')", "unknown(self)", "self.all(x, y)", "selfType == self", "dyn(self) > 5"})
	}
	r["rule"] = text
	if g.chance(40) {
		r["message"] = pick(g, []string{"must hold", " padded ", "with %s"})
	}
	if g.chance(30) {
		r["messageExpression"] = pick(g, []string{
			"'computed'", "'  padded  '", "''", "'two\\nlines'", "string(1/0)", "'x'.charAt(5)", "self", "'a' + 1",
			"'size ' + string(" + g.number("self", s) + ")", "type(self) == string ? 'text' : 'other'",
			"'has old ' + string(oldSelf == oldSelf)", "[1,2,3].map(x, string(x)).join('" + strings.Repeat("-", 300) + "')",
			"'" + strings.Repeat("x", 5200) + "'",
		})
	}
	if g.chance(30) {
		r["reason"] = pick(g, []string{"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"})
	}
	if g.chance(30) {
		r["fieldPath"] = g.fieldPath(s)
	}
	return r
}

// fieldPath generates a path that usually exists in a schema.
func (g *gen) fieldPath(s map[string]any) string {
	var b strings.Builder
	for range 1 + g.r.IntN(2) {
		name := g.name()
		if props, ok := s["properties"].(map[string]any); ok && len(props) > 0 && g.chance(90) {
			name = pick(g, sortedKeys(props))
			s, _ = props[name].(map[string]any)
		} else if ap, ok := s["additionalProperties"].(map[string]any); ok {
			s = ap
		}
		if g.chance(50) {
			fmt.Fprintf(&b, "['%s']", strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), "'", `\'`))
		} else {
			b.WriteString("." + name)
		}
	}
	if g.chance(5) {
		b.WriteString(pick(g, []string{".", "[", "]", "['x'", "[x]", "['\\q']", "x"}))
	}
	return b.String()
}

// transition generates a condition on self and oldSelf.
func (g *gen) transition(s map[string]any) string {
	return pick(g, []string{
		"self == oldSelf",
		"self != oldSelf",
		g.condition("oldSelf", s, false, 1),
		"!(" + g.condition("oldSelf", s, false, 1) + ") || " + g.condition("self", s, false, 1),
		g.number("self", s) + " >= " + g.number("oldSelf", s),
	})
}

// number generates a numeric expression on a value of a schema.
func (g *gen) number(v string, s map[string]any) string {
	switch s["type"] {
	case "integer":
		return v
	case "number":
		return "int(" + v + ")"
	case "array":
		return "size(" + v + ")"
	case "object":
		if _, ok := s["additionalProperties"].(map[string]any); ok {
			return "size(" + v + ")"
		}
	case "string":
		if s["format"] == nil {
			return "size(" + v + ")"
		}
	}
	return pick(g, []string{"1", "42"})
}

// condition generates a condition on a value v of a schema.
func (g *gen) condition(v string, s map[string]any, root bool, depth int) string {
	if depth > 0 && g.chance(15) {
		return fmt.Sprintf(pick(g, []string{"!(%s)", "(%s) || 1/0 == 1", "(%s) && true", "false || (%s)", "(%s) ? true : false"}), g.condition(v, s, root, depth-1))
	}
	if s["x-kubernetes-int-or-string"] == true {
		return fmt.Sprintf(pick(g, []string{
			"type(%[1]s) == int ? %[1]s > 1 : %[1]s.startsWith('a')", "%[1]s > 1", "%[1]s == 'a'", "%[1]s.size() < 3", "%[1]s == %[1]s", "string(%[1]s) != '1'",
		}), v)
	}
	switch s["type"] {
	case "string":
		switch s["format"] {
		case "date", "date-time":
			return fmt.Sprintf(pick(g, []string{"%[1]s > timestamp('2010-01-01T00:00:00Z')", "%[1]s.getFullYear() == 2014", "%[1]s == %[1]s"}), v)
		case "duration":
			return fmt.Sprintf(pick(g, []string{"%[1]s > duration('1m')", "%[1]s.getSeconds() > 5", "%[1]s == %[1]s"}), v)
		case "byte":
			return fmt.Sprintf(pick(g, []string{"%[1]s.size() > 2", "%[1]s == b'abc'"}), v)
		}
		return fmt.Sprintf(pick(g, []string{
			"%[1]s.size() < 3", "%[1]s.matches('^a')", "%[1]s.startsWith('a')", "%[1]s.contains('b')", "%[1]s.lowerAscii() == %[1]s", "%[1]s in ['a', 'b', 'foo']",
			"%[1]s.find('[0-9]+') == ''", "int(%[1]s) > 1", "%[1]s.split('').size() == 2", "url('http://' + %[1]s).getHost() == %[1]s", "isIP(%[1]s)", "quantity(%[1]s).isGreaterThan(quantity('1'))",
			"!format.dns1123Label().validate(%[1]s).hasValue()", "%[1]s == ''", "%[1]s + 'x' != 'ax'", "%[1]s.reverse() == %[1]s",
		}), v)
	case "integer":
		return fmt.Sprintf(pick(g, []string{"%[1]s > 1", "%[1]s %% 2 == 0", "10 / %[1]s > 1", "%[1]s + 9223372036854775807 > 0", "%[1]s in [1, 2, 3]", "double(%[1]s) < 3.5", "%[1]s < 2.5"}), v)
	case "number":
		return fmt.Sprintf(pick(g, []string{"%[1]s > 1.0", "%[1]s < 2", "int(%[1]s) == 1", "%[1]s == 0.5", "%[1]s * 2.0 > 1.0"}), v)
	case "boolean":
		return pick(g, []string{v, "!" + v, v + " == true"})
	case "array":
		return g.listCondition(v, s, depth)
	case "object":
		return g.objectCondition(v, s, root, depth)
	}
	return pick(g, []string{v + " == " + v, "true", "has(" + v + ".a)"})
}

func (g *gen) listCondition(v string, s map[string]any, depth int) string {
	items, _ := s["items"].(map[string]any)
	if items == nil || depth == 0 || g.chance(40) {
		return fmt.Sprintf(pick(g, []string{
			"%[1]s.size() < 2", "%[1]s[0] == %[1]s[0]", "%[1]s == %[1]s", "%[1]s.all(x, x == x)", "%[1]s.exists_one(x, x == %[1]s[0])", "%[1]s + %[1]s == %[1]s",
			"%[1]s.map(x, 1).sum() < 3", "%[1]s.all(x, %[1]s.exists(y, x == y))", "%[1]s.isSorted()", "%[1]s.indexOf(%[1]s[0]) == 0", "sets.contains(%[1]s, %[1]s)", "%[1]s.includes(1)", "%[1]s.all(i, x, i < 2)",
		}), v)
	}
	x := fmt.Sprintf("x%d", depth)
	return fmt.Sprintf("%s.%s(%s, %s)", v, pick(g, []string{"all", "exists", "exists_one"}), x, g.condition(x, items, false, depth-1))
}

func (g *gen) objectCondition(v string, s map[string]any, root bool, depth int) string {
	if values, ok := s["additionalProperties"].(map[string]any); ok {
		if depth == 0 || g.chance(40) {
			return fmt.Sprintf(pick(g, []string{
				"%[1]s.size() < 2", "%[1]s.all(k, k.startsWith('k'))", "'k1' in %[1]s", "%[1]s == %[1]s", "%[1]s['k1'] == %[1]s['k1']", "%[1]s.exists(k, %[1]s[k] == %[1]s['a'])", "%[1]s.?a.hasValue()", "%[1]s.all(k, v, k != '')",
			}), v)
		}
		return fmt.Sprintf("%s.all(k, %s)", v, g.condition(v+"[k]", values, false, depth-1))
	}
	if (root || s["x-kubernetes-embedded-resource"] == true) && g.chance(30) {
		return fmt.Sprintf(pick(g, []string{
			"%[1]s.metadata.name.startsWith('f')", "%[1]s.kind == 'Thing'", "%[1]s.apiVersion.contains('/')", "has(%[1]s.metadata.generateName)", "%[1]s.metadata.name.size() < 3", "has(%[1]s.metadata) && %[1]s.metadata.name != 'foo'",
		}), v)
	}
	props, _ := s["properties"].(map[string]any)
	if len(props) == 0 || depth == 0 || g.chance(15) {
		return pick(g, []string{v + " == " + v, "true", "false", "type(" + v + ") == type(" + v + ")"})
	}
	name := pick(g, sortedKeys(props))
	escaped, ok := apiservercel.Escape(name)
	if !ok {
		escaped = "a"
	}
	f := v + "." + escaped
	p, _ := props[name].(map[string]any)
	if p == nil {
		return "has(" + f + ")"
	}
	below := g.condition(f, p, false, depth-1)
	return pick(g, []string{"has(" + f + ")", "!has(" + f + ") || " + below, below, "has(" + f + ") && " + below, v + ".?" + escaped + ".hasValue()"})
}
