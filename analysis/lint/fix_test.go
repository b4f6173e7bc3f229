package lint_test

import (
	"context"
	"slices"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

// TestFixes applies the edits of each finding until no fixable finding is left. Fixed
// findings must not reappear, and no worse findings may appear.
func TestFixes(t *testing.T) {
	tests := map[string]string{
		"superseded": v1beta1(`
prune: true # on
validation:
  openAPIV3Schema:
    type: object
    properties:
      x:
        type: object
        x-no-pruning: true
        properties:
          "y": {type: object, x-kubernetes-no-pruning: false, properties: {z: {type: integer}}}
          w: {type: object, x-kubernetes-no-prune: true, x-kubernetes-preserve-unknown-fields: true}`) + `
status: {conditions: [{type: NonStructural, status: "True"}]}`,
		"leftovers": v1(`{type: object, properties: {a: {type: string}}}`) + "\n  preserveUnknownFields: false\nstatus: {}\n",
		"structure": v1(`
  properties:
    a:
      type: string
      anyOf:
      - {type: string, description: x, minLength: 3}
      - {title: t, maxLength: 1}
    b:
      type: object
      x-kubernetes-preserve-unknown-fields: false
      properties: {c: {type: string}}`),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			fixable := func(fs []analysis.Finding) int {
				return slices.IndexFunc(fs, func(f analysis.Finding) bool { return f.Fix != nil })
			}
			fs := lintText(t, text)
			made := 0
			for i := fixable(fs); i >= 0; i = fixable(fs) {
				f := fs[i]
				doc, err := yamlx.Parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				out, err := yamledit.Apply(doc, f.Fix.Edits...)
				if err != nil {
					t.Fatalf("%v: %v", f, err)
				}
				text = string(out)
				fs = lintText(t, text)
				if slices.ContainsFunc(fs, func(g analysis.Finding) bool { return g.Rule == f.Rule && g.Pointer == f.Pointer }) {
					t.Fatalf("%v: found again in\n%s", f, text)
				}
				if made++; made > 20 {
					t.Fatal("there is always something left to fix")
				}
			}
			for _, f := range fs {
				if f.Severity == analysis.Error {
					t.Errorf("%v\n%s", f, text)
				}
			}
			if made == 0 {
				t.Error("nothing was fixed")
			}
		})
	}
}

func lintText(t *testing.T, text string) []analysis.Finding {
	t.Helper()
	found, err := lint.Run(context.Background(), [][]byte{analysistest.JSON(t, text)}, lint.Options{Rules: cel.Checker{}, Semantics: schema.KEP})
	if err != nil {
		t.Fatal(err)
	}
	return found[0]
}
