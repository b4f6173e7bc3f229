package schema_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/schema"
)

// keywordTest is what one keyword says of the values of the field v.
type keywordTest struct {
	name, schema string
	cases        []keywordCase
}

// keywordCase is a value and what kube-apiserver says of it, sorted.
type keywordCase struct {
	value string
	want  []string
}

// TestKeywords has a value that passes, one that fails and one of a wrong type for
// each keyword, with the words that kube-apiserver has for it. Some of those are
// surprising and are right all the same: a client may depend on them.
func TestKeywords(t *testing.T) {
	t.Run("V-06", func(t *testing.T) {
		for _, tc := range append(keywordTests, formatTests()...) {
			t.Run(tc.name, func(t *testing.T) {
				for _, sem := range both {
					p := compile(t, "{type: object, properties: {v: "+tc.schema+"}}", schema.WithSemantics(sem))
					for _, c := range tc.cases {
						if got := errorsOf(p, object(t, `{"v":`+c.value+`}`), nil); !slices.Equal(got, c.want) {
							t.Errorf("%s: %s:\n got %q\nwant %q", sem, c.value, got, c.want)
						}
					}
				}
			})
		}
		t.Run("the closest branch", closestBranch)
	})
}

var keywordTests = []keywordTest{
	{"type object", `{type: object}`, []keywordCase{
		{`{}`, nil},
		{`{"a":1}`, nil},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
		{`"x"`, []string{`v: Invalid value: "string": v in body must be of type object: "string"`}},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type object: "integer"`}},
		{`1.5`, []string{`v: Invalid value: "number": v in body must be of type object: "number"`}},
		{`true`, []string{`v: Invalid value: "boolean": v in body must be of type object: "boolean"`}},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type object: "null"`}},
	}},
	{"type array", `{type: array, items: {type: string}}`, []keywordCase{
		{`[]`, nil},
		{`["a"]`, nil},
		{`{}`, []string{`v: Invalid value: "object": v in body must be of type array: "object"`}},
		{`"x"`, []string{`v: Invalid value: "string": v in body must be of type array: "string"`}},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type array: "null"`}},
	}},
	{"type string", `{type: string}`, []keywordCase{
		{`""`, nil},
		{`"x"`, nil},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`}},
		{`1.5`, []string{`v: Invalid value: "number": v in body must be of type string: "number"`}},
		{`true`, []string{`v: Invalid value: "boolean": v in body must be of type string: "boolean"`}},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type string: "array"`}},
		{`{}`, []string{`v: Invalid value: "object": v in body must be of type string: "object"`}},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type string: "null"`}},
	}},
	{"type integer", `{type: integer}`, []keywordCase{
		{`0`, nil},
		{`-1`, nil},
		{`1.0`, nil},
		{`9223372036854775807`, nil},
		{`1.5`, []string{`<nil>: Invalid value: "": Checked value must be of type integer (default format) in v`, `v: Invalid value: "number": v in body must be of type integer: "number"`}},
		{`1e300`, []string{`<nil>: Invalid value: "": Checked value must be of type integer (default format) in v`, `v: Invalid value: "number": v in body must be of type integer: "number"`}},
		{`"1"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
		{`true`, []string{`v: Invalid value: "boolean": v in body must be of type integer: "boolean"`}},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type integer: "null"`}},
	}},
	{"type number", `{type: number}`, []keywordCase{
		{`0`, nil},
		{`1.5`, nil},
		{`-1e300`, nil},
		{`"1.5"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
		{`true`, []string{`v: Invalid value: "boolean": v in body must be of type number: "boolean"`}},
	}},
	{"type boolean", `{type: boolean}`, []keywordCase{
		{`true`, nil},
		{`false`, nil},
		{`"true"`, []string{`v: Invalid value: "string": v in body must be of type boolean: "string"`}},
		{`0`, []string{`v: Invalid value: "integer": v in body must be of type boolean: "integer"`}},
	}},
	{"int-or-string", `{x-kubernetes-int-or-string: true}`, []keywordCase{
		{`1`, nil},
		{`"1"`, nil},
		{`1.5`, []string{`v: Invalid value: "number": v in body must be of type integer,string: "number"`}},
		{`true`, []string{`v: Invalid value: "boolean": v in body must be of type integer,string: "boolean"`}},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type integer,string: "null"`}},
	}},
	{"no type", `{x-kubernetes-preserve-unknown-fields: true}`, []keywordCase{
		{`null`, nil},
		{`1`, nil},
		{`[{"a":null}]`, nil},
	}},
	{"nullable", `{type: string, nullable: true}`, []keywordCase{
		{`null`, nil},
		{`"x"`, nil},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`}},
	}},
	{"nullable beside enum", `{type: string, nullable: true, enum: [a]}`, []keywordCase{
		{`"a"`, nil},
		{`null`, []string{`v: Unsupported value: null: supported values: "a"`}},
	}},
	{"integer format int32", `{type: integer, format: int32}`, []keywordCase{
		{`2147483647`, nil},
		{`-2147483648`, nil},
		{`2147483648`, []string{`<nil>: Invalid value: "": Checked value must be of type integer with format int32 in v`}},
		{`1.0`, nil},
		{`2147483648.0`, []string{`<nil>: Invalid value: "": Checked value must be of type integer with format int32 in v`}},
		{`"1"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"integer format int64", `{type: integer, format: int64}`, []keywordCase{
		{`9223372036854775807`, nil},
		{`1e15`, nil},
		{`1e19`, []string{`<nil>: Invalid value: "": Checked value must be of type integer with format int64 in v`, `v: Invalid value: "float64": v in body must be of type int64: "float64"`}},
		{`1.5`, []string{`<nil>: Invalid value: "": Checked value must be of type integer with format int64 in v`, `v: Invalid value: "float64": v in body must be of type int64: "float64"`}},
	}},
	{"number format float", `{type: number, format: float}`, []keywordCase{
		{`1`, nil},
		{`3.4e38`, nil},
		{`3.5e38`, []string{`<nil>: Invalid value: "": Checked value must be of type number with format float in v`}},
		{`"1"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"number format double", `{type: number, format: double}`, []keywordCase{
		{`1.7e308`, nil},
		{`1`, nil},
		{`true`, []string{`v: Invalid value: "": v in body must be of type double: ""`}},
	}},
	{"maximum", `{type: number, maximum: 10}`, []keywordCase{
		{`10`, nil},
		{`9.99`, nil},
		{`-1e300`, nil},
		{`11`, []string{`v: Invalid value: 11: v in body should be less than or equal to 10`}},
		{`10.5`, []string{`v: Invalid value: 10.5: v in body should be less than or equal to 10`}},
		{`"11"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"maximum of integers", `{type: integer, maximum: 10}`, []keywordCase{
		{`10`, nil},
		{`10.0`, nil},
		{`11`, []string{`v: Invalid value: 11: v in body should be less than or equal to 10`}},
		{`11.0`, []string{`v: Invalid value: 11: v in body should be less than or equal to 10`}},
		{`10.5`, []string{`<nil>: Invalid value: "": Checked value must be of type integer (default format) in v`, `v: Invalid value: "number": v in body must be of type integer: "number"`, `v: Invalid value: 10.5: v in body should be less than or equal to 10`}},
	}},
	{"exclusiveMaximum", `{type: number, maximum: 10, exclusiveMaximum: true}`, []keywordCase{
		{`9`, nil},
		{`9.999`, nil},
		{`10`, []string{`v: Invalid value: 10: v in body should be less than 10`}},
		{`10.0`, []string{`v: Invalid value: 10: v in body should be less than 10`}},
		{`11`, []string{`v: Invalid value: 11: v in body should be less than 10`}},
		{`"9"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"minimum", `{type: number, minimum: -2.5}`, []keywordCase{
		{`-2.5`, nil},
		{`0`, nil},
		{`-3`, []string{`v: Invalid value: -3: v in body should be greater than or equal to -2`}},
		{`-2.6`, []string{`v: Invalid value: -2.6: v in body should be greater than or equal to -2.5`}},
		{`"x"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"minimum of integers", `{type: integer, minimum: 3}`, []keywordCase{
		{`3`, nil},
		{`2`, []string{`v: Invalid value: 2: v in body should be greater than or equal to 3`}},
		{`2.0`, []string{`v: Invalid value: 2: v in body should be greater than or equal to 3`}},
		{`"4"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"exclusiveMinimum", `{type: integer, minimum: 3, exclusiveMinimum: true}`, []keywordCase{
		{`4`, nil},
		{`3`, []string{`v: Invalid value: 3: v in body should be greater than 3`}},
		{`2`, []string{`v: Invalid value: 2: v in body should be greater than 3`}},
		{`"4"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"exclusiveMinimum of numbers", `{type: number, minimum: 2.5, exclusiveMinimum: true}`, []keywordCase{
		{`2.6`, nil},
		{`3`, nil},
		{`3.5`, nil},
		{`2.5`, []string{`v: Invalid value: 2.5: v in body should be greater than 2.5`}},
		{`2.4`, []string{`v: Invalid value: 2.4: v in body should be greater than 2.5`}},
		{`-3`, []string{`v: Invalid value: -3: v in body should be greater than 2`}},
		{`"3"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"exclusiveMaximum of numbers", `{type: number, maximum: 2.5, exclusiveMaximum: true}`, []keywordCase{
		{`2.4`, nil},
		{`1`, nil},
		{`2.5`, []string{`v: Invalid value: 2.5: v in body should be less than 2.5`}},
		{`2.6`, []string{`v: Invalid value: 2.6: v in body should be less than 2.5`}},
		{`"1"`, []string{`v: Invalid value: "string": v in body must be of type number: "string"`}},
	}},
	{"exclusive bounds without bounds", `{type: number, exclusiveMinimum: true, exclusiveMaximum: true}`, []keywordCase{
		{`0`, nil},
		{`-0.5`, nil},
	}},
	{"maximum without a type", `{maximum: 10, x-kubernetes-preserve-unknown-fields: true}`, []keywordCase{
		{`10`, nil},
		{`11`, []string{`v: Invalid value: 11: v in body should be less than or equal to 10`}},
		{`"11"`, nil},
		{`[11]`, nil},
	}},
	{"maximum that the type cannot hold", `{type: integer, format: int32, maximum: 3000000000}`, []keywordCase{
		{`1`, []string{`<nil>: Invalid value: "": Maximum boundary value must be of type integer with format int32 in v`}},
	}},
	{"multipleOf", `{type: integer, multipleOf: 3}`, []keywordCase{
		{`9`, nil},
		{`0`, nil},
		{`-3`, nil},
		{`10`, []string{`v: Invalid value: 10: v in body should be a multiple of 3`}},
		{`9.0`, nil},
		{`"9"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"multipleOf of fractions", `{type: number, multipleOf: 0.01}`, []keywordCase{
		{`0.07`, nil},
		{`19.99`, nil},
		{`4`, []string{`v: Invalid value: 0: factor MultipleOf declared for v must be positive: 0`}},
		{`0.005`, []string{`v: Invalid value: 0.005: v in body should be a multiple of 0.01`}},
	}},
	{"maxLength", `{type: string, maxLength: 3}`, []keywordCase{
		{`""`, nil},
		{`"abc"`, nil},
		{`"äöü"`, nil},
		{`"日本語"`, nil},
		{`"😀😀😀"`, nil},
		{`"abcd"`, []string{`v: Too long: may not be more than 3 bytes`}},
		{`"日本語版"`, []string{`v: Too long: may not be more than 3 bytes`}},
		{`12345`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`}},
	}},
	{"minLength", `{type: string, minLength: 2}`, []keywordCase{
		{`"ab"`, nil},
		{`"äö"`, nil},
		{`"😀😀"`, nil},
		{`"a"`, []string{`v: Invalid value: "a": v in body should be at least 2 chars long`}},
		{`"é"`, []string{`v: Invalid value: "é": v in body should be at least 2 chars long`}},
		{`"😀"`, []string{`v: Invalid value: "😀": v in body should be at least 2 chars long`}},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type string: "array"`}},
	}},
	{"pattern", `{type: string, pattern: '^a+$'}`, []keywordCase{
		{`"a"`, nil},
		{`"aaa"`, nil},
		{`"b"`, []string{`v: Invalid value: "b": v in body should match '^a+$'`}},
		{`"a b"`, []string{`v: Invalid value: "a b": v in body should match '^a+$'`}},
		{`""`, []string{`v: Invalid value: "": v in body should match '^a+$'`}},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`}},
	}},
	{"pattern is not anchored", `{type: string, pattern: 'b'}`, []keywordCase{
		{`"abc"`, nil},
		{`"ac"`, []string{`v: Invalid value: "ac": v in body should match 'b'`}},
	}},
	{"pattern that is none", `{type: string, pattern: '('}`, []keywordCase{
		{`"a"`, []string{"v: Invalid value: \"a\": v in body should match '(, but pattern is invalid: error parsing regexp: missing closing ): `(`'"}},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`}},
	}},
	{"maxItems", `{type: array, maxItems: 2, items: {type: integer}}`, []keywordCase{
		{`[]`, nil},
		{`[1,2]`, nil},
		{`[1,2,3]`, []string{`v: Too many: 3: must have at most 2 items`}},
		{`{}`, []string{`v: Invalid value: "object": v in body must be of type array: "object"`}},
	}},
	{"minItems", `{type: array, minItems: 2, items: {type: integer}}`, []keywordCase{
		{`[1,2]`, nil},
		{`[1]`, []string{`v: Invalid value: 1: v in body should have at least 2 items`}},
		{`[]`, []string{`v: Invalid value: 0: v in body should have at least 2 items`}},
		{`"12"`, []string{`v: Invalid value: "string": v in body must be of type array: "string"`}},
	}},
	{"items", `{type: array, items: {type: object, properties: {a: {type: integer}}}}`, []keywordCase{
		{`[{"a":1},{}]`, nil},
		{`[{"a":1},{"a":"x"},3]`, []string{`v[1].a: Invalid value: "string": v[1].a in body must be of type integer: "string"`, `v[2]: Invalid value: "integer": v[2] in body must be of type object: "integer"`}},
		{`[null]`, []string{`v[0]: Invalid value: "null": v[0] in body must be of type object: "null"`}},
		{`{"a":1}`, []string{`v: Invalid value: "object": v in body must be of type array: "object"`}},
	}},
	{"enum of strings", `{type: string, enum: [a, b, ""]}`, []keywordCase{
		{`"a"`, nil},
		{`""`, nil},
		{`"c"`, []string{`v: Unsupported value: "c": supported values: "a", "b", ""`}},
		{`1`, []string{`v: Invalid value: "integer": v in body must be of type string: "integer"`, `v: Unsupported value: 1: supported values: "a", "b", ""`}},
	}},
	{"enum of integers", `{type: integer, enum: [1, 2]}`, []keywordCase{
		{`2`, nil},
		{`3`, []string{`v: Unsupported value: 3: supported values: "1", "2"`}},
		{`1.0`, nil},
		{`"1"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`, `v: Unsupported value: "1": supported values: "1", "2"`}},
	}},
	{"enum of numbers", `{type: number, enum: [1, 2.5]}`, []keywordCase{
		{`2.5`, nil},
		{`1`, nil},
		{`3`, []string{`v: Unsupported value: 3: supported values: "1", "2.5"`}},
		{`1.5`, nil},
	}},
	{"enum of booleans", `{type: boolean, enum: [true]}`, []keywordCase{
		{`true`, nil},
		{`false`, []string{`v: Unsupported value: false: supported values: "true"`}},
		{`"true"`, []string{`v: Invalid value: "string": v in body must be of type boolean: "string"`, `v: Unsupported value: "true": supported values: "true"`}},
	}},
	{"enum of objects", `{type: object, x-kubernetes-preserve-unknown-fields: true, enum: [{a: 1}, {}]}`, []keywordCase{
		{`{"a":1}`, nil},
		{`{}`, nil},
		{`{"a":2}`, []string{`v: Unsupported value: {"a":2}: supported values: "{\"a\":1}", "{}"`}},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`, `v: Unsupported value: []: supported values: "{\"a\":1}", "{}"`}},
	}},
	{"enum of arrays", `{type: array, items: {type: integer}, enum: [[1, 2], []]}`, []keywordCase{
		{`[1,2]`, nil},
		{`[]`, nil},
		{`[2,1]`, []string{`v: Unsupported value: [2,1]: supported values: "[1,2]", "[]"`}},
	}},
	{"enum of all types", `{x-kubernetes-preserve-unknown-fields: true, enum: [a, 1, 2.5, false, [x], {w: z}]}`, []keywordCase{
		{`"a"`, nil},
		{`1`, nil},
		{`2.5`, nil},
		{`false`, nil},
		{`["x"]`, nil},
		{`{"w":"z"}`, nil},
		{`"b"`, []string{`v: Unsupported value: "b": supported values: "a", "1", "2.5", "false", "[\"x\"]", "{\"w\":\"z\"}"`}},
		{`true`, []string{`v: Unsupported value: true: supported values: "a", "1", "2.5", "false", "[\"x\"]", "{\"w\":\"z\"}"`}},
		{`[]`, []string{`v: Unsupported value: []: supported values: "a", "1", "2.5", "false", "[\"x\"]", "{\"w\":\"z\"}"`}},
		{`null`, []string{`v: Unsupported value: null: supported values: "a", "1", "2.5", "false", "[\"x\"]", "{\"w\":\"z\"}"`}},
	}},
	{"maxProperties", `{type: object, maxProperties: 1, additionalProperties: {type: integer}}`, []keywordCase{
		{`{}`, nil},
		{`{"a":1}`, nil},
		{`{"a":1,"b":2}`, []string{`v: Too many: 2: must have at most 1 item`}},
		{`[1,2]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"minProperties", `{type: object, minProperties: 1, additionalProperties: {type: integer}}`, []keywordCase{
		{`{"a":1}`, nil},
		{`{}`, []string{`v: Invalid value: 0: v in body should have at least 1 properties`}},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"required", `{type: object, required: [a, b], properties: {a: {type: string}, b: {type: string}}}`, []keywordCase{
		{`{"a":"","b":""}`, nil},
		{`{"a":""}`, []string{`v.b: Required value`}},
		{`{}`, []string{`v.a: Required value`, `v.b: Required value`}},
		{`"ab"`, []string{`v: Invalid value: "string": v in body must be of type object: "string"`}},
	}},
	{"properties", `{type: object, properties: {a: {type: integer}, a.b/c: {type: string}}}`, []keywordCase{
		{`{}`, nil},
		{`{"a":1,"a.b/c":"x"}`, nil},
		{`{"a":"x"}`, []string{`v.a: Invalid value: "string": v.a in body must be of type integer: "string"`}},
		{`{"a.b/c":1}`, []string{`v.a.b/c: Invalid value: "integer": v.a.b/c in body must be of type string: "integer"`}},
		{`{"other":1}`, nil},
		{`["a"]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"additionalProperties", `{type: object, additionalProperties: {type: integer}}`, []keywordCase{
		{`{}`, nil},
		{`{"a":1,"b":2}`, nil},
		{`{"a":1,"b":"x"}`, []string{`v.b: Invalid value: "string": v.b in body must be of type integer: "string"`}},
		{`{"a":null}`, []string{`v.a: Invalid value: "null": v.a in body must be of type integer: "null"`}},
		{`[1]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"additionalProperties: true", `{type: object, additionalProperties: true}`, []keywordCase{
		{`{"a":1,"b":"x"}`, nil},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"additionalProperties: false", `{type: object, additionalProperties: false}`, []keywordCase{
		{`{}`, nil},
		{`{"a":1}`, []string{`v: Invalid value: "a": v.a in body is a forbidden property`}},
		{`[]`, []string{`v: Invalid value: "array": v in body must be of type object: "array"`}},
	}},
	{"allOf", `{type: integer, allOf: [{minimum: 3}, {maximum: 5}]}`, []keywordCase{
		{`4`, nil},
		{`2`, []string{`<nil>: Invalid value: "": "v" must validate all the schemas (allOf)`, `v: Invalid value: 2: v in body should be greater than or equal to 3`}},
		{`6`, []string{`<nil>: Invalid value: "": "v" must validate all the schemas (allOf)`, `v: Invalid value: 6: v in body should be less than or equal to 5`}},
		{`"x"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"allOf of which none holds", `{type: integer, allOf: [{minimum: 3}, {multipleOf: 2}]}`, []keywordCase{
		{`4`, nil},
		{`1`, []string{`<nil>: Invalid value: "": "v" must validate all the schemas (allOf). None validated`, `v: Invalid value: 1: v in body should be a multiple of 2`, `v: Invalid value: 1: v in body should be greater than or equal to 3`}},
	}},
	{"anyOf", `{type: integer, anyOf: [{minimum: 10}, {maximum: 5}]}`, []keywordCase{
		{`10`, nil},
		{`5`, nil},
		{`7`, []string{`<nil>: Invalid value: "": "v" must validate at least one schema (anyOf)`, `v: Invalid value: 7: v in body should be greater than or equal to 10`}},
		{`"x"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"oneOf", `{type: integer, oneOf: [{minimum: 5}, {maximum: 10}]}`, []keywordCase{
		{`4`, nil},
		{`11`, nil},
		{`7`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives`}},
		{`"x"`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives`, `v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"oneOf of which none holds", `{type: integer, oneOf: [{minimum: 10}, {maximum: 5}]}`, []keywordCase{
		{`7`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid`, `v: Invalid value: 7: v in body should be greater than or equal to 10`}},
	}},
	{"not", `{type: integer, not: {minimum: 5}}`, []keywordCase{
		{`4`, nil},
		{`5`, []string{`<nil>: Invalid value: "": "v" must not validate the schema (not)`}},
		{`"x"`, []string{`<nil>: Invalid value: "": "v" must not validate the schema (not)`, `v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"logical operators of fields", `{type: object, properties: {a: {type: string}, b: {type: string}}, oneOf: [{required: [a]}, {required: [b]}]}`, []keywordCase{
		{`{"a":""}`, nil},
		{`{"b":""}`, nil},
		{`{}`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid`, `v.a: Required value`}},
		{`{"a":"","b":""}`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found 2 valid alternatives`}},
	}},
	{"conditions below a logical operator", `{type: object, properties: {a: {type: array, items: {type: string}}}, not: {properties: {a: {items: {pattern: x}}}}}`, []keywordCase{
		{`{"a":["y"]}`, nil},
		{`{"a":["x"]}`, []string{`<nil>: Invalid value: "": "v" must not validate the schema (not)`}},
		{`{"a":["x","y"]}`, nil},
	}},
	{"set", `{type: array, x-kubernetes-list-type: set, items: {type: string}}`, []keywordCase{
		{`[]`, nil},
		{`["a","b"]`, nil},
		{`["a","b","a","a","b"]`, []string{`v[2]: Duplicate value: "a"`, `v[4]: Duplicate value: "b"`}},
		{`[1,1]`, []string{`v[0]: Invalid value: "integer": v[0] in body must be of type string: "integer"`, `v[1]: Duplicate value: 1`, `v[1]: Invalid value: "integer": v[1] in body must be of type string: "integer"`}},
		{`"a"`, []string{`v: Invalid value: "string": v in body must be of type array: "string"`}},
	}},
	{"set of numbers", `{type: array, x-kubernetes-list-type: set, items: {type: number}}`, []keywordCase{
		{`[1,2,1.0]`, nil},
		{`[1,1]`, []string{`v[1]: Duplicate value: 1`}},
	}},
	{"set of objects", `{type: array, x-kubernetes-list-type: set, items: {type: object, x-kubernetes-map-type: atomic, properties: {a: {type: integer}}}}`, []keywordCase{
		{`[{"a":1},{"a":2},{}]`, nil},
		{`[{"a":1},{"a":1}]`, []string{`v[1]: Duplicate value: {"a":1}`}},
	}},
	{"map", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, required: [k], properties: {k: {type: string}, v: {type: integer}}}}`, []keywordCase{
		{`[]`, nil},
		{`[{"k":"a","v":1},{"k":"b","v":1}]`, nil},
		{`[{"k":"a","v":1},{"k":"a","v":2}]`, []string{`v[1]: Duplicate value: {"k":"a"}`}},
		{`[{"v":1}]`, []string{`v[0].k: Required value`}},
		{`[{"v":1},{"v":2}]`, []string{`v[0].k: Required value`, `v[1].k: Required value`, `v[1]: Duplicate value: {}`}},
		{`[1]`, []string{`v[0]: Invalid value: "integer": v[0] in body must be of type object: "integer"`, `v[0]: Invalid value: 1: must be an object for an array of list-type map`}},
	}},
	{"map without its key", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}}`, []keywordCase{
		{`[{},{"k":"a"}]`, nil},
		{`[{},{}]`, []string{`v[1]: Duplicate value: {}`}},
	}},
	{"map with several keys", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}}}}`, []keywordCase{
		{`[{"k":"a","l":1},{"k":"a","l":2},{"k":"b","l":1}]`, nil},
		{`[{"k":"a","l":1},{"k":"a","l":1}]`, []string{`v[1]: Duplicate value: {"k":"a","l":1}`}},
		{`[{"k":"a"},{"k":"a","l":0}]`, nil},
		{`[{"k":"a"},{"k":"a"}]`, []string{`v[1]: Duplicate value: {"k":"a"}`}},
		{`[{},{},{}]`, []string{`v[1]: Duplicate value: {}`}},
	}},
	{"atomic", `{type: array, x-kubernetes-list-type: atomic, items: {type: integer}}`, []keywordCase{
		{`[1,1]`, nil},
	}},
	{"format: dashes do not count", `{type: string, format: i-p-v-4}`, []keywordCase{
		{`"127.0.0.1"`, nil},
		{`"::1"`, []string{`v: Invalid value: "::1": v in body must be of type i-p-v-4: "::1"`}},
	}},
	{"format: unknown", `{type: string, format: zip-code}`, []keywordCase{
		{`"whatever"`, nil},
	}},
	{"format: other letters are another name", `{type: string, format: IPv4}`, []keywordCase{
		{`"whatever"`, nil},
	}},
	{"format: wrong types", `{type: string, format: ipv4}`, []keywordCase{
		{`1`, []string{`v: Invalid value: "int64": v in body must be of type ipv4: "int64"`}},
		{`1.5`, []string{`v: Invalid value: "float64": v in body must be of type ipv4: "float64"`}},
		{`true`, []string{`v: Invalid value: "": v in body must be of type ipv4: ""`}},
		{`{}`, []string{`v: Invalid value: "": v in body must be of type ipv4: ""`}},
		{`["::1"]`, nil},
		{`null`, []string{`v: Invalid value: "null": v in body must be of type string: "null"`}},
	}},
	{"format: of no type", `{format: ipv4, x-kubernetes-preserve-unknown-fields: true}`, []keywordCase{
		{`"127.0.0.1"`, nil},
		{`"::1"`, []string{`v: Invalid value: "::1": v in body must be of type ipv4: "::1"`}},
		{`1`, []string{`v: Invalid value: "int64": v in body must be of type ipv4: "int64"`}},
		{`null`, nil},
		{`{}`, []string{`v: Invalid value: "": v in body must be of type ipv4: ""`}},
	}},
	{"format: of another type", `{type: integer, format: ipv4}`, []keywordCase{
		{`1`, nil},
		{`"::1"`, []string{`v: Invalid value: "string": v in body must be of type integer: "string"`}},
	}},
	{"format: int32 of a string", `{type: string, format: int32}`, []keywordCase{
		{`"x"`, nil},
	}},
	{"format: ipv4 under a logical operator", `{type: string, oneOf: [{format: ipv4}, {format: ipv6}]}`, []keywordCase{
		{`"127.0.0.1"`, nil},
		{`"::1"`, nil},
		{`"x"`, []string{`<nil>: Invalid value: "": "v" must validate one and only one schema (oneOf). Found none valid`, `v: Invalid value: "x": v in body must be of type ipv4: "x"`}},
	}},
}

// formats are strings that have a format, and strings that have not.
var formats = map[string]struct{ valid, invalid []string }{
	"bsonobjectid":   {[]string{"507f1f77bcf86cd799439011"}, []string{"507f1f77"}},
	"uri":            {[]string{"https://example.com/a?b=c", "urn:isbn:0451450523", "/just/a/path"}, []string{"example.com"}},
	"email":          {[]string{"jane@example.com", "Jane <jane@example.com>"}, []string{"jane"}},
	"hostname":       {[]string{"example.com", "localhost"}, []string{"-example.com", "a b"}},
	"ipv4":           {[]string{"127.0.0.1"}, []string{"127.0.0", "::1"}},
	"ipv6":           {[]string{"::1"}, []string{"127.0.0.1"}},
	"cidr":           {[]string{"10.0.0.0/8", "fd00::/8"}, []string{"10.0.0.0", "10.0.0.0/33"}},
	"mac":            {[]string{"00:1a:2b:3c:4d:5e"}, []string{"00:1a"}},
	"uuid":           {[]string{"123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"}, []string{"123e4567"}},
	"uuid3":          {[]string{"bcd02e22-68f0-3046-a512-327cca9def8f"}, []string{"123e4567-e89b-12d3-a456-426614174000"}},
	"uuid4":          {[]string{"025b0d74-00a2-4048-bf57-227c5111bb34"}, []string{"123e4567-e89b-12d3-a456-426614174000"}},
	"uuid5":          {[]string{"886313e1-3b8a-5372-9b90-0c9aee199e5d"}, []string{"123e4567-e89b-12d3-a456-426614174000"}},
	"isbn":           {[]string{"0321751043", "978-0321751041"}, []string{"0321751044"}},
	"isbn10":         {[]string{"0321751043"}, []string{"978-0321751041"}},
	"isbn13":         {[]string{"978-0321751041"}, []string{"0321751043"}},
	"creditcard":     {[]string{"4111-1111-1111-1111"}, []string{"4111-1111-1111-1112"}},
	"ssn":            {[]string{"111-11-1111"}, []string{"111-111-111"}},
	"hexcolor":       {[]string{"#FFFFFF", "fff"}, []string{"#FFFFFG"}},
	"rgbcolor":       {[]string{"rgb(100,100,100)"}, []string{"rgb(300,0,0)"}},
	"byte":           {[]string{"ZWxlcGhhbnQ="}, []string{"ZWxlcGhhbnQ", "%"}},
	"password":       {[]string{"", "anything"}, nil},
	"date":           {[]string{"2026-02-28"}, []string{"2026-02-30", "28.02.2026"}},
	"datetime":       {[]string{"2026-11-15T10:20:30Z", "2026-11-15T10:20:30.123+02:00"}, []string{"2026-11-15", "yesterday"}},
	"date-time":      {[]string{"2026-11-15T10:20:30Z"}, []string{"2026-11-15 10 o'clock"}},
	"duration":       {[]string{"22 ns", "1h30m", "3 weeks"}, []string{"3 fortnights"}},
	"k8s-short-name": {[]string{"my-name"}, []string{"my.name", "My-Name"}},
	"k8s-long-name":  {[]string{"my.name"}, []string{"my_name"}},
}

func formatTests() (tests []keywordTest) {
	for format, f := range formats {
		tc := keywordTest{name: "format " + format, schema: "{type: string, format: " + format + "}"}
		for _, s := range f.valid {
			tc.cases = append(tc.cases, keywordCase{fmt.Sprintf("%q", s), nil})
		}
		for _, s := range f.invalid {
			tc.cases = append(tc.cases, keywordCase{fmt.Sprintf("%q", s), []string{fmt.Sprintf("v: Invalid value: %q: v in body must be of type %s: %q", s, format, s)}})
		}
		tc.cases = append(tc.cases, keywordCase{"7", []string{fmt.Sprintf(`v: Invalid value: "int64": v in body must be of type %s: "int64"`, format)}})
		tests = append(tests, tc)
	}
	return tests
}

// closestBranch looks at logical operators as data: what each branch says, and which one
// came closest.
func closestBranch(t *testing.T) {
	const shapes = `
type: object
properties:
  shape:
    type: object
    properties:
      kind: {type: string}
      radius: {type: number}
      width: {type: number}
      height: {type: number}
    %s:
    - required: [radius]
      properties: {kind: {enum: [circle]}, radius: {minimum: 0}}
    - required: [width, height]
      properties: {kind: {enum: [box]}, width: {minimum: 0}, height: {minimum: 0}}
`
	for _, tc := range []struct {
		name, junctor, object string
		kind                  schema.ViolationKind
		closest, holding      int
		branches              []string // the messages of each branch, or none if it holds
		want                  []string // all messages, as they are reported
	}{{
		name: "a box that lacks its height is closer to a box", junctor: "anyOf",
		object: `{"shape":{"kind":"box","width":2}}`,
		kind:   schema.AnyOf, closest: 1, holding: 0,
		branches: []string{"shape.kind in body should be one of [circle]; shape.radius in body is required", "shape.height in body is required"},
		want:     []string{`"shape" must validate at least one schema (anyOf)`, "shape.height in body is required"},
	}, {
		name: "a circle with a negative radius is a circle", junctor: "oneOf",
		object: `{"shape":{"kind":"circle","radius":-1}}`,
		kind:   schema.OneOf, closest: 0, holding: 0,
		branches: []string{"shape.radius in body should be greater than or equal to 0", "shape.kind in body should be one of [box]; shape.width in body is required; shape.height in body is required"},
		want:     []string{`"shape" must validate one and only one schema (oneOf). Found none valid`, "shape.radius in body should be greater than or equal to 0"},
	}, {
		name: "of equals the first is the closest", junctor: "oneOf",
		object: `{"shape":{}}`,
		kind:   schema.OneOf, closest: 0, holding: 0,
		branches: []string{"shape.radius in body is required", "shape.width in body is required; shape.height in body is required"},
		want:     []string{`"shape" must validate one and only one schema (oneOf). Found none valid`, "shape.radius in body is required"},
	}, {
		name: "where too many hold, none is the closest", junctor: "oneOf",
		object: `{"shape":{"radius":1,"width":1,"height":1}}`,
		kind:   schema.OneOf, closest: -1, holding: 2,
		branches: []string{"", ""},
		want:     []string{`"shape" must validate one and only one schema (oneOf). Found 2 valid alternatives`},
	}, {
		name: "allOf reports all branches", junctor: "allOf",
		object: `{"shape":{"radius":1,"width":-1,"height":1}}`,
		kind:   schema.AllOf, closest: -1, holding: 1,
		branches: []string{"", "shape.width in body should be greater than or equal to 0"},
		want:     []string{"shape.width in body should be greater than or equal to 0", "must validate all the schemas (allOf)"},
	}} {
		t.Run(tc.name, func(t *testing.T) {
			p := compile(t, fmt.Sprintf(shapes, tc.junctor))
			vs := p.Validate(context.Background(), object(t, tc.object), nil)
			if len(vs) != 1 {
				t.Fatalf("got %d violations: %q", len(vs), vs.Messages())
			}
			v := vs[0]
			if v.Kind != tc.kind || v.Closest != tc.closest || v.Holding != tc.holding || v.Path.String() != "shape" || v.Schema.String() != ".properties[shape]" {
				t.Errorf("got kind %d at %s by %s, closest %d, %d hold", v.Kind, v.Path, v.Schema, v.Closest, v.Holding)
			}
			var branches []string
			for _, b := range v.Branches {
				branches = append(branches, strings.Join(b.Messages(), "; "))
			}
			if !slices.Equal(branches, tc.branches) {
				t.Errorf("branches:\n got %q\nwant %q", branches, tc.branches)
			}
			if got := vs.Messages(); !slices.Equal(got, tc.want) {
				t.Errorf("messages:\n got %q\nwant %q", got, tc.want)
			}
		})
	}
}
