package impact_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// TestRulesAboutAddedFields adds a rule together with fields: no stored object has the fields, so
// that only their absence, or their defaults, and all values of the other fields matter.
func TestRulesAboutAddedFields(t *testing.T) {
	t.Parallel()
	const (
		safe    = "v1: spec.x rule-added safe"
		invalid = "v1: spec.x rule-added invalid,clients-break"
	)
	x := func(rule, props, more string) string {
		s := "{type: object, properties: {b: {type: string}, c: {type: string}" + props + "}" + more
		if rule != "" {
			s += fmt.Sprintf(", x-kubernetes-validations: [{rule: %q}]", rule)
		}
		return s + "}"
	}
	const str = ", a: {type: string}"
	for name, tt := range map[string]struct {
		rule string
		// before is what the old schema has besides, after what the new one has.
		before, beforeMore, after, afterMore string
		want                                 string
	}{
		"excludes another field":       {rule: "!has(self.b) || !has(self.a)", after: str, want: safe},
		"excludes a value":             {rule: "self.b != 'generic' || !has(self.a)", after: str, want: safe},
		"guarded":                      {rule: "has(self.a) ? self.a == self.b : true", after: str, want: safe},
		"optional":                     {rule: "self.?a.orValue('x') == 'x'", after: str, want: safe},
		"two fields":                   {rule: "[has(self.a), has(self.d)].filter(x, x).size() <= 1", after: str + ", d: {type: integer}", want: safe},
		"name that is escaped":         {rule: "!has(self.a__dash__b) || !has(self.b)", after: ", a-b: {type: string}", want: safe},
		"default":                      {rule: "self.a == 'Legacy' || !has(self.b)", after: ", a: {type: string, default: Legacy}", want: safe},
		"default in a default":         {rule: "self.a.d == 'x'", after: ", a: {type: object, default: {}, properties: {d: {type: string, default: x}}}", want: safe},
		"default of the object":        {rule: "!has(self.a) || has(self.b)", after: str, afterMore: ", default: {a: v, b: w}", want: safe},
		"unspecified default":          {rule: "!has(self.a)", after: str, afterMore: ", default: {b: w}", beforeMore: ", default: {b: w}", want: safe},
		"needs the field":              {rule: "has(self.a)", after: str, want: invalid},
		"needs the field or another":   {rule: "has(self.a) || has(self.b)", after: str, want: invalid},
		"exactly one":                  {rule: "[has(self.a), has(self.b)].exists_one(x, x)", after: str, want: invalid},
		"reads others besides":         {rule: "!has(self.a) && self.b != 'y'", after: str, want: invalid},
		"about other fields":           {rule: "!has(self.b) || has(self.c)", after: str, want: invalid},
		"reads the field":              {rule: "self.a == 'x'", after: str, want: invalid},
		"other default":                {rule: "self.a == 'Legacy' || !has(self.b)", after: ", a: {type: string, default: Modern}", want: invalid},
		"violated by a default around": {rule: "!has(self.a)", after: str, afterMore: ", default: {a: v}", want: invalid},
		"unknown fields are preserved": {rule: "!has(self.a)", beforeMore: ", x-kubernetes-preserve-unknown-fields: true", after: str, want: invalid},
		"not an added field":           {rule: "!has(self.a)", before: str, after: str, want: invalid},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				got := changes(t, crdOf(t, x("", tt.before, tt.beforeMore)), crdOf(t, x(tt.rule, tt.after, tt.afterMore)), sem)
				if !slices.Contains(got, tt.want) {
					t.Errorf("%s: got\n%s\nwant\n%s", sem, strings.Join(got, "\n"), tt.want)
				}
			}
		})
	}
	old, new := crdOf(t, x("", "", "")), crdOf(t, x("!has(self.a)", str, ""))
	old.Spec.PreserveUnknownFields = true
	if got := changes(t, old, new, schema.Kubernetes); !slices.Contains(got, invalid) {
		t.Errorf("the CRD preserved unknown fields: got %q", got)
	}
}

