package rules_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

func TestCheck(t *testing.T) {
	report := rules.Check(structural(`
type: object
properties:
  cheap: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}
  bounded:
    type: array
    maxItems: 10
    items: {type: object, maxProperties: 5, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}
  open:
    type: array
    items:
      type: object
      additionalProperties: {type: string, x-kubernetes-validations: [{rule: "self.matches('a')", messageExpression: "self + 'x'"}]}
  old:
    type: array
    items: {type: integer, x-kubernetes-validations: [{rule: self > oldSelf}, {rule: self > 1, optionalOldSelf: true}]}
  broken: {type: integer, x-kubernetes-validations: [{rule: self.x}, {rule: "true", messageExpression: "1"}]}
  opaque:
    x-kubernetes-preserve-unknown-fields: true
    properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}
`), rules.CheckOptions{})
	byPath := map[string]schema.SchemaRules{}
	for _, s := range report.Schemas {
		byPath[s.Path.String()] = s
	}
	cost := func(path string) schema.RuleCost { return byPath[path].Rules[0].Cost }

	if c := cost(".properties[cheap]"); c.Cardinality != 1 || c.Total != c.Call || c.Exceeded() || len(c.Unbounded) > 0 {
		t.Errorf("cheap: %+v", c)
	}
	if c := cost(".properties[bounded].items.additionalProperties"); c.Cardinality != 50 || c.Total != 50*c.Call || c.Exceeded() {
		t.Errorf("bounded: %+v", c)
	}
	const open = ".properties[open].items.additionalProperties"
	if c := cost(open); c.Cardinality != c.MaxCardinality || !c.Exceeded() || len(c.Unbounded) != 2 ||
		c.Unbounded[0].String() != ".properties[open]" || c.Unbounded[1].String() != ".properties[open].items" {
		t.Errorf("open: %+v", c)
	}
	if c := byPath[open].Rules[0].MessageCost; c.Call == 0 || c.Cardinality != 1 {
		t.Errorf("open message: %+v", c)
	}
	if s := byPath[".properties[old].items"]; s.Uncorrelatable == nil || s.Uncorrelatable.String() != ".properties[old]" || !s.Rules[0].UsesOldSelf {
		t.Errorf("old: %+v", s)
	}
	if s := byPath[".properties[broken]"]; s.Rules[0].Err == nil || s.Rules[1].MessageErr == nil {
		t.Errorf("broken: %+v", s)
	}
	if s := byPath[".properties[opaque].properties[a]"]; !s.Unreachable || s.Rules[0].Err != nil {
		t.Errorf("opaque: %+v", s)
	}
	if !report.Exceeded() {
		t.Errorf("total: %d", report.TotalCost)
	}
	errs := append(report.FieldErrors(field.NewPath("schema"), false), report.TotalErrors(field.NewPath("schema"))...)
	for _, want := range []string{
		"schema.properties[open].items.additionalProperties.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x",
		"schema.properties[open].items.additionalProperties.x-kubernetes-validations[0].rule: Forbidden: contributed to estimated rule cost total",
		"schema.properties[old].items.x-kubernetes-validations[0].rule: Invalid value: \"self > oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[old]",
		"schema.properties[old].items.x-kubernetes-validations[1].optionalOldSelf: Invalid value: true: may not be set",
		"schema.properties[broken].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.x\"",
		"schema.properties[broken].x-kubernetes-validations[1].messageExpression: Invalid value",
		"schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget",
	} {
		if !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("no %s in\n%v", want, errs)
		}
	}
	for _, err := range report.FieldErrors(nil, true) {
		if err.Type == field.ErrorTypeForbidden {
			t.Errorf("costs are forgiven, but there is %v", err)
		}
	}
}

