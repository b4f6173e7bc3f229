package lint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/lint"
	"espalier.dev/schema"
)

// TestOneRound checks that an error in one part does not hide errors in others, or that the
// findings say what was not checked.
func TestOneRound(t *testing.T) {
	text := func(column, a, more string) string {
		return strings.Replace(v1(`{type: object, properties: {spec: {type: object, properties: {
          a: `+a+`, num: {type: integer, default: x}}, x-kubernetes-validations: [{rule: self.nope > 1}]}}`+more+`}`),
			"served: true", "served: true\n    additionalPrinterColumns: [{name: A, jsonPath: .spec.a, "+column+"}]", 1)
	}
	const (
		defaults = "error .properties[spec].properties[num].default"
		rule     = "error .properties[spec].x-kubernetes-validations[0].rule"
		pattern  = "error .properties[spec].properties[a].pattern"
		kind     = "error spec.versions[0].additionalPrinterColumns[0].type"
		priority = "error spec.versions[0].additionalPrinterColumns[0].priority"
	)
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a column", text("type: strin", "{type: string}", ""), []string{kind, defaults, rule}},
		{"a pattern", text("type: string", "{type: string, pattern: '(?=a)'}", ""), []string{defaults, pattern, rule}},
		{"a pattern under an operator", text("type: string", "{type: string, anyOf: [{pattern: '('}, {type: string}]}", ""),
			[]string{"error .properties[spec].properties[a].anyOf[0].pattern", "error .properties[spec].properties[a].anyOf[1].type", defaults, rule}},
		{"a column of the wrong type", text("type: string, priority: high", "{type: string, pattern: '('}", ""), []string{priority, defaults, pattern, rule}},
		{"a keyword of the wrong type", text("type: string", "{type: string, maxLength: many}", ""), []string{defaults, "error .properties[spec].properties[a].maxLength", rule}},
		{"a keyword that is not supported", text("type: string", "{type: string}", ", patternProperties: {a: {type: string}}"), []string{"error .patternProperties", defaults, rule}},
		{"no type", text("type: string", "{}", ""), []string{"info ", "error .properties[spec].properties[a].type"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := lintAll(t, schema.Kubernetes, lint.Config{Disable: []string{"semantics-refused", "default-needs-parent"}}, tt.text)[0]
			got, want := shown(fs), slices.Clone(tt.want)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
				for _, f := range fs {
					t.Log(f)
				}
			}
		})
	}
	fs := lintAll(t, schema.KEP, only("not-checked"), text("type: string", "{}", ""))[0]
	expect(t, fs, "info ")
	says(t, fs[0], "defaults and x-kubernetes-validations of this schema are not checked until its other errors are fixed")
	// Where nothing can be checked, the finding says so.
	fs = lintAll(t, schema.KEP, lint.Config{}, strings.Replace(v1(`{type: object, properties: {a: {}}}`), "served: true", "served: 1", 1))[0]
	expect(t, fs, "error spec.versions[0].served")
	says(t, fs[0], "nothing else in the CRD is checked")
}

// TestMisfits checks what is reported about a CRD with values of the wrong type: no finding
// that only their absence causes, and whether the rest was checked.
func TestMisfits(t *testing.T) {
	const (
		checked = "the rest of the CRD is checked without this value"
		blocked = "nothing else in the CRD is checked until this is fixed"
	)
	many := func(n int, schema string) string {
		var b strings.Builder
		b.WriteString("{type: object, properties: {")
		for i := range n {
			fmt.Fprintf(&b, "p%02d: %s, ", i, schema)
		}
		b.WriteString("untyped: {}}}")
		return b.String()
	}
	for _, tt := range []struct {
		name, schema     string
		checked, blocked int
		others           bool
	}{
		{"as many keywords as can be ignored", many(20, "{type: string, maxLength: x}"), 20, 0, true},
		{"one keyword more", many(21, "{type: string, maxLength: x}"), 0, 1, false},
		{"many schemas", many(21, "string"), 0, 21, false},
		{"more schemas than are reported", many(30, "string"), 0, 21, false},
		{"the schema of a field", `{type: object, required: [size], properties: {size: integer}, x-kubernetes-validations: [{rule: self.size > 0}]}`, 0, 1, false},
		{"the schemas of all fields", `{type: object, required: [size], properties: [size]}`, 0, 1, false},
		{"the schema of items", `{type: object, properties: {l: {type: array, items: [string]}}}`, 0, 1, false},
		{"the schema of values", `{type: object, properties: {m: {type: object, additionalProperties: string}}}`, 0, 1, false},
		{"a type by another keyword", `{type: object, properties: {p: {x-kubernetes-int-or-string: "true"}}}`, 0, 1, false},
		{"null as default", `{type: object, properties: {p: {type: string, nullable: "true", default: null}}}`, 0, 1, false},
		{"a rule", `{type: object, properties: {p: {type: string}, untyped: {}}, x-kubernetes-validations: [self.p == '']}`, 1, 0, true},
		{"a keyword of a field that is named like a keyword", `{type: object, properties: {properties: {type: string, maxLength: x}, untyped: {}}}`, 1, 0, true},
		{"a schema and a keyword", `{type: object, properties: {a: {type: string, maxLength: x}, b: string}}`, 0, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var misfits, isChecked, isBlocked, others int
			for _, f := range lintAll(t, schema.KEP, lint.Config{}, v1(tt.schema))[0] {
				if f.Rule != "undecodable" {
					others++
					t.Log(f)
					continue
				}
				misfits++
				if slices.Contains(f.Detail, checked) {
					isChecked++
				}
				if slices.Contains(f.Detail, blocked) {
					isBlocked++
				}
			}
			if isChecked != tt.checked || isBlocked != tt.blocked || others > 0 != tt.others {
				t.Errorf("%d findings: got %d with %q, %d with %q, %d others; want %d, %d, others: %t",
					misfits, isChecked, checked, isBlocked, blocked, others, tt.checked, tt.blocked, tt.others)
			}
		})
	}
	fs := lintAll(t, schema.KEP, lint.Config{}, v1(`{type: object, properties: {a: {type: string, maxLength: x}, b: string}}`))[0]
	expect(t, fs, "error .properties[a].maxLength", "error .properties[b]")
}
