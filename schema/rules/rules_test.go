package rules_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/warning"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/schema"
	"espalier.dev/schema/rules"
)

func compile(t *testing.T, text string, opts ...rules.Option) *schema.Program {
	t.Helper()
	p, err := schema.Compile(structural(text), schema.WithSemantics(schema.Kubernetes), schema.WithRules(rules.Compiler(opts...)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func object(t *testing.T, text string) schema.Object {
	t.Helper()
	if text == "" {
		return nil
	}
	b, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var o schema.Object
	if err := kjson.UnmarshalCaseSensitivePreserveInts(b, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// recorder keeps warnings.
type recorder struct{ texts []string }

func (r *recorder) AddWarning(_, text string) { r.texts = append(r.texts, text) }

func TestValidate(t *testing.T) {
	tests := []struct {
		name, schema, obj, old string
		opts                   []rules.Option
		want, warnings         []string
	}{{
		name: "in properties, items and additionalProperties",
		schema: `
type: object
properties:
  list: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}
  map: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: "self != 'x'"}]}}
  flag: {type: boolean, x-kubernetes-validations: [{rule: self, message: " must be set "}]}
`,
		obj: `{list: [1, 2, 0], map: {a: x, b: w, c: x}, flag: false}`,
		want: []string{
			`flag: Invalid value: false: must be set`,
			`list[0]: Invalid value: 1: failed rule: self > 1`,
			`list[2]: Invalid value: 0: failed rule: self > 1`,
			`map[a]: Invalid value: "x": failed rule: self != 'x'`,
			`map[c]: Invalid value: "x": failed rule: self != 'x'`,
		},
	}, {
		name: "at the root, with what every resource has",
		schema: `
type: object
x-kubernetes-validations:
- rule: self.kind == 'Tree' && self.apiVersion == 'v1' && self.metadata.name.startsWith('a') && !has(self.metadata.generateName)
`,
		obj:  `{apiVersion: v1, kind: Tree, metadata: {name: b}}`,
		want: []string{`<nil>: Invalid value: failed rule: self.kind == 'Tree' && self.apiVersion == 'v1' && self.metadata.name.startsWith('a') && !has(self.metadata.generateName)`},
	}, {
		name: "in an embedded resource, as in any",
		schema: `
type: object
properties:
  pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "self.kind == 'Pod' && self.metadata.name == 'x'"}]}
`,
		obj:  `{pod: {apiVersion: v1, kind: Pod, metadata: {name: w}}}`,
		want: []string{`pod: Invalid value: failed rule: self.kind == 'Pod' && self.metadata.name == 'x'`},
	}, {
		name: "reasons and field paths",
		schema: `
type: object
properties:
  a:
    type: object
    properties:
      b: {type: object, additionalProperties: {type: integer}}
      with space: {type: string}
    x-kubernetes-validations:
    - {rule: "false", reason: FieldValueRequired, fieldPath: ".b['k'] ", message: not a path}
    - {rule: "false", reason: FieldValueForbidden, fieldPath: ".b['k']", message: m}
    - {rule: "false", reason: FieldValueDuplicate, fieldPath: "['with space']", message: m}
    - {rule: "false", reason: FieldValueInvalid, fieldPath: .b, message: m}
`,
		obj: `{a: {}}`,
		want: []string{
			`a.b: Invalid value: m`,
			`a.b[k]: Forbidden: m`,
			`a.with space: Duplicate value`,
			`a: Required value: not a path`,
		},
	}, {
		name: "null has no rules",
		schema: `
type: object
properties:
  a: {type: string, nullable: true, x-kubernetes-validations: [{rule: "false"}]}
  l: {type: array, items: {type: integer, nullable: true, x-kubernetes-validations: [{rule: "false"}]}}
`,
		obj: `{a: null, l: [null]}`,
	}, {
		name: "messageExpression, and what it falls back to",
		schema: `
type: object
properties:
  a:
    type: integer
    x-kubernetes-validations:
    - {rule: "false", messageExpression: "' is ' + string(self) + ' '", message: m1}
    - {rule: "false", messageExpression: "''", message: m2}
    - {rule: "false", messageExpression: "'a\\nb'", message: m3}
    - {rule: "false", messageExpression: "string(self / 0)", message: m4}
    - {rule: "1 == 2", messageExpression: "string(self / 0)"}
`,
		obj: `{a: 1}`,
		want: []string{
			`a: Invalid value: 1: failed rule: 1 == 2`, `a: Invalid value: 1: is 1`,
			`a: Invalid value: 1: m2`, `a: Invalid value: 1: m3`, `a: Invalid value: 1: m4`,
		},
	}, {
		name: "errors of evaluation",
		schema: `
type: object
properties:
  m: {type: object, additionalProperties: {type: string}, x-kubernetes-validations: [{rule: "self['x'] == ''"}]}
  p: {x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "self.startsWith('a')", message: starts}]}
  i: {type: integer, x-kubernetes-validations: [{rule: "10 / self > 1"}, {rule: self > 5}]}
`,
		obj: `{m: {}, p: 1, i: 0}`,
		want: []string{
			`i: Invalid value: "integer": division by zero evaluating rule: 10 / self > 1`,
			`i: Invalid value: 0: failed rule: self > 5`,
			`m: Invalid value: "object": no such key: x evaluating rule: self['x'] == ''`,
			`p: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: starts`,
		},
	}, {
		name:   "transition rules need an old value",
		schema: transitions,
		obj:    `{a: 2, list: [{k: x, v: 2}], atomic: [2]}`,
	}, {
		name:   "transition rules, where old and new can be matched",
		schema: transitions,
		obj:    `{a: 1, list: [{k: w, v: 1}, {k: x, v: 1}], map: {k: 1, n: 1}}`,
		old:    `{a: 2, list: [{k: x, v: 2}], map: {k: 2}}`,
		want: []string{
			`a: Invalid value: 1: must not shrink`,
			`list[1].v: Invalid value: 1: must not shrink`,
			`map[k]: Invalid value: 1: must not shrink`,
		},
	}, {
		name: "an optional oldSelf",
		schema: `
type: object
properties:
  a: {type: integer, x-kubernetes-validations: [{rule: "oldSelf.orValue(0) < self", optionalOldSelf: true}, {rule: "oldSelf.hasValue()", optionalOldSelf: true, message: no old}]}
  b: {type: integer, x-kubernetes-validations: [{rule: "oldSelf.orValue(0) < self", optionalOldSelf: true}, {rule: "oldSelf.hasValue()", optionalOldSelf: true, message: no old}]}
`,
		obj:  `{a: 0, b: 1}`,
		old:  `{b: 1}`,
		want: []string{`a: Invalid value: 0: failed rule: oldSelf.orValue(0) < self`, `a: Invalid value: 0: no old`, `b: Invalid value: 1: failed rule: oldSelf.orValue(0) < self`},
	}, {
		name:     "what has not changed is forgiven, and warned of",
		schema:   ratcheted,
		obj:      `{a: -1, list: [{k: x, v: -1}, {k: w, v: -1}], atomic: [-1], kind: K}`,
		old:      `{a: -1, list: [{k: w, v: -1}, {k: x, v: 1}], atomic: [-1], kind: K}`,
		want:     []string{`kind: Invalid value: "K": failed rule: false`, `list[0].v: Invalid value: -1: failed rule: self > 0`},
		warnings: []string{`a: Invalid value: -1: failed rule: self > 0`, `atomic[0]: Invalid value: -1: failed rule: self > 0`, `list[1].v: Invalid value: -1: failed rule: self > 0`},
	}, {
		name:   "items of an atomic list are not forgiven if the list has changed",
		schema: ratcheted,
		obj:    `{atomic: [-1, 2]}`,
		old:    `{atomic: [-1]}`,
		want:   []string{`atomic[0]: Invalid value: -1: failed rule: self > 0`},
	}, {
		name:   "rules are not put to objects that are otherwise wrong",
		schema: ratcheted,
		obj:    `{a: x}`,
		want: []string{
			`<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation`,
			`a: Invalid value: "string": a in body must be of type integer: "string"`,
		},
	}, {
		name:   "broken rules, if they are let in",
		schema: `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self.x}, {rule: self > 1}]}, b: {type: array, items: {x-kubernetes-preserve-unknown-fields: true}, x-kubernetes-validations: [{rule: "true"}]}}}`,
		obj:    `{a: 1}`,
		opts:   []rules.Option{rules.WithBrokenRules()},
		want: []string{
			"a: Invalid value: \"integer\": rule compile error: compilation failed: ERROR: <input>:1:5: type 'int' does not support field selection\n | self.x\n | ....^",
			`a: Invalid value: 1: failed rule: self > 1`,
		},
	}, {
		name:   "a call that costs too much is the last",
		schema: `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "self == 'x' || self == 'y' || self == 'z'", message: m}]}, b: {type: string, x-kubernetes-validations: [{rule: "false"}]}}}`,
		obj:    `{a: z, b: w}`,
		opts:   []rules.Option{rules.WithPerCallLimit(3)},
		want:   []string{`a: Invalid value: "string": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: m`},
	}, {
		name:   "a budget that is used up",
		schema: `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}]}}}}`,
		obj:    `{a: [x, x, x, x, w]}`,
		opts:   []rules.Option{rules.WithBudget(7)},
		want:   []string{`a[3]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run`},
	}, {
		name:   "a budget that is used up exactly",
		schema: `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}]}}, b: {type: string, x-kubernetes-validations: [{rule: "false"}]}}}`,
		obj:    `{a: [x, x, x], b: w}`,
		opts:   []rules.Option{rules.WithBudget(6)},
		want:   []string{`b: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run`},
	}, {
		name:   "a budget that suffices",
		schema: `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}]}}}}`,
		obj:    `{a: [x, x, x]}`,
		opts:   []rules.Option{rules.WithBudget(6)},
	}, {
		name:   "a budget that is used up in a map",
		schema: `{type: object, properties: {m: {type: object, additionalProperties: {type: string, x-kubernetes-validations: [{rule: "self == 'x'"}]}}, z: {type: string, x-kubernetes-validations: [{rule: "false"}]}}}`,
		obj:    `{m: {a: x, b: x, c: x, d: w}, z: w}`,
		opts:   []rules.Option{rules.WithBudget(5)},
		want:   []string{`m[c]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run`},
	}, {
		name:   "a message that costs too much is the last",
		schema: `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "false", messageExpression: "self == 'x' || self == 'y' || self == 'z' ? 'a' : 'b'"}]}, b: {type: string, x-kubernetes-validations: [{rule: "false"}]}}}`,
		obj:    `{a: z, b: w}`,
		opts:   []rules.Option{rules.WithPerCallLimit(3)},
		want:   []string{`a: Invalid value: "string": no further validation rules will be run due to call cost exceeds limit for messageExpression: "self == 'x' || self == 'y' || self == 'z' ? 'a' : 'b'"`},
	}, {
		name:   "a message of any length up to the limit",
		schema: `{type: object, properties: {a: {type: array, items: {type: string, x-kubernetes-validations: [{rule: "false", reason: FieldValueForbidden, messageExpression: self, message: too long}]}}}}`,
		obj:    `{a: [` + strings.Repeat("x", 5120) + `, ` + strings.Repeat("x", 5121) + `]}`,
		want:   []string{`a[0]: Forbidden: ` + strings.Repeat("x", 5120), `a[1]: Forbidden: too long`},
	}, {
		name:   "an empty rule, if broken ones are let in",
		schema: `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: " "}, {rule: self > 1}]}}}`,
		obj:    `{a: 1}`,
		opts:   []rules.Option{rules.WithBrokenRules()},
		want:   []string{`a: Invalid value: 1: failed rule: self > 1`},
	}, {
		name:   "rules of a value without a type, if broken ones are let in",
		schema: `{x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "true"}]}`,
		obj:    `{a: 1}`,
		opts:   []rules.Option{rules.WithBrokenRules()},
		want:   []string{`<nil>: Invalid value: "": rule compiler initialization error: failed to convert to declType for CEL validation rules`},
	}, {
		name:   "fields of a map of an unknown type are not matched with old ones",
		schema: `{type: object, properties: {g: {type: object, x-kubernetes-map-type: granular, properties: {a: &grows {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf, message: must not shrink}]}}}, u: {type: object, x-kubernetes-map-type: unknown, properties: {a: *grows}}, t: {type: object, x-kubernetes-map-type: atomic, properties: {a: *grows}}}}`,
		obj:    `{g: {a: 1}, u: {a: 1}, t: {a: 1}}`,
		old:    `{g: {a: 2}, u: {a: 2}, t: {a: 2}}`,
		want:   []string{`g.a: Invalid value: 1: must not shrink`, `t.a: Invalid value: 1: must not shrink`},
	}, {
		name:   "fields that CEL cannot name",
		schema: `{type: object, x-kubernetes-validations: [{rule: "true"}], properties: {"with space": {type: object, x-kubernetes-validations: [{rule: self.a > 1}], properties: {a: {type: integer}}}, "no type!": {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "false"}]}}}}}`,
		obj:    `{"with space": {a: 1}, "no type!": {a: 1}}`,
		want:   []string{`with space: Invalid value: failed rule: self.a > 1`},
	}, {
		name:   "a message that is not worth it",
		schema: `{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "self == 'x'", messageExpression: "self + self + self + self"}]}}}`,
		obj:    `{a: w}`,
		opts:   []rules.Option{rules.WithBudget(3)},
		want:   []string{`a: Invalid value: "string": messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run`},
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := compile(t, tt.schema, tt.opts...)
			var warnings recorder
			ctx := warning.WithWarningRecorder(context.Background(), &warnings)
			var got []string
			for _, err := range p.Validate(ctx, object(t, tt.obj), object(t, tt.old)).FieldErrors() {
				got = append(got, err.Error())
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
			slices.Sort(warnings.texts)
			if !slices.Equal(warnings.texts, tt.warnings) {
				t.Errorf("warnings: got %q, want %q", warnings.texts, tt.warnings)
			}
		})
	}
}

const transitions = `
type: object
properties:
  a: &grows {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf, message: must not shrink}]}
  list:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [k]
    items: {type: object, required: [k], properties: {k: {type: string}, v: *grows}}
  map: {type: object, additionalProperties: *grows}
  atomic: {type: array, items: *grows}
`

const ratcheted = `
type: object
properties:
  kind: {type: string, x-kubernetes-validations: [{rule: "false"}]}
  a: &positive {type: integer, x-kubernetes-validations: [{rule: self > 0}]}
  list:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [k]
    items: {type: object, required: [k], properties: {k: {type: string}, v: *positive}}
  atomic: {type: array, items: *positive}
`

// TestViolation looks at a violation as data.
func TestViolation(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: object, properties: {b: {type: string}}, x-kubernetes-validations: [{rule: "false", fieldPath: .b}]}}}`)
	found := p.Validate(context.Background(), object(t, `{a: {b: x}}`), nil)
	if len(found) != 1 {
		t.Fatalf("got %d violations", len(found))
	}
	v := found[0]
	if v.Kind != schema.Rule || v.Path.String() != "a.b" || v.Want.Rule != "false" || v.Cause == nil || v.Cause.Field != "a.b" {
		t.Errorf("got %+v with cause %+v", v, v.Cause)
	}
}

// endsLater is a context that has ended, but whose first error is nil.
type endsLater struct {
	context.Context
	asked bool
}

func (e *endsLater) Err() error {
	if !e.asked {
		e.asked = true
		return nil
	}
	return context.Canceled
}

func (e *endsLater) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestCancellation(t *testing.T) {
	p := compile(t, `{type: object, properties: {a: {type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self.all(x, self.all(y, x == y))"}]}}}`)
	list := make([]any, 500)
	for i := range list {
		list[i] = int64(1)
	}
	// The context ends after it was looked at for the first time.
	ctx := &endsLater{Context: t.Context()}
	errs := p.Validate(ctx, schema.Object{"a": list}, nil).FieldErrors()
	if len(errs) != 1 || !strings.Contains(errs[0].Detail, "interrupted") {
		t.Errorf("got %v", errs)
	}
}

// TestIsolation changes the schema after it was compiled.
func TestIsolation(t *testing.T) {
	s := structural(`{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: m}]}}}`)
	r, err := rules.Compiler()(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Properties["a"].XValidations[0].Message = "changed"
	s.Properties["a"].Type = "string"
	got := r.Validate(context.Background(), schema.Object{"a": int64(1)}, nil).FieldErrors()
	if len(got) != 1 || got[0].Error() != "a: Invalid value: 1: m" {
		t.Errorf("got %v", got)
	}
}

func TestNoRules(t *testing.T) {
	r, err := rules.Compiler()(structural(`{type: object, properties: {a: {type: integer}}}`))
	if r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	// Rules below a value without a type are never evaluated.
	r, err = rules.Compiler()(structural(`{type: object, properties: {any: {x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer, x-kubernetes-validations: [{rule: "false"}]}}}}}`))
	if r != nil || err != nil {
		t.Errorf("below a value without a type: got %v, %v", r, err)
	}
}

func TestCompileErrors(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"syntax", `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self >}]}}}`, `.properties[a].x-kubernetes-validations[0].rule: compilation failed: ERROR: <input>:1:7: Syntax error`},
		{"type", `{type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self}]}}`, `.additionalProperties.x-kubernetes-validations[0].rule: cel expression must evaluate to a bool`},
		{"message", `{type: object, properties: {a: {type: array, items: {type: integer, x-kubernetes-validations: [{rule: "true"}, {rule: "true", messageExpression: self}]}}}}`, `.properties[a].items.x-kubernetes-validations[1].messageExpression: messageExpression must evaluate to a string`},
		{"empty", `{type: object, x-kubernetes-validations: [{rule: " "}]}`, `.x-kubernetes-validations[0].rule: rule is not specified`},
		{"no type", `{x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "true"}]}`, `.x-kubernetes-validations: failed to convert to declType`},
		{"under not", `{type: object, not: {x-kubernetes-validations: [{rule: "true"}]}}`, `.not.x-kubernetes-validations: rules must not be used`},
		{"under items", `{type: array, items: {type: object, anyOf: [{}, {items: {x-kubernetes-validations: [{rule: "true"}]}}]}}`, `.items.anyOf[1].items.x-kubernetes-validations: rules must not be used`},
		{"under properties", `{type: object, oneOf: [{properties: {b: {}, a: {x-kubernetes-validations: [{rule: "true"}]}}}]}`, `.oneOf[0].properties[a].x-kubernetes-validations: rules must not be used`},
		{"under a map", `{type: object, additionalProperties: {type: object, allOf: [{additionalProperties: {not: {x-kubernetes-validations: [{rule: "true"}]}}}]}}`, `.additionalProperties.allOf[0].additionalProperties.not.x-kubernetes-validations: rules must not be used`},
		{"the first of several", `{type: object, properties: {b: {type: integer, not: {x-kubernetes-validations: [{rule: "true"}]}}, a: {type: integer, not: {x-kubernetes-validations: [{rule: "true"}]}}}}`, `.properties[a].not.x-kubernetes-validations: rules must not be used`},
		{"under a logical operator", `{type: object, properties: {a: {type: integer, allOf: [{x-kubernetes-validations: [{rule: "true"}]}]}}}`, `.properties[a].allOf[0].x-kubernetes-validations: rules must not be used under allOf, anyOf, oneOf or not`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schema.Compile(structural(tt.schema), schema.WithRules(rules.Compiler()))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestParseFieldPath(t *testing.T) {
	s := structural(`{type: object, properties: {a: {type: object, additionalProperties: {type: string}}, "b'c": {type: object, properties: {d: {type: string}}}, e: {type: object, additionalProperties: true}}}`)
	tests := []struct{ text, want, err string }{
		{".a", "a", ""},
		{".a.k", "a[k]", ""},
		{".a['x.y']", "a[x.y]", ""},
		{`['b\'c'].d`, "b'c.d", ""},
		{".e.x", "e[x]", ""},
		{".e.x.y", "", "does not refer to a valid field"},
		{".x", "", "does not refer to a valid field"},
		{".a.k.l", "", "does not refer to a valid field"},
		{"a", "", "expected [ or . but got: a"},
		{".", "", "unexpected end of JSON path"},
		{"['a'", "", "unexpected end of JSON path"},
		{"['a'.", "", "expected ] but got ."},
		{"[a]", "", "expected single quoted string but got a"},
		{`['\q']`, "", `invalid string literal: invalid escape char \q`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			path, _, err := rules.ParseFieldPath(tt.text, s)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || path.FieldPath().String() != tt.want {
				t.Errorf("got %v, %v, want %s", path.FieldPath(), err, tt.want)
			}
		})
	}
}

// TestEnded checks that neither the check nor the evaluation of rules continues when nobody waits
// for the result.
func TestEnded(t *testing.T) {
	const text = `
type: object
properties:
  a: {type: string, x-kubernetes-validations: [{rule: self == 'x'}, {rule: self == 'y'}]}
  b: {type: string, x-kubernetes-validations: [{rule: self == 'x'}]}
`
	if n := len(rules.Check(structural(text), rules.CheckOptions{Stop: func() bool { return false }}).Rules()); n != 3 {
		t.Errorf("%d rules are checked", n)
	}
	calls := 0
	report := rules.Check(structural(text), rules.CheckOptions{Stop: func() bool { calls++; return calls > 3 }})
	if n := len(report.Rules()); n != 1 {
		t.Errorf("%d rules are checked after the end", n-1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found := compile(t, text).Validate(ctx, object(t, "{a: z, b: z}"), nil)
	if len(found) != 1 || !strings.Contains(found.FieldErrors()[0].Error(), context.Canceled.Error()) {
		t.Errorf("got %v", found)
	}
}
