package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/api"
	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

// TestUnguarded checks which optional fields a rule reads although they can be absent.
func TestUnguarded(t *testing.T) {
	const properties = `
type: object
required: [r, kind1]
allOf: [{required: [all]}]
properties:
  r: {type: object, properties: {o: {type: integer}}}
  kind1: {type: string}
  all: {type: string}
  d: {type: integer, default: 1}
  a: {type: integer}
  b: {type: integer}
  x-y: {type: integer}
  metadata: {type: object, properties: {name: {type: string}}}
  s: {type: object, required: [num], properties: {num: {type: integer}, o: {type: integer}, t: {type: object, properties: {u: {type: string}}}}}
  l: {type: array, maxItems: 5, items: {type: object, required: [k], properties: {k: {type: string}, o: {type: integer}}}}
  m: {type: object, maxProperties: 5, additionalProperties: {type: object, properties: {o: {type: integer}}}}
`
	for rule, want := range map[string]string{
		// The last rule of a list is the one that is tested.
		`self.a > 1`:                     "self.a",
		`self.a <= self.b && self.a > 0`: "self.a self.b",
		`self.r.o > 1`:                   "self.r.o",
		`self.kind1 == 'a' && self.d > 0 && self.all == ''`:     "",
		`!has(self.a) || self.a > 1`:                            "",
		`self.a > 1 || !has(self.a)`:                            "",
		`has(self.a) && self.a > 1`:                             "",
		`has(self.a) ? self.a > 1 : true`:                       "",
		`!has(self.a) ? true : self.a > 1`:                      "",
		`has(self.a) ? true : self.a > 1`:                       "self.a",
		`has(self.a) || self.a > 1`:                             "self.a",
		`(has(self.a) && has(self.b)) ? self.a < self.b : true`: "",
		`(has(self.a) || has(self.b)) ? self.a < self.b : true`: "self.a self.b",
		`!(has(self.a) && has(self.b)) || self.a < self.b`:      "",
		`!has(self.a) || !has(self.b) || self.a < self.b`:       "",
		`has(self.s.o)`:                                "self.s",
		`has(self.s) && self.s.num > 1`:                "",
		`has(self.s) && self.s.o > 1`:                  "self.s.o",
		`has(self.s) && has(self.s.o) && self.s.o > 1`: "",
		`!has(self.s) || !has(self.s.t) || !has(self.s.t.u) || self.s.t.u == ''`: "",
		`self.?a.orValue(3) > 1`:                                                                                "",
		`self.?s.o.orValue(3) > 1`:                                                                              "",
		`!self.?a.hasValue() || true`:                                                                           "",
		`self.x__dash__y > 1`:                                                                                   "self.x__dash__y",
		`!has(self.x__dash__y) || self.x__dash__y > 1`:                                                          "",
		`self.l.all(i, i.k == '')`:                                                                              "self.l",
		`!has(self.l) || self.l.all(i, i.o > 1)`:                                                                "i.o",
		`!has(self.l) || self.l.all(i, !has(i.o) || i.o > 1)`:                                                   "",
		`!has(self.l) || self.l.exists(i, has(i.o) && i.o > 1)`:                                                 "",
		`!has(self.l) || self.l.filter(i, has(i.o)).all(i, i.o > 1)`:                                            "",
		`!has(self.l) || self.l.filter(i, has(i.o)).map(j, j.o).sum() > 1`:                                      "",
		`!has(self.l) || self.l.map(i, has(i.o), i.o).sum() > 1`:                                                "",
		`!has(self.l) || self.l.all(i, self.l.exists(j, has(j.o)) || i.o > 1)`:                                  "i.o",
		`!has(self.l) || self.l.size() == 0 || self.l[0].o > 1`:                                                 "self.l[0].o",
		`!has(self.m) || self.m.all(k, self.m[k].o > 1)`:                                                        "self.m[k].o",
		`!has(self.m) || self.m.all(k, !has(self.m[k].o) || self.m[k].o > 1)`:                                   "",
		`has(self.a) == has(self.b) && (!has(self.a) || self.a < self.b)`:                                       "",
		`has(self.a) != has(self.b) && (has(self.a) ? self.a > 1 : self.b > 1)`:                                 "",
		`self.a > oldSelf.a`:                                                                                    "self.a oldSelf.a",
		`!has(self.a) || !has(oldSelf.a) || self.a > oldSelf.a`:                                                 "",
		`self.?b.orValue(0) > 0 ? self.b > 1 : true`:                                                            "",
		`self.?b.hasValue() && self.b > 1`:                                                                      "",
		`{'x': self.a} == {'x': 1}`:                                                                             "self.a",
		`self.a in {self.b: 1}`:                                                                                 "self.a self.b",
		`!has(self.m) || self.m.all(k, v, v.o > 1)`:                                                             "v.o",
		`!has(self.m) || self.m.all(k, v, !has(v.o) || v.o > 1)`:                                                "",
		`!has(self.l) || self.l.all(i, e, e.o > i)`:                                                             "e.o",
		`!has(self.m) || self.m.x.o > 1`:                                                                        "self.m.x.o",
		`self.metadata.name != '' && self.kind != ''`:                                                           "",
		`has(self.a) == true && self.a > 1`:                                                                     "",
		`has(self.a) == false || self.a > 1`:                                                                    "",
		`!has(self.a) == true || self.a > 1`:                                                                    "",
		`(has(self.a) && has(self.b)) == false || self.a < self.b`:                                              "",
		`(has(self.a) || has(self.b)) == false || self.a > 1`:                                                   "self.a",
		`(has(self.a) != true) != false || self.a > 1`:                                                          "",
		`!has(self.l) || self.l.map(i, i.k).all(k, k != '')`:                                                    "",
		`!has(self.l) || self.l.map(i, has(i.o), i.o).all(o, o > 1)`:                                            "",
		`!has(self.l) || self.l.map(i, i)[0].o > 0`:                                                             "",
		`!has(self.l) || self.l.map(i, has(i.o), i).all(i, i.o > 1)`:                                            "",
		`has(self.a) == false && self.a > 1`:                                                                    "self.a",
		`!has(self.l) || self.l.all(i, (i.k == 'A' ? has(i.o) : true) && self.l.all(i, i.k != 'A' || i.o > 1))`: "i.o",
		`!has(self.l) || self.l.all(i, (i.k == 'A' ? has(i.o) : true) && self.l.all(j, i.k != 'A' || i.o > 1))`: "",
		// Fields are written in CEL.
		`!has(self.l) || self.l.filter(i, i.k == 'x')[0].o > 0`:                                                                        `self.l.filter(i, i.k == "x")[0].o`,
		`!has(self.l) || !has(self.l.filter(i, i.k == "x")[0].o) || self.l.filter(i, i.k == "x")[0].o > 0`:                             "",
		`!has(self.l) || !has(self.l.filter(i, i.k == "y")[0].o) || self.l.filter(i, i.k == "x")[0].o > 0`:                             `self.l.filter(i, i.k == "x")[0].o`,
		`!has(self.m) || self.m[self.kind1 + 'x'].o > 0`:                                                                               `self.m[self.kind1 + "x"].o`,
		`!has(self.m) || self.m['a b'].o > 0`:                                                                                          `self.m["a b"].o`,
		`!has(self.m) || self.m[self.kind1 == 'a' || self.kind1 == 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' ? 'c' : 'd'].o > 0`: `self.m[(self.kind1 == "a" || self.kind1 == "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb") ? "c" : "d"].o`,
		`!has(self.l) || self.l.map(i, self.l.filter(j, j.k == i.k)[0].o).sum() > 0`:                                                   `self.l.filter(j, j.k == i.k)[0].o`,
		// What other rules require holds.
		`has(self.a) ;; self.a > 1`:  "",
		`!has(self.a) ;; self.a > 1`: "self.a",
		`self.kind1 == 'A' ? has(self.a) : !has(self.a) ;; self.kind1 != 'A' || self.a > 1`:                        "",
		`self.kind1 == 'A' ? has(self.a) : !has(self.a) ;; self.kind1 != 'B' || self.a > 1`:                        "self.a",
		`true ? has(self.a) : has(self.b) ;; self.a > 1`:                                                           "",
		`false ? has(self.a) : has(self.b) ;; self.a > 1`:                                                          "self.a",
		`has(self.a) && has(self.b) ? has(self.s) : true ;; !has(self.a) || !has(self.b) || self.s.num > 1`:        "",
		`has(self.a) && has(self.b) ? has(self.s) : true ;; !has(self.a) || self.s.num > 1`:                        "self.s",
		`has(self.a) && has(self.b) ? true : has(self.s) ;; has(self.a) || self.s.num > 1`:                         "",
		`has(self.a) && has(self.b) ? true : has(self.s) ;; has(self.b) || self.s.num > 1`:                         "",
		`has(self.a) || has(self.b) ? has(self.s) : true ;; !has(self.a) || self.s.num > 1`:                        "",
		`has(self.a) || has(self.b) ? has(self.s) : true ;; self.s.num > 1`:                                        "self.s",
		`has(self.a) || has(self.b) ? true : has(self.s) ;; has(self.a) || has(self.b) || self.s.num > 1`:          "",
		`has(self.a) || has(self.b) ? true : has(self.s) ;; has(self.a) || self.s.num > 1`:                         "self.s",
		`self.kind1 == 'A' ? has(self.a) : true ;; !has(self.l) || self.l.all(i, self.kind1 != 'A' || self.a > 1)`: "",
		`has(self.a) || has(oldSelf.a) ;; self.a > 1`:                                                              "self.a",
	} {
		s := structural(properties)
		for text := range strings.SplitSeq(rule, ";;") {
			s.XValidations = append(s.XValidations, api.ValidationRule{Rule: strings.TrimSpace(text)})
		}
		report := rules.Check(s, rules.CheckOptions{Unguarded: true})
		checked := report.Rules()
		last := checked[len(checked)-1]
		if last.Err != nil {
			t.Errorf("%s: %v", rule, last.Err)
			continue
		}
		if got := strings.Join(last.Unguarded, " "); got != want {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
		if !slices.Contains([]int{1, 2}, len(checked)) {
			t.Errorf("%s: %d rules", rule, len(checked))
		}
	}
}

// TestUnguardedBounded checks that rules which are long, many or full of conditions are
// searched in bounded time.
func TestUnguardedBounded(t *testing.T) {
	const text = `{type: object, properties: {a: {type: integer}, b: {type: integer}}}`
	check := func(sources ...string) []*schema.CheckedRule {
		s := structural(text)
		for _, source := range sources {
			s.XValidations = append(s.XValidations, api.ValidationRule{Rule: source})
		}
		return rules.Check(s, rules.CheckOptions{Unguarded: true}).Rules()
	}
	if got := check(strings.Repeat("self.a > 1 && ", 2000) + "true")[0].Unguarded; got != nil {
		t.Errorf("a long rule: got %v", got)
	}
	const wide = "(has(self.a) == has(self.b) ? has(self.a) : !has(self.b) || self.a > 1) && "
	start := time.Now()
	var many []string
	for range 50 {
		many = append(many, strings.Repeat(wide, 12)+"true")
	}
	check(many...)
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
