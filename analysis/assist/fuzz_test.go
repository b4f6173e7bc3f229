package assist_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/object"
)

// FuzzText asks everything about any text at any offset.
func FuzzText(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		cases, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(cases), "\n=== ") {
			_, rest, _ := strings.Cut(c, "\n")
			document, _, _ := strings.Cut(rest, ">>>\n")
			at := strings.Index(document, cursor)
			f.Add([]byte(strings.Replace(document, cursor, "", 1)), at)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, offset int) {
		everything(t, text, offset)
	})
}

// everything asks all questions about a place and checks that the ranges are in the text.
func everything(t *testing.T, text []byte, offset int) {
	t.Helper()
	inside := func(what string, r assist.Range) {
		t.Helper()
		if r.Start < 0 || r.End < r.Start || r.End > len(text) {
			t.Fatalf("%s at %d: the range %v is not in the text of %d bytes", what, offset, r, len(text))
		}
	}
	p := assist.Locate(text, offset)
	inside("Locate", p.Range)
	e := env(t, text)
	for _, item := range assist.Complete(text, offset, e) {
		inside("Complete", item.Range)
		if item.Label == "" || item.Filter == "" || item.Plain == "" && item.Label != `""` {
			t.Fatalf("an incomplete item: %+v", item)
		}
	}
	if h := assist.HoverAt(text, offset, e); h != nil {
		inside("HoverAt", h.Range)
	}
	if s := assist.SchemaAt(text, offset, e); s != nil {
		inside("SchemaAt", s.Range)
	}
	if f := assist.FieldAt(text, offset); f != nil {
		inside("FieldAt", f.Range)
		for _, r := range f.In(text) {
			inside("In", r)
		}
	}
	for _, rule := range []string{object.RuleUnknownField, "validation/required"} {
		assist.Fixes(text, analysis.Finding{Rule: rule, Pointer: p.Path.Pointer()}, e)
	}
}

// TestHostile locates in texts for which a careless scanner needs time or memory beyond their length.
func TestHostile(t *testing.T) {
	const n = 20_000
	deep := ""
	for i := range 400 {
		deep += strings.Repeat(" ", i) + "a:\n"
	}
	for name, text := range map[string]string{
		"dashes": strings.Repeat("- ", n), "dashes and keys": strings.Repeat("- ", n) + "\n" + strings.Repeat(" a:\n", n/4),
		"braces": strings.Repeat("{", n), "brackets": strings.Repeat("[", n), "pairs": strings.Repeat("[a: ", n),
		"quotes": strings.Repeat("a: \"\n", n/4), "both quotes": strings.Repeat("a: \"\nb: '\n", n/8),
		"deeper quotes": strings.ReplaceAll(deep, "a:", `a: "`), "open braces": strings.Repeat("a: {\n", n/4),
		"deep": deep, "block scalars": strings.Repeat("a: |\n", n/4), "blank": strings.Repeat("\n", n), "colons": strings.Repeat(":", n),
		"one line": `{"a": "` + strings.Repeat("x", n), "comments": strings.Repeat("#\n", n), "anchors": strings.Repeat("&a ", n),
		"markers": strings.Repeat("---\n", n/4), "tabs": strings.Repeat("\t", n) + "a", "carriage returns": strings.Repeat("\r", n),
		"rule": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions:\n  - schema:\n      openAPIV3Schema:\n" +
			"        x-kubernetes-validations:\n        - rule: self" + strings.Repeat(".all(x, x", n/10) + ".",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, at := range []int{0, len(text) / 2, len(text)} {
				everything(t, []byte(text), at)
			}
		})
	}
}