// TestRulesAboutAddedFieldsOfVersions has another version, from which objects with the field may
// come.
func TestRulesAboutAddedFieldsOfVersions(t *testing.T) {
	t.Parallel()
	const (
		without = "{type: object, properties: {b: {type: string}}}"
		with    = "{type: object, properties: {b: {type: string}, a: {type: string}}}"
		x       = "{type: object, properties: {b: {type: string}, a: {type: string}}, default: {a: x}}"
		dflt    = "{type: object, properties: {b: {type: string}, a: {type: string, default: x}}}"
		free    = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
		rule    = ", x-kubernetes-validations: [{rule: \"!has(self.a)\"}]}"
	)
	crdWith := func(v1, v2, conversion string) string {
		version := func(name, x string, storage bool) string {
			return fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: %s}}}}}}", name, storage, x)
		}
		versions := version("v1", v1, true)
		if v2 != "" {
			versions += ", " + version("v2", v2, false)
		}
		return "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {" +
			"group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, " + conversion + "versions: [" + versions + "]}}"
	}
	const webhook = "conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: \"https://example.com\"}}}, "
	for name, tt := range map[string]struct {
		old, new, conversion string
		safe                 bool
	}{
		"no other version":                  {"", "", "", true},
		"both lack it":                      {without, without, "", true},
		"both get it":                       {without, with, "", true},
		"removed":                           {without, "", "", true},
		"new version":                       {"", with, "", true},
		"new version, converted":            {"", with, webhook, true},
		"the other had it":                  {with, with, "", false},
		"the other preserved it":            {free, without, "", false},
		"the other has a default":           {without, dflt, "", false},
		"new version with a default":        {"", dflt, "", false},
		"new version with a default around": {"", x, "", false},
		"converted":                         {without, without, webhook, false},
	} {
		t.Run(name, func(t *testing.T) {
			old := parse(t, crdWith(without, tt.old, tt.conversion))
			new := parse(t, crdWith(strings.TrimSuffix(with, "}")+rule, tt.new, tt.conversion))
			want := "v1: spec.x rule-added invalid,clients-break"
			if tt.safe {
				want = "v1: spec.x rule-added safe"
			}
			if got := changes(t, old, new, schema.Kubernetes); !slices.Contains(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
			}
		})
	}
}

// TestAddedFieldsUnderRules adds fields and rules about them, and tries all objects of a small
// domain: if one of them becomes invalid, a change says so. Many verdicts must be safe.
func TestAddedFieldsUnderRules(t *testing.T) {
	t.Parallel()
	var objects []string
	for _, a := range []string{"", `"a":"x",`, `"a":"y",`} {
		for _, b := range []string{"", `"b":1,`, `"b":7,`} {
			for _, c := range []string{"", `"c":{},`, `"c":{"d":"x"},`, `"c":{"d":"y"},`} {
				objects = append(objects, "{"+strings.TrimSuffix(a+b+c, ",")+"}")
			}
		}
	}
	props := map[string][]string{
		"a": {"", "a: {type: string}", "a: {type: string, default: x}", "a: {type: string, default: y}"},
		"b": {"", "b: {type: integer}", "b: {type: integer, default: 7}"},
		"c": {"", "c: {type: object, properties: {d: {type: string}}}", "c: {type: object, default: {}, properties: {d: {type: string, default: x}}}"},
	}
	schemaOf := func(rule string, fields ...string) string {
		fields = slices.DeleteFunc(slices.Clone(fields), func(s string) bool { return s == "" })
		s := "{type: object, properties: {e: {type: string}, " + strings.Join(fields, ", ") + "}"
		if rule != "" {
			s += fmt.Sprintf(", x-kubernetes-validations: [{rule: %q}]", rule)
		}
		return s + "}"
	}
	safe, invalid := 0, 0
	for _, rule := range []string{
		"!has(self.a) || self.a == 'x'",
		"!has(self.a) || has(self.b)",
		"has(self.a) != has(self.b)",
		"!(has(self.a) && has(self.b) && has(self.c))",
		"self.?a.orValue('x') == 'x' || self.?b.orValue(0) < 5",
		"has(self.c) && has(self.c.d) ? self.c.d == 'x' : !has(self.b)",
		"[has(self.a), has(self.b), has(self.c)].filter(x, x).size() <= 1",
	} {
		for a := 1; a < len(props["a"]); a++ {
			for b := 1; b < len(props["b"]); b++ {
				for c := 1; c < len(props["c"]); c++ {
					after := crdOf(t, schemaOf(rule, props["a"][a], props["b"][b], props["c"][c]))
					for had := range 8 {
						of := func(name string, i, bit int) string {
							if had&bit == 0 {
								return ""
							}
							return props[name][i]
						}
						before := crdOf(t, schemaOf("", of("a", a, 1), of("b", b, 2), of("c", c, 4)))
						cmp, err := impact.Compare(t.Context(), before, after, impact.Options{Semantics: schema.Kubernetes, Rules: cel.Checker{}})
						if err != nil {
							t.Fatal(err)
						}
						for i := range cmp.Changes {
							if cmp.Changes[i].Kind == "rule-added" && cmp.Changes[i].Class() == impact.Safe {
								safe++
							}
						}
						for _, x := range objects {
							object, err := json.Marshal(map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "n", "namespace": "ns"}, "spec": map[string]any{"x": json.RawMessage(x)}})
							if err != nil {
								t.Fatal(err)
							}
							outcome, err := cmp.Try(t.Context(), object)
							if err != nil {
								t.Fatal(err)
							}
							for _, o := range outcome.Of(impact.Invalid) {
								invalid++
								if len(cmp.Announcing(o)) == 0 {
									t.Fatalf("rule %s, had %d, %d %d %d: %s becomes invalid: %s", rule, had, a, b, c, x, o)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d safe rules, %d invalid objects", safe, invalid)
	if safe < 100 || invalid < 100 {
		t.Errorf("%d safe rules, %d invalid objects: the test proves nothing", safe, invalid)
	}
}
