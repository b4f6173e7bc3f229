package impact_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"

	"sigs.k8s.io/yaml"
)

// crdOf returns a CRD with x below spec.
func crdOf(t *testing.T, x string) *api.CustomResourceDefinition {
	t.Helper()
	return parse(t, fmt.Sprintf(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {
group: example.com, scope: Namespaced, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema:
{type: object, properties: {spec: {type: object, properties: {x: %s}}}}}}]}}`, x))
}

func parse(t *testing.T, text string) *api.CustomResourceDefinition {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := codec.Decode(json)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changes returns the result of Compare, one line per change.
func changes(t *testing.T, old, new *api.CustomResourceDefinition, sem schema.Semantics) (lines []string) {
	t.Helper()
	c, err := impact.Compare(t.Context(), old, new, impact.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Changes {
		ch := &c.Changes[i]
		var ids []string
		for _, class := range ch.Classes() {
			ids = append(ids, class.ID())
		}
		lines = append(lines, strings.TrimSpace(ch.Place()+" "+ch.Kind+" "+strings.Join(ids, ",")))
	}
	return lines
}

func TestVerdicts(t *testing.T) {
	const sx = "v1: spec.x "
	for name, tt := range map[string]struct {
		old, new string
		want     []string
		// kubernetes is the result under that semantics, if it differs.
		kubernetes []string
	}{
		"nothing":     {old: `{type: string}`, new: `{type: string}`},
		"description": {old: `{type: string}`, new: `{type: string, description: d}`, want: []string{sx + "documentation safe"}},

		"maximum lower":               {old: `{type: integer, maximum: 5}`, new: `{type: integer, maximum: 4}`, want: []string{sx + "maximum invalid,clients-break"}},
		"maximum higher":              {old: `{type: integer, maximum: 5}`, new: `{type: integer, maximum: 6}`, want: []string{sx + "maximum safe"}},
		"maximum excluded":            {old: `{type: integer, maximum: 5}`, new: `{type: integer, maximum: 5, exclusiveMaximum: true}`, want: []string{sx + "maximum invalid,clients-break"}},
		"maximum higher and excluded": {old: `{type: number, maximum: 5}`, new: `{type: number, maximum: 6, exclusiveMaximum: true}`, want: []string{sx + "maximum safe"}},
		"maximum with the same integer part": {old: `{type: number, maximum: 5.2}`, new: `{type: number, maximum: 5.7, exclusiveMaximum: true}`,
			want: []string{sx + "maximum invalid,clients-break"}},
		"maximum that no integer passes":        {old: `{type: integer, maximum: 5}`, new: `{type: integer, maximum: 1e30}`, want: []string{sx + "maximum invalid,clients-break"}},
		"minimum removed":                       {old: `{type: integer, minimum: 5}`, new: `{type: integer}`, want: []string{sx + "minimum safe"}},
		"minimum lower":                         {old: `{type: integer, minimum: -1}`, new: `{type: integer, minimum: -2}`, want: []string{sx + "minimum safe"}},
		"minimum higher":                        {old: `{type: integer, minimum: -2}`, new: `{type: integer, minimum: -1}`, want: []string{sx + "minimum invalid,clients-break"}},
		"multipleOf divides":                    {old: `{type: integer, multipleOf: 6}`, new: `{type: integer, multipleOf: 3}`, want: []string{sx + "multipleOf safe"}},
		"multipleOf does not divide":            {old: `{type: integer, multipleOf: 3}`, new: `{type: integer, multipleOf: 6}`, want: []string{sx + "multipleOf invalid,clients-break"}},
		"minLength of nothing":                  {old: `{type: string}`, new: `{type: string, minLength: 0}`, want: []string{sx + "minLength safe"}},
		"minLength":                             {old: `{type: string}`, new: `{type: string, minLength: 1}`, want: []string{sx + "minLength invalid,clients-break"}},
		"pattern changed":                       {old: `{type: string, pattern: a}`, new: `{type: string, pattern: b}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern without its groups":            {old: `{type: string, pattern: '^http(s)?:\/\/.+$'}`, new: `{type: string, pattern: '^https?://.+$'}`, want: []string{sx + "pattern safe"}},
		"pattern with a named group":            {old: `{type: string, pattern: '^(a)(b|c)$'}`, new: `{type: string, pattern: '^a(?P<last>[bc])$'}`, want: []string{sx + "pattern safe"}},
		"pattern with other repetitions":        {old: `{type: string, pattern: '^a{0,1}b{1,}$'}`, new: `{type: string, pattern: '^a?b+$'}`, want: []string{sx + "pattern safe"}},
		"pattern spelled differently in allOf":  {old: `{type: string, allOf: [{pattern: '^(a)?$'}]}`, new: `{type: string, pattern: '^a?$'}`, want: []string{sx + "allOf safe", sx + "pattern safe"}},
		"pattern without an anchor":             {old: `{type: string, pattern: '^https?$'}`, new: `{type: string, pattern: '^https?'}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern with a repeated group":         {old: `{type: string, pattern: '^(ab)+$'}`, new: `{type: string, pattern: '^ab+$'}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern with other flags":              {old: `{type: string, pattern: '^(?i)a(b)$'}`, new: `{type: string, pattern: '^ab$'}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern with flags in a group":         {old: `{type: string, pattern: '^((?s).)$'}`, new: `{type: string, pattern: '^.$'}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern with an anchored alternative":  {old: `{type: string, pattern: '^(a|b)$'}`, new: `{type: string, pattern: '^a|b$'}`, want: []string{sx + "pattern invalid,clients-break"}},
		"pattern moved into allOf":              {old: `{type: string, pattern: a}`, new: `{type: string, allOf: [{pattern: a}]}`, want: []string{sx + "allOf safe", sx + "pattern safe"}},
		"pattern moved out of allOf":            {old: `{type: string, allOf: [{pattern: a}]}`, new: `{type: string, pattern: a}`, want: []string{sx + "allOf safe", sx + "pattern safe"}},
		"condition on another type":             {old: `{type: string}`, new: `{type: string, maximum: 5}`, want: []string{sx + "maximum safe"}},
		"maxLength that the enum meets":         {old: `{type: string, enum: [a, bc]}`, new: `{type: string, enum: [a, bc], maxLength: 2}`, want: []string{sx + "maxLength safe"}},
		"maxLength that the enum does not meet": {old: `{type: string, enum: [a, bc]}`, new: `{type: string, enum: [a, bc], maxLength: 1}`, want: []string{sx + "maxLength invalid,clients-break"}},
		"minLength that the enum meets":         {old: `{type: string, enum: [a, bc]}`, new: `{type: string, enum: [a, bc], minLength: 1}`, want: []string{sx + "minLength safe"}},
		"minimum of integers, exclusive or not": {old: `{type: integer, minimum: 0, exclusiveMinimum: true}`, new: `{type: integer, minimum: 1}`, want: []string{sx + "minimum safe"}},
		"minimum of numbers, exclusive or not":  {old: `{type: number, minimum: 0, exclusiveMinimum: true}`, new: `{type: number, minimum: 1}`, want: []string{sx + "minimum invalid,clients-break"}},
		"maximum of integers, exclusive or not": {old: `{type: integer, maximum: 5}`, new: `{type: integer, maximum: 6, exclusiveMaximum: true}`, want: []string{sx + "maximum safe"}},
		"rule that always holds":                {old: `{type: string}`, new: `{type: string, x-kubernetes-validations: [{rule: "true"}]}`, want: []string{sx + "rule-added safe"}},
		"enum value added":                      {old: `{type: string, enum: [a]}`, new: `{type: string, enum: [b, a]}`, want: []string{sx + "enum clients-break"}},
		"enum value replaced":                   {old: `{type: string, enum: [a, b]}`, new: `{type: string, enum: [a, c]}`, want: []string{sx + "enum invalid,clients-break"}},
		"enum turned round":                     {old: `{type: string, enum: [a, b]}`, new: `{type: string, enum: [b, a]}`, want: []string{sx + "enum safe"}},
		"enum of no enum":                       {old: `{type: string}`, new: `{type: string, enum: [b, a]}`, want: []string{sx + "enum invalid,clients-break"}},
		"enum removed":                          {old: `{type: string, enum: [a]}`, new: `{type: string}`, want: []string{sx + "enum clients-break"}},
		"enum value removed":                    {old: `{type: string, enum: [a, b]}`, new: `{type: string, enum: [b]}`, want: []string{sx + "enum invalid,clients-break"}},
		"format removed":                        {old: `{type: string, format: date}`, new: `{type: string}`, want: []string{sx + "format clients-break"}},
		"format wider":                          {old: `{type: integer, format: int32}`, new: `{type: integer, format: int64}`, want: []string{sx + "format clients-break"}},
		"format that restricts nothing":         {old: `{type: string, format: password}`, new: `{type: string}`, want: []string{sx + "format safe"}},
		"format":                                {old: `{type: string}`, new: `{type: string, format: date}`, want: []string{sx + "format invalid,clients-break"}},
		"format that nobody knows":              {old: `{type: string}`, new: `{type: string, format: quantity}`, want: []string{sx + "format safe"}},

		"type":          {old: `{type: string}`, new: `{type: integer}`, want: []string{sx + "type invalid,clients-break"}},
		"type wider":    {old: `{type: integer}`, new: `{type: number}`, want: []string{sx + "type clients-break"}},
		"int or string": {old: `{type: integer}`, new: `{x-kubernetes-int-or-string: true}`, want: []string{sx + "type clients-break"}},
		"type under a rule": {old: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "self.a / 2 == 1"}]}`,
			new:  `{type: object, properties: {a: {type: number}}, x-kubernetes-validations: [{rule: "self.a / 2 == 1"}]}`,
			want: []string{"v1: spec.x.a type invalid,clients-break"}},
		"object to string": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: string}`, want: []string{sx + "type loses-data,invalid,clients-break"}},

		"null no longer":             {old: `{type: string, nullable: true}`, new: `{type: string}`, want: []string{sx + "nullable loses-data,clients-break"}},
		"null now":                   {old: `{type: string}`, new: `{type: string, nullable: true}`, want: []string{sx + "nullable clients-break"}},
		"null now, beside a default": {old: `{type: string, default: a}`, new: `{type: string, default: a, nullable: true}`, want: []string{sx + "nullable clients-break"}},
		"null now, not in the enum":  {old: `{type: string, enum: [a]}`, new: `{type: string, enum: [a], nullable: true}`, want: []string{sx + "nullable clients-break"}},
		"null now, under a logical operator": {old: `{type: object, properties: {a: {type: string}}, not: {required: [a]}}`, new: `{type: object, properties: {a: {type: string, nullable: true}}, not: {required: [a]}}`,
			want: []string{"v1: spec.x.a nullable clients-break"}},
		"null now, under a rule": {old: `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a)"}]}`,
			new: `{type: object, properties: {a: {type: string, nullable: true}}, x-kubernetes-validations: [{rule: "!has(self.a)"}]}`, want: []string{"v1: spec.x.a nullable clients-break"}},
		"null items now": {old: `{type: array, items: {type: string, enum: [a]}}`, new: `{type: array, items: {type: string, enum: [a], nullable: true}}`, want: []string{"v1: spec.x[] nullable clients-break"}},
		"null defaulted": {old: `{type: string, nullable: true, default: a}`, new: `{type: string, default: a}`, want: []string{sx + "nullable defaulted"}},
		"null items": {old: `{type: array, items: {type: string, nullable: true}}`, new: `{type: array, items: {type: string}}`,
			want: []string{"v1: spec.x[] nullable invalid,clients-break"}},

		"default":         {old: `{type: string}`, new: `{type: string, default: a}`, want: []string{sx + "default-added defaulted"}},
		"default changed": {old: `{type: string, default: b}`, new: `{type: string, default: a}`, want: []string{sx + "default-changed defaulted,clients-break"}},
		"default removed": {old: `{type: string, default: b}`, new: `{type: string}`, want: []string{sx + "default-removed clients-break"}},
		"default of what is required": {old: `{type: object, required: [a], properties: {a: {type: string, default: b}}}`, new: `{type: object, required: [a], properties: {a: {type: string}}}`,
			want: []string{"v1: spec.x.a default-removed invalid,clients-break"}},
		"default under maxProperties": {old: `{type: object, maxProperties: 1, properties: {a: {type: string}}}`, new: `{type: object, maxProperties: 1, properties: {a: {type: string, default: b}}}`,
			want: []string{"v1: spec.x.a default-added invalid,defaulted"}},
		"default that a rule does not see": {old: `{type: object, properties: {a: {type: string}, b: {type: string}}, x-kubernetes-validations: [{rule: "has(self.b)"}]}`,
			new:  `{type: object, properties: {a: {type: string, default: b}, b: {type: string}}, x-kubernetes-validations: [{rule: "has(self.b)"}]}`,
			want: []string{"v1: spec.x.a default-added defaulted"}},

		"default that a transition rule reads": {old: `{type: object, properties: {a: {type: boolean}}, x-kubernetes-validations: [{rule: "!has(oldSelf.a) || !oldSelf.a || self.a"}]}`,
			new:  `{type: object, properties: {a: {type: boolean, default: false}}, x-kubernetes-validations: [{rule: "!has(oldSelf.a) || !oldSelf.a || self.a"}]}`,
			want: []string{"v1: spec.x.a default-added defaulted,clients-break"}},
		"default that a rule with an optional oldSelf reads": {old: `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || !has(self.a)", optionalOldSelf: true}]}`,
			new:  `{type: object, properties: {a: {type: string, default: b}}, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || !has(self.a)", optionalOldSelf: true}]}`,
			want: []string{"v1: spec.x.a default-added invalid,defaulted"}},
		"default beside a field called oldSelf": {old: `{type: object, properties: {a: {type: string}, oldSelf: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a) || has(self.oldSelf)"}]}`,
			new:  `{type: object, properties: {a: {type: string, default: b}, oldSelf: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a) || has(self.oldSelf)"}]}`,
			want: []string{"v1: spec.x.a default-added invalid,defaulted"}},
		"default that satisfies a rule": {old: `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a) || self.a in ['b', 'c']"}]}`,
			new:  `{type: object, properties: {a: {type: string, default: b}}, x-kubernetes-validations: [{rule: "!has(self.a) || self.a in ['b', 'c']"}]}`,
			want: []string{"v1: spec.x.a default-added defaulted"}},
		"default that satisfies a rule only with other fields": {old: `{type: object, properties: {a: {type: string}, z: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a) || has(self.z)"}]}`,
			new:  `{type: object, properties: {a: {type: string, default: b}, z: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a) || has(self.z)"}]}`,
			want: []string{"v1: spec.x.a default-added invalid,defaulted"}},
		"default changed that still satisfies a rule": {old: `{type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			new:  `{type: object, properties: {a: {type: integer, default: 2}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			want: []string{"v1: spec.x.a default-changed defaulted,clients-break"}},
		"default changed that violates a rule": {old: `{type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			new:  `{type: object, properties: {a: {type: integer, default: 7}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			want: []string{"v1: spec.x.a default-changed invalid,defaulted,clients-break"}},
		"default removed that a rule does not need": {old: `{type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: "!has(self.a) || self.a < 5"}]}`,
			new:  `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "!has(self.a) || self.a < 5"}]}`,
			want: []string{"v1: spec.x.a default-removed clients-break"}},
		"default removed that a rule needs": {old: `{type: object, properties: {a: {type: integer, default: 1}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			new:  `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "self.a < 5"}]}`,
			want: []string{"v1: spec.x.a default-removed invalid,clients-break"}},
		"default changed, as many properties": {old: `{type: object, minProperties: 1, maxProperties: 1, properties: {a: {type: integer, default: 1}}}`,
			new: `{type: object, minProperties: 1, maxProperties: 1, properties: {a: {type: integer, default: 2}}}`, want: []string{"v1: spec.x.a default-changed defaulted,clients-break"}},
		"rule with other white space": {old: `{type: string, x-kubernetes-validations: [{rule: "self != 'a'&&self!='b c'"}]}`,
			new: `{type: string, x-kubernetes-validations: [{rule: "(self != \"a\") && self != 'b c' // comment"}]}`, want: []string{sx + "rule-spelling safe"}},
		"rule with other white space in a string": {old: `{type: string, x-kubernetes-validations: [{rule: "self != 'b c'"}]}`,
			new: `{type: string, x-kubernetes-validations: [{rule: "self != 'b  c'"}]}`, want: []string{sx + "rule-added invalid,clients-break", sx + "rule-removed safe"}},
		"rule with a macro spelled differently": {old: `{type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(x,x!='')"}]}`,
			new: `{type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self.all(x, x != '')"}]}`, want: []string{sx + "rule-spelling safe"}},
		"a map to anything": {old: `{type: object, additionalProperties: {type: string}}`, new: `{x-kubernetes-preserve-unknown-fields: true}`, want: []string{sx + "value-unspecified clients-break"}},
		"a map to an object with anything": {old: `{type: object, additionalProperties: {type: string}}`, new: `{type: object, x-kubernetes-preserve-unknown-fields: true}`,
			want: []string{"v1: spec.x.* value-unspecified clients-break"}},

		"required": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, required: [a], properties: {a: {type: string}}}`,
			want: []string{sx + "required-added invalid,clients-break"}},
		"required with a default": {old: `{type: object, properties: {a: {type: string, default: b}}}`, new: `{type: object, required: [a], properties: {a: {type: string, default: b}}}`,
			want: []string{sx + "required-added safe"}},
		"required no longer": {old: `{type: object, required: [a], properties: {a: {type: string}}}`, new: `{type: object, properties: {a: {type: string}}}`,
			want: []string{sx + "required-removed safe"}},

		"property added":   {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, properties: {a: {type: string}, b: {type: string}}}`, want: []string{"v1: spec.x.b property-added safe"}},
		"property removed": {old: `{type: object, properties: {a: {type: string}, b: {type: string}}}`, new: `{type: object, properties: {a: {type: string}}}`, want: []string{"v1: spec.x.b property-removed loses-data,clients-break"}},
		"property removed that is required": {old: `{type: object, properties: {a: {type: string}, b: {type: string}}}`, new: `{type: object, required: [b], properties: {a: {type: string}}}`,
			want: []string{"v1: spec.x.b property-removed loses-data,invalid,clients-break", sx + "required-added invalid,clients-break"}},
		"property added to what is preserved": {old: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}`,
			new:  `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}, b: {type: object, properties: {c: {type: string}}}}}`,
			want: []string{"v1: spec.x.b value-specified loses-data,invalid,clients-break"}},
		"fields to a map": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, additionalProperties: {type: string}}`,
			want: []string{"v1: spec.x.a property-removed clients-break", sx + "additional-properties safe"}},
		"a map to fields": {old: `{type: object, additionalProperties: {type: string}}`, new: `{type: object, properties: {a: {type: string}}}`,
			want: []string{sx + "additional-properties loses-data,clients-break", "v1: spec.x.a property-added safe"}},

		"preserving no longer": {old: `{type: object, x-kubernetes-preserve-unknown-fields: true}`, new: `{type: object}`, want: []string{sx + "pruning loses-data,clients-break"}},
		"preserving now":       {old: `{type: object}`, new: `{type: object, x-kubernetes-preserve-unknown-fields: true}`, want: []string{sx + "additional-properties safe"}},
		"preserving no longer above": {
			old: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: object, minProperties: 1}}}`, new: `{type: object, properties: {a: {type: object, minProperties: 1}}}`,
			// kep continues to preserve fields in a; kube-apiserver prunes again there.
			want: []string{sx + "pruning loses-data,invalid,clients-break"}, kubernetes: []string{sx + "pruning loses-data,clients-break"}},

		"anyOf branch added":   {old: `{type: string, anyOf: [{pattern: a}]}`, new: `{type: string, anyOf: [{pattern: b}, {pattern: a}]}`, want: []string{sx + "anyOf safe"}},
		"anyOf branch removed": {old: `{type: string, anyOf: [{pattern: a}, {pattern: b}]}`, new: `{type: string, anyOf: [{pattern: a}]}`, want: []string{sx + "anyOf invalid,clients-break"}},
		"anyOf branch looser":  {old: `{type: string, anyOf: [{maxLength: 3}]}`, new: `{type: string, anyOf: [{maxLength: 4}]}`, want: []string{sx + "anyOf safe"}},
		"oneOf branch added":   {old: `{type: string, oneOf: [{pattern: a}]}`, new: `{type: string, oneOf: [{pattern: a}, {pattern: b}]}`, want: []string{sx + "oneOf invalid,clients-break"}},
		"oneOf to anyOf":       {old: `{type: string, oneOf: [{pattern: a}, {pattern: b}]}`, new: `{type: string, anyOf: [{pattern: b}, {pattern: a}]}`, want: []string{sx + "anyOf safe", sx + "oneOf safe"}},
		"oneOf turned round":   {old: `{type: string, oneOf: [{pattern: a}, {pattern: b}]}`, new: `{type: string, oneOf: [{pattern: b}, {pattern: a}]}`, want: []string{sx + "oneOf safe"}},
		"not looser":           {old: `{type: integer, not: {minimum: 3}}`, new: `{type: integer, not: {minimum: 4}}`, want: []string{sx + "not safe"}},
		"not stricter":         {old: `{type: integer, not: {minimum: 4}}`, new: `{type: integer, not: {minimum: 3}}`, want: []string{sx + "not invalid,clients-break"}},
		"logical operator that loses what it asks for": {
			old:  `{type: object, anyOf: [{required: [a]}, {required: [b]}], properties: {a: {type: string}, b: {type: string}}}`,
			new:  `{type: object, anyOf: [{required: [a]}, {required: [b]}], properties: {a: {type: string}}}`,
			want: []string{"v1: spec.x.b property-removed loses-data,invalid,clients-break"}},

		"rule":            {old: `{type: string}`, new: `{type: string, x-kubernetes-validations: [{rule: "self != 'a'"}]}`, want: []string{sx + "rule-added invalid,clients-break"}},
		"rule removed":    {old: `{type: string, x-kubernetes-validations: [{rule: "self != 'a'"}]}`, new: `{type: string}`, want: []string{sx + "rule-removed safe"}},
		"rule reworded":   {old: `{type: string, x-kubernetes-validations: [{rule: "self != 'a'"}]}`, new: `{type: string, x-kubernetes-validations: [{rule: "self != 'a'", message: m}]}`, want: []string{sx + "rule-message safe"}},
		"transition rule": {old: `{type: string}`, new: `{type: string, x-kubernetes-validations: [{rule: "self == oldSelf"}]}`, want: []string{sx + "rule-added clients-break"}},

		"default inside of what a rule asks for": {old: `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}, x-kubernetes-validations: [{rule: "has(self.a)"}]}`,
			new:  `{type: object, properties: {a: {type: object, properties: {b: {type: string, default: d}}}}, x-kubernetes-validations: [{rule: "has(self.a)"}]}`,
			want: []string{"v1: spec.x.a.b default-added defaulted"}},
		"default inside of what a rule reads": {old: `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}, x-kubernetes-validations: [{rule: "has(self.a) && !has(self.a.b)"}]}`,
			new:  `{type: object, properties: {a: {type: object, properties: {b: {type: string, default: d}}}}, x-kubernetes-validations: [{rule: "has(self.a) && !has(self.a.b)"}]}`,
			want: []string{"v1: spec.x.a.b default-added invalid,defaulted"}},
		"default of what a rule asks for": {old: `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: "!has(self.a)"}]}`,
			new:  `{type: object, properties: {a: {type: string, default: d}}, x-kubernetes-validations: [{rule: "!has(self.a)"}]}`,
			want: []string{"v1: spec.x.a default-added invalid,defaulted"}},
		"type of what a rule asks for": {old: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "has(self.a)"}]}`,
			new:  `{type: object, properties: {a: {type: number}}, x-kubernetes-validations: [{rule: "has(self.a)"}]}`,
			want: []string{"v1: spec.x.a type clients-break"}},
		"map type beside a rule": {old: `{type: object, properties: {name: {type: string}}, x-kubernetes-validations: [{rule: "has(self.name)"}]}`,
			new:  `{type: object, x-kubernetes-map-type: atomic, properties: {name: {type: string}}, x-kubernetes-validations: [{rule: "has(self.name)"}]}`,
			want: []string{sx + "map-type clients-break"}},
		"map type below a rule": {old: `{type: object, properties: {a: {type: object, properties: {b: {type: string}}}}, x-kubernetes-validations: [{rule: "self.a == self.a"}]}`,
			new:  `{type: object, properties: {a: {type: object, x-kubernetes-map-type: atomic, properties: {b: {type: string}}}}, x-kubernetes-validations: [{rule: "self.a == self.a"}]}`,
			want: []string{"v1: spec.x.a map-type clients-break"}},
		"list type set":    {old: `{type: array, items: {type: string}}`, new: `{type: array, items: {type: string}, x-kubernetes-list-type: set}`, want: []string{sx + "list-type invalid,clients-break"}},
		"list type atomic": {old: `{type: array, items: {type: string}, x-kubernetes-list-type: set}`, new: `{type: array, items: {type: string}, x-kubernetes-list-type: atomic}`, want: []string{sx + "list-type clients-break"}},
		"list type said":   {old: `{type: array, items: {type: string}}`, new: `{type: array, items: {type: string}, x-kubernetes-list-type: atomic}`},
		"map type":         {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, x-kubernetes-map-type: atomic, properties: {a: {type: string}}}`, want: []string{sx + "map-type clients-break"}},
		"embedded resource": {old: `{type: object, x-kubernetes-preserve-unknown-fields: true}`, new: `{type: object, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-embedded-resource: true}`,
			want: []string{sx + "embedded-resource loses-data,invalid,clients-break", "v1: spec.x.apiVersion value-specified loses-data,invalid,clients-break",
				"v1: spec.x.kind value-specified loses-data,invalid,clients-break", "v1: spec.x.metadata value-specified loses-data,invalid,clients-break"}},
		"unions": {old: `{type: object, properties: {a: {type: string}, b: {type: string}}}`, new: `{type: object, x-kubernetes-unions: [{fields: {a: A, b: B}}], properties: {a: {type: string}, b: {type: string}}}`,
			want: []string{sx + "unions invalid,clients-break"}, kubernetes: []string{sx + "unions safe"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				want := tt.want
				if sem == schema.Kubernetes && tt.kubernetes != nil {
					want = tt.kubernetes
				}
				if got := changes(t, crdOf(t, tt.old), crdOf(t, tt.new), sem); !slices.Equal(got, want) {
					t.Errorf("%s: got\n%s\nwant\n%s", sem, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// TestDefinitionVerdicts covers changes outside of schemas.
func TestDefinitionVerdicts(t *testing.T) {
	webhook := func(c *api.CustomResourceDefinition) {
		c.Spec.Conversion = &api.CustomResourceConversion{Strategy: api.WebhookConverter, Webhook: &api.WebhookConversion{ConversionReviewVersions: []string{"v1"}}}
	}
	second := func(c *api.CustomResourceDefinition) {
		v := *c.DeepCopy().Spec.Versions[0].Schema
		c.Spec.Versions = append(c.Spec.Versions, api.CustomResourceDefinitionVersion{Name: "v2", Served: true, Schema: &v})
	}
	storesSecond := func(c *api.CustomResourceDefinition) {
		second(c)
		c.Spec.Versions[0].Storage, c.Spec.Versions[1].Storage = false, true
		s := c.Spec.Versions[1].Schema.OpenAPIV3Schema
		spec := s.Properties["spec"]
		spec.Properties = map[string]api.JSONSchemaProps{"y": {Type: api.StringOrArray{"string"}}}
		s.Properties["spec"] = spec
	}
	for name, tt := range map[string]struct {
		both, old, new func(*api.CustomResourceDefinition)
		want           []string
		rejected       string
	}{
		"group":               {new: func(c *api.CustomResourceDefinition) { c.Spec.Group = "example.org" }, want: []string{"group loses-data,clients-break"}, rejected: "spec.group"},
		"scope":               {new: func(c *api.CustomResourceDefinition) { c.Spec.Scope = api.ClusterScoped }, want: []string{"scope loses-data,clients-break"}, rejected: "spec.scope"},
		"kind":                {new: func(c *api.CustomResourceDefinition) { c.Spec.Names.Kind = "Other" }, want: []string{"names invalid,clients-break"}, rejected: "spec.names.kind"},
		"short name":          {new: func(c *api.CustomResourceDefinition) { c.Spec.Names.ShortNames = []string{"th"} }, want: []string{"names safe"}},
		"short name removed":  {old: func(c *api.CustomResourceDefinition) { c.Spec.Names.ShortNames = []string{"th"} }, want: []string{"names clients-break"}},
		"category removed":    {old: func(c *api.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"all"} }, want: []string{"names clients-break"}},
		"label":               {new: func(c *api.CustomResourceDefinition) { c.Labels = map[string]string{"a": "b"} }, want: []string{"metadata safe"}},
		"unknown fields":      {old: func(c *api.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true }, want: []string{"v1 pruning loses-data,clients-break"}},
		"unknown fields kept": {new: func(c *api.CustomResourceDefinition) { c.Spec.PreserveUnknownFields = true }, want: []string{"pruning clients-break"}, rejected: "spec.preserveUnknownFields"},
		"version added":       {new: second, want: []string{"v2 version-added safe"}},
		"version removed":     {old: second, want: []string{"v2 version-removed clients-break"}},
		"stored version removed": {old: func(c *api.CustomResourceDefinition) { second(c); c.Status.StoredVersions = []string{"v1", "v2"} },
			want: []string{"v2 version-removed loses-data,clients-break"}, rejected: "status.storedVersions[1]"},
		"served no longer": {both: second, new: func(c *api.CustomResourceDefinition) { c.Spec.Versions[1].Served = false }, want: []string{"v2 served clients-break"}},
		"deprecated":       {new: func(c *api.CustomResourceDefinition) { c.Spec.Versions[0].Deprecated = true }, want: []string{"v1 deprecated safe"}},
		"storage version":  {new: storesSecond, want: []string{"v1 → v2: spec.x property-removed loses-data,clients-break", "v1 → v2 storage-version safe", "v2 version-added safe"}},
		"storage version by webhook": {new: func(c *api.CustomResourceDefinition) { storesSecond(c); webhook(c) },
			want: []string{"conversion clients-break", "v1 → v2 storage-version clients-break", "v2 version-added safe"}, rejected: "spec.conversion.webhookClientConfig"},
		"conversion to none": {both: second, old: webhook, want: []string{"conversion loses-data,clients-break"}},
		"status": {new: func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Status: &api.CustomResourceSubresourceStatus{}}
		}, want: []string{"v1 status-subresource clients-break"}},
		"scale": {new: func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Scale: &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.x", StatusReplicasPath: ".status.x"}}
		}, want: []string{"v1 scale-subresource invalid"}},
		"columns": {new: func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].AdditionalPrinterColumns = []api.CustomResourceColumnDefinition{{Name: "x", Type: "string", JSONPath: ".spec.x"}}
		}, want: []string{"v1 printer-columns safe"}},
		"selectable": {old: func(c *api.CustomResourceDefinition) {
			c.Spec.Versions[0].SelectableFields = []api.SelectableField{{JSONPath: ".spec.x"}}
		}, want: []string{"v1 selectable-fields clients-break"}},
	} {
		t.Run(name, func(t *testing.T) {
			old, new := crdOf(t, "{type: string}"), crdOf(t, "{type: string}")
			for _, edit := range []struct {
				f func(*api.CustomResourceDefinition)
				c *api.CustomResourceDefinition
			}{{tt.both, old}, {tt.both, new}, {tt.old, old}, {tt.new, new}} {
				if edit.f != nil {
					edit.f(edit.c)
				}
			}
			if got := changes(t, old, new, schema.Kubernetes); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			c, err := impact.Compare(t.Context(), old, new, impact.Options{Semantics: schema.Kubernetes})
			if err != nil {
				t.Fatal(err)
			}
			var fields []string
			for _, e := range c.Rejected {
				fields = append(fields, e.Field)
			}
			if tt.rejected == "" && len(fields) > 0 || tt.rejected != "" && !slices.Contains(fields, tt.rejected) {
				t.Errorf("rejected for %v, want %q", c.Rejected, tt.rejected)
			}
		})
	}
}

// TestScaledDefaults checks that a default that is a number of replicas suits the scale
// subresource, and that others may not.
func TestScaledDefaults(t *testing.T) {
	for x, want := range map[string]string{
		`{type: integer, default: 1}`:      "v1: spec.x default-added defaulted",
		`{type: integer, default: -1}`:     "v1: spec.x default-added invalid,defaulted",
		`{type: number, default: 1.5}`:     "v1: spec.x default-added invalid,defaulted",
		`{type: string, default: "app=a"}`: "v1: spec.x default-added invalid,defaulted",
	} {
		new := crdOf(t, x)
		old := new.DeepCopy()
		spec := old.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		field := spec.Properties["x"]
		field.Default = nil
		spec.Properties["x"] = field
		for _, c := range []*api.CustomResourceDefinition{old, new} {
			c.Spec.Versions[0].Subresources = &api.CustomResourceSubresources{Scale: &api.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.x", StatusReplicasPath: ".status.x"}}
		}
		if got := changes(t, old, new, schema.Kubernetes); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %q, want %q", x, got, want)
		}
	}
}

// TestPreservedVerdicts covers CRDs that do not prune.
func TestPreservedVerdicts(t *testing.T) {
	const sx = "v1: spec.x "
	const switched = "v1 pruning loses-data,clients-break"
	for name, tt := range map[string]struct {
		old, new string
		// kept is the result if neither CRD prunes, pruned if the new one does.
		kept, pruned []string
	}{
		"property added": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, properties: {a: {type: string}, b: {type: string}}}`,
			kept: []string{"v1: spec.x.b property-added unknown-fields"}, pruned: []string{switched, "v1: spec.x.b property-added unknown-fields"}},
		"property added with a default": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: object, properties: {a: {type: string}, b: {type: string, default: d}}}`,
			kept: []string{"v1: spec.x.b property-added defaulted,unknown-fields"}, pruned: []string{switched, "v1: spec.x.b property-added defaulted,unknown-fields"}},
		"property added with a default in it": {old: `{type: object, properties: {a: {type: string}}}`,
			new:  `{type: object, properties: {a: {type: string}, b: {type: object, properties: {c: {type: string, default: d}}}}}`,
			kept: []string{"v1: spec.x.b property-added unknown-fields"}, pruned: []string{switched, "v1: spec.x.b property-added unknown-fields"}},
		"property added to an object of any fields": {old: `{type: object}`, new: `{type: object, properties: {b: {type: string}}}`,
			kept: []string{"v1: spec.x.b value-specified invalid,clients-break"}, pruned: []string{switched, "v1: spec.x.b value-specified invalid,clients-break"}},
		"property removed": {old: `{type: object, properties: {a: {type: string}, b: {type: string}}}`, new: `{type: object, properties: {a: {type: string}}}`,
			kept: []string{"v1: spec.x.b property-removed clients-break"}, pruned: []string{"v1: spec.x.b property-removed loses-data,clients-break", switched}},
		"object to string": {old: `{type: object, properties: {a: {type: string}}}`, new: `{type: string}`,
			kept: []string{sx + "type invalid,clients-break"}, pruned: []string{sx + "type loses-data,invalid,clients-break", switched}},
		"null no longer": {old: `{type: string, nullable: true}`, new: `{type: string}`,
			kept: []string{sx + "nullable invalid,clients-break"}, pruned: []string{sx + "nullable loses-data,clients-break", switched}},
		"a map to fields": {old: `{type: object, additionalProperties: {type: string}}`, new: `{type: object, properties: {a: {type: string}}}`,
			kept:   []string{"v1: spec.x.* value-unspecified clients-break", "v1: spec.x.a property-added safe"},
			pruned: []string{sx + "additional-properties loses-data,clients-break", switched, "v1: spec.x.a property-added safe"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
				for _, prunes := range []bool{false, true} {
					old, new, want := crdOf(t, tt.old), crdOf(t, tt.new), tt.kept
					old.Spec.PreserveUnknownFields, new.Spec.PreserveUnknownFields = true, !prunes
					if prunes {
						want = tt.pruned
					}
					slices.Sort(want)
					got := changes(t, old, new, sem)
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Errorf("%s, prunes now: %t: got\n%s\nwant\n%s", sem, prunes, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
		})
	}
}

// TestSpecifiedVerdicts covers schemas for values of which every field was kept: whether
// fields are pruned depends on the new schema, and on where pruning resumes below it.
func TestSpecifiedVerdicts(t *testing.T) {
	const free = `{type: object, x-kubernetes-preserve-unknown-fields: true}`
	for name, tt := range map[string]struct {
		a               string
		kep, kubernetes bool
	}{
		"fields":                 {`{type: object, nullable: true, properties: {b: {type: string}}}`, true, true},
		"no fields":              {`{type: object, nullable: true}`, false, true},
		"all fields":             {`{type: object, nullable: true, x-kubernetes-preserve-unknown-fields: true}`, false, false},
		"a map of all fields":    {`{type: object, nullable: true, x-kubernetes-preserve-unknown-fields: true, additionalProperties: {type: object, nullable: true, x-kubernetes-preserve-unknown-fields: true}}`, false, false},
		"items with fields":      {`{type: array, nullable: true, x-kubernetes-preserve-unknown-fields: true, items: {type: object, properties: {b: {nullable: true, x-kubernetes-preserve-unknown-fields: true}}}}`, true, false},
		"nulls that are dropped": {`{type: object, x-kubernetes-preserve-unknown-fields: true}`, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			new := `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: ` + tt.a + `}}`
			for sem, loses := range map[schema.Semantics]bool{schema.KEP: tt.kep, schema.Kubernetes: tt.kubernetes} {
				got := changes(t, crdOf(t, free), crdOf(t, new), sem)
				if len(got) != 1 || strings.Contains(got[0], "loses-data") != loses {
					t.Errorf("%s: got %q, want loses-data: %t", sem, got, loses)
				}
			}
		})
	}
}

func TestTry(t *testing.T) {
	old := crdOf(t, `{type: object, properties: {a: {type: string}, b: {type: integer}, c: {type: string}}}`)
	new := crdOf(t, `{type: object, properties: {a: {type: string, default: d}, b: {type: integer, maximum: 3}}}`)
	c, err := impact.Compare(t.Context(), old, new, impact.Options{})
	if err != nil {
		t.Fatal(err)
	}
	try := func(kind, x string) string {
		outcome, err := c.Try(t.Context(), []byte(`{"apiVersion":"example.com/v1","kind":"`+kind+`","metadata":{"name":"n","namespace":"m"},"spec":{"x":`+x+`}}`))
		if err != nil {
			if errors.Is(err, impact.ErrOtherKind) {
				return "other"
			}
			t.Fatal(err)
		}
		var seen []string
		for _, o := range outcome.Observations {
			seen = append(seen, o.Class.ID()+" "+o.Path.String())
		}
		return strings.Join(seen, ", ")
	}
	for _, tt := range []struct{ kind, x, want string }{
		{"Thing", `{"a":"a","b":2}`, ""},
		{"Thing", `{"a":"a","b":4,"c":"c"}`, "loses-data spec.x.c, invalid spec.x.b"},
		{"Thing", `{}`, "defaulted spec.x.a"},
		{"Thing", `{"a":"a","unknown":1}`, ""},
		{"Other", `{}`, "other"},
	} {
		if got := try(tt.kind, tt.x); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.x, got, tt.want)
		}
	}
}