// TestRemedies applies each remedy: with it, the rule must pass, and with a bound
// that is one higher it must not.
func TestRemedies(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"a list around the rule", `{type: object, properties: {l: {type: array, items: {type: string, maxLength: 100, x-kubernetes-validations: [{rule: "self.matches('^a+$')"}]}}}}`,
			".properties[l].maxItems: 238095"},
		{"a map around the rule", `{type: object, properties: {m: {type: object, additionalProperties: {type: string, maxLength: 100, x-kubernetes-validations: [{rule: "self.matches('^a+$')"}]}}}}`,
			".properties[m].maxProperties: 238095"},
		{"a list within", `{type: object, properties: {l: {type: array, items: {type: string, maxLength: 64}}}, x-kubernetes-validations: [{rule: "self.l.all(x, self.l.exists_one(y, x == y))"}]}`,
			".properties[l].maxItems: 577"},
		{"a string within", `{type: object, properties: {l: {type: array, maxItems: 1000, items: {type: string}}}, x-kubernetes-validations: [{rule: "self.l.all(x, x.contains('abc'))"}]}`,
			".properties[l].items.maxLength: 24987"},
		{"several at once", `{type: object, properties: {l: {type: array, items: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self.split('').all(c, self.contains(c))"}]}}}}}`,
			".properties[l].maxItems: 27 and .properties[l].items.maxItems: 27 and .properties[l].items.items.maxLength: 27"},
		{"a bound that is too high", `{type: object, properties: {l: {type: array, maxItems: 1000000, items: {type: string, maxLength: 1000, x-kubernetes-validations: [{rule: "self.matches('^a+$')"}]}}}}`,
			""},
		{"int or string", `{type: object, properties: {l: {type: array, maxItems: 1000, items: {x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "string(self).matches('^a+$')"}]}}}}`,
			""},
		{"a field of an embedded resource", `{type: object, properties: {l: {type: array, maxItems: 1000, items: {type: string, maxLength: 20}}, r: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object, properties: {s: {type: string}}}}}}, x-kubernetes-validations: [{rule: "self.l.all(x, self.r.spec.s.contains(x))"}]}`,
			".properties[r].properties[spec].properties[s].maxLength: 3120"},
		{"dates and enums are bounded", `{type: object, properties: {l: {type: array, items: {type: string, format: date}}, e: {type: string, enum: [a, b]}}, x-kubernetes-validations: [{rule: "self.l.all(x, self.l.exists(y, x == y) && self.e.contains('a'))"}]}`,
			".properties[l].maxItems: 1117"},
		{"a resource's name", `{type: object, properties: {l: {type: array, items: {type: string, maxLength: 20}}}, x-kubernetes-validations: [{rule: "self.l.all(x, self.metadata.name.contains(x))"}]}`,
			""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := structural(tt.schema)
			r := only(t, s)
			if !r.Cost.Exceeded() {
				t.Fatalf("cost %+v", r.Cost)
			}
			remedies := r.Cost.Remedies
			if len(remedies) == 0 {
				t.Fatal("no remedy")
			}
			if tt.want != "" && remedies[0].String() != tt.want {
				t.Errorf("got %v, want %s", remedies, tt.want)
			}
			for _, remedy := range remedies {
				t.Logf("%v", remedy)
				for more, passes := range map[int64]bool{0: true, 1: false} {
					changed := s.DeepCopy()
					for _, b := range remedy {
						setBound(t, changed, b, b.Max+more)
					}
					if r := only(t, changed); r.Cost.Exceeded() == passes {
						t.Errorf("with %v, and %d more: cost %+v", remedy, more, r.Cost)
					}
				}
			}
		})
	}
}

// TestCostOfNames checks that names count with the length that Kubernetes allows, or that of the schema if
// it is shorter.
func TestCostOfNames(t *testing.T) {
	for _, name := range []string{"name", "generateName"} {
		cost := func(bound string) uint64 {
			return only(t, structural(`{type: object, properties: {metadata: {type: object, properties: {`+name+`: {type: string`+bound+`}}}},
				x-kubernetes-validations: [{rule: "self.metadata.`+name+`.contains('a')"}]}`)).Cost.Total
		}
		usual := cost("")
		if short := cost(", maxLength: 5"); short >= usual {
			t.Errorf("%s: costs %d if it is short, else %d", name, short, usual)
		}
		if long := cost(", maxLength: 300"); long != usual {
			t.Errorf("%s: costs %d if it is too long, else %d", name, long, usual)
		}
	}
}

func only(t *testing.T, s *schema.Structural) *schema.CheckedRule {
	t.Helper()
	list := rules.Check(s, rules.CheckOptions{Remedies: true}).Rules()
	if len(list) != 1 || list[0].Err != nil {
		t.Fatalf("got %+v", list)
	}
	return list[0]
}

// setBound sets a bound in a schema.
func setBound(t *testing.T, s *schema.Structural, b schema.RuleBound, n int64) {
	t.Helper()
	for _, step := range b.Path {
		switch step.Keyword {
		case "items":
			s = s.Items
		case "additionalProperties":
			s = s.AdditionalProperties.Structural
		default:
			s = s.Properties[step.Name]
		}
	}
	if s.ValueValidation == nil {
		s.ValueValidation = &schema.ValueValidation{}
	}
	switch b.Keyword {
	case "maxItems":
		s.ValueValidation.MaxItems = &n
	case "maxProperties":
		s.ValueValidation.MaxProperties = &n
	case "maxLength":
		s.ValueValidation.MaxLength = &n
	default:
		t.Fatalf("unknown keyword %s", b.Keyword)
	}
}

// TestRemediesHold tries remedies on schemas with random bounds.
func TestRemediesHold(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	bound := func(keyword string) string {
		if r.IntN(3) == 0 {
			return ""
		}
		return ", " + keyword + ": " + []string{"3", "50", "1000", "100000"}[r.IntN(4)]
	}
	conditions := []string{
		"self.a.all(x, x.matches('^a'))", "self.a.all(x, self.b.all(k, k.contains(x)))", "self.c.size() > 3 && self.a.exists(x, x == self.c)",
		"self.b.all(k, self.b[k].split(',').all(p, p in self.a))", "self.a == self.a", "self.c.find('x+') == ''",
	}
	helped := 0
	for range 60 {
		text := `{type: object, properties: {l: {type: array` + bound("maxItems") + `, items: {type: object, properties: {
			a: {type: array` + bound("maxItems") + `, items: {type: string` + bound("maxLength") + `}},
			b: {type: object` + bound("maxProperties") + `, additionalProperties: {type: string` + bound("maxLength") + `}},
			c: {type: string` + bound("maxLength") + `}}, x-kubernetes-validations: [{rule: "` + conditions[r.IntN(len(conditions))] + `"}]}}}}`
		s := structural(text)
		rule := only(t, s)
		for _, remedy := range rule.Cost.Remedies {
			changed := s.DeepCopy()
			for _, b := range remedy {
				setBound(t, changed, b, b.Max)
			}
			if after := only(t, changed); after.Cost.Exceeded() {
				t.Errorf("%s\n%v does not help: %+v", text, remedy, after.Cost)
			}
			helped++
		}
	}
	if helped < 20 {
		t.Errorf("only %d remedies were tried", helped)
	}
}
