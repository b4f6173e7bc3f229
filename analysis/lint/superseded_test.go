package lint_test

import (
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/internal/yamledit"
	"espalier.dev/schema"
)

func TestSuperseded(t *testing.T) {
	t.Run("K-05", func(t *testing.T) {
		text := v1beta1(`
prune: true
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
status: {conditions: [{type: NonStructural, status: "True"}]}`
		const at = "spec.validation.openAPIV3Schema.properties[x]"
		fs := lintAll(t, schema.KEP, only("superseded-spelling", "unknown-field"), text)[0]
		expect(t, fs, "error spec.prune", "error "+at+".properties[w].x-kubernetes-no-prune", "error "+at+".properties[y].x-kubernetes-no-pruning", "error "+at+".x-no-pruning", "warning status.conditions[0].type")
		says(t, fs[0], "use preserveUnknownFields: false")
		var edits []analysis.Edit
		for _, f := range fs {
			edits = append(edits, f.Fix.Edits...)
		}
		schemaAt := "/spec/validation/openAPIV3Schema/properties/x"
		want := []analysis.Edit{
			{Op: yamledit.Rename, Pointer: "/spec/prune", To: "preserveUnknownFields"},
			{Op: yamledit.Set, Pointer: "/spec/preserveUnknownFields", Value: false},
			{Op: yamledit.Remove, Pointer: schemaAt + "/properties/w/x-kubernetes-no-prune"},
			{Op: yamledit.Remove, Pointer: schemaAt + "/properties/y/x-kubernetes-no-pruning"},
			{Op: yamledit.Rename, Pointer: schemaAt + "/x-no-pruning", To: "x-kubernetes-preserve-unknown-fields"},
			{Op: yamledit.Set, Pointer: "/status/conditions/0/type", Value: "NonStructuralSchema"},
		}
		if !slices.Equal(edits, want) {
			t.Errorf("got %+v\nwant %+v", edits, want)
		}
		// Of several spellings, one is kept.
		edits = nil
		several := v1beta1(`
prune: false
preserveUnknownProperties: true
validation: {openAPIV3Schema: {type: object, x-no-pruning: true, x-kubernetes-no-pruning: true, x-kubernetes-no-prune: false}}`)
		for _, f := range lintAll(t, schema.KEP, only("superseded-spelling"), several)[0] {
			edits = append(edits, f.Fix.Edits...)
		}
		slices.SortFunc(edits, func(a, b analysis.Edit) int { return strings.Compare(a.Pointer, b.Pointer) })
		want = []analysis.Edit{
			{Op: yamledit.Set, Pointer: "/spec/preserveUnknownFields", Value: true},
			{Op: yamledit.Remove, Pointer: "/spec/preserveUnknownProperties"},
			{Op: yamledit.Rename, Pointer: "/spec/prune", To: "preserveUnknownFields"},
			{Op: yamledit.Remove, Pointer: "/spec/validation/openAPIV3Schema/x-kubernetes-no-prune"},
			{Op: yamledit.Rename, Pointer: "/spec/validation/openAPIV3Schema/x-kubernetes-no-pruning", To: "x-kubernetes-preserve-unknown-fields"},
			{Op: yamledit.Remove, Pointer: "/spec/validation/openAPIV3Schema/x-no-pruning"},
		}
		if !slices.Equal(edits, want) {
			t.Errorf("got %+v\nwant %+v", edits, want)
		}
		// If they contradict each other, the author must decide.
		for _, f := range lintAll(t, schema.KEP, only("superseded-spelling"), v1beta1("\nprune: true\npreserveUnknownProperties: true"))[0] {
			if f.Fix != nil {
				t.Errorf("a contradiction has the fix %+v", f.Fix)
			}
		}
		for _, f := range lintAll(t, schema.Kubernetes, only("superseded-spelling"), text)[0] {
			if f.Severity != analysis.Warning {
				t.Errorf("kube-apiserver takes it: %v", f)
			}
		}
	})
	t.Run("K-09", func(t *testing.T) {
		edits := func(fs []analysis.Finding) (all []analysis.Edit) {
			for _, f := range fs {
				if f.Fix != nil {
					all = append(all, f.Fix.Edits...)
				}
			}
			return all
		}
		preserve := analysis.Edit{Op: yamledit.Set, Pointer: "/spec/versions/0/schema/openAPIV3Schema/properties/a/x-kubernetes-preserve-unknown-fields", Value: true}
		for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
			fs := lintAll(t, sem, only("superseded-spelling", "unknown-format", "unknown-field"), v1(`{type: object, properties: {a: {format: json}, s: {type: object, anyOf: [{format: json}]}}}`))[0]
			expect(t, fs, "error .properties[a].format", "error .properties[s].anyOf[0].format")
			says(t, fs[0], "set x-kubernetes-preserve-unknown-fields: true")
			if got := edits(fs); !slices.Equal(got, []analysis.Edit{{Op: yamledit.Rename, Pointer: "/spec/versions/0/schema/openAPIV3Schema/properties/a/format", To: "x-kubernetes-preserve-unknown-fields"}, preserve}) {
				t.Errorf("got %+v", got)
			}

			// v1 prunes all versions.
			fine := v1(`{type: object, properties: {a: {type: string}}}`)
			for field, fixable := range map[string]bool{"prune: true": true, "prune: false": false, "preserveUnknownFields: false": true, "preserveUnknownFields: true": false} {
				name, _, _ := strings.Cut(field, ":")
				fs := lintAll(t, sem, only("superseded-spelling", "unknown-field"), strings.Replace(fine, "served: true", "served: true\n    "+field, 1))[0]
				expect(t, fs, "error spec.versions[0]."+name)
				says(t, fs[0], "set x-kubernetes-preserve-unknown-fields: true in the schema of the version")
				if fixable != (fs[0].Fix != nil) {
					t.Errorf("%s: fix %v", field, fs[0].Fix)
				}
			}

			// v1beta1 has a switch for all of them.
			versions := func(first, second string) []analysis.Finding {
				return lintAll(t, sem, only("superseded-spelling", "unknown-field"), v1beta1("versions: [{name: v1, served: true, storage: true, "+first+"}, {name: v2, served: true, storage: false"+second+"}]"))[0]
			}
			fs = versions("prune: true", ", preserveUnknownFields: false")
			expect(t, fs, "error spec.versions[0].prune", "error spec.versions[1].preserveUnknownFields")
			says(t, fs[0], "use spec.preserveUnknownFields: false")
			want := []analysis.Edit{
				{Op: yamledit.Remove, Pointer: "/spec/versions/0/prune"},
				{Op: yamledit.Set, Pointer: "/spec/preserveUnknownFields", Value: false},
				{Op: yamledit.Remove, Pointer: "/spec/versions/1/preserveUnknownFields"},
			}
			if got := edits(fs); !slices.Equal(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if got := edits(versions("prune: true", "")); got != nil {
				t.Errorf("only one version prunes: got %+v", got)
			}
			if got := edits(versions("prune: true", ", prune: false")); !slices.Equal(got, []analysis.Edit{{Op: yamledit.Remove, Pointer: "/spec/versions/1/prune"}}) {
				t.Errorf("the versions disagree: got %+v", got)
			}
		}
	})
	t.Run("v1", func(t *testing.T) {
		fine := v1(`{type: object, properties: {a: {type: string}}}`)
		for spec, fixable := range map[string]bool{"prune: true": true, "prune: false": false, "preserveUnknownProperties: false": true, "preserveUnknownProperties: true": false} {
			fs := lintAll(t, schema.KEP, only("superseded-spelling"), fine+"\n  "+spec)[0]
			if len(fs) != 1 || (fs[0].Fix != nil) != fixable {
				t.Errorf("%s: got %v", spec, fs)
			}
		}
		expect(t, lintAll(t, schema.KEP, only("superseded-spelling"), fine)[0])
	})
}
