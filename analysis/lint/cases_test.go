package lint_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/textdiff"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

// TestCases lints the CRDs in testdata/cases/*.txtar, all of a file together, and compares the findings
// in full with those in the file. Its comment may have lines with options: "enable:" with rules besides
// those that are on by default, "only:" with rules instead of those, and "releases:" with the releases of
// Kubernetes that have to support the CRDs. A file policies.yaml is a stream with policies instead.
func TestCases(t *testing.T) {
	testcase.GoldenArchives(t, "testdata/cases/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		var config lint.Config
		options := map[string][]string{}
		for line := range strings.Lines(string(archive.Comment)) {
			if name, values, ok := strings.Cut(line, ": "); ok {
				options[name] = strings.Fields(values)
			}
		}
		config.Enable = options["enable"]
		if rules := options["only"]; rules != nil {
			config = only(rules...)
		}
		var got sheet
		var raws [][]byte
		inputs := archive.Files[:0]
		for _, f := range archive.Files {
			if f.Name == "findings" {
				continue
			}
			inputs = append(inputs, f)
			if f.Name == "policies.yaml" {
				got.add(f.Name, lintPolicies(t, config, string(f.Data)))
				continue
			}
			raws = append(raws, analysistest.JSON(t, string(f.Data)))
		}
		if raws != nil {
			names := options["releases"]
			if names == nil {
				names = []string{""}
			}
			for _, name := range names {
				lintRelease(t, &got, name, config, inputs, raws)
			}
		}
		archive.Files = append(inputs, txtar.File{Name: "findings", Data: []byte(got.String())})
	})
}

// lintRelease adds the findings in CRDs for a release, or the latest one without findings about
// releases, in both semantics: those of kubernetes as far as they differ.
func lintRelease(t *testing.T, got *sheet, release string, config lint.Config, inputs []txtar.File, raws [][]byte) {
	t.Helper()
	var texts []string
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		o := lint.Options{Rules: cel.Checker{}, Semantics: sem, Configs: []lint.Config{config}}
		if release != "" {
			r, err := releases.Parse(release)
			if err != nil {
				t.Fatal(err)
			}
			o.Release, o.RulesOf = r, func(r releases.Release) crd.RuleChecker { return cel.Checker{Minor: uint(r)} }
		}
		found, err := lint.Run(context.Background(), raws, o)
		if err != nil {
			t.Fatal(err)
		}
		var s sheet
		for i, fs := range found {
			s.add(strings.TrimSpace(inputs[i].Name+" "+release), fs)
		}
		texts = append(texts, s.String())
	}
	got.WriteString(texts[0])
	if texts[1] != texts[0] {
		fmt.Fprintln(got, "=== in kubernetes")
		for _, h := range textdiff.Hunks([]byte(texts[0]), []byte(texts[1]), 0) {
			for _, line := range h.Lines {
				fmt.Fprintf(got, "%c %s", line.Op, line.Text)
			}
		}
	}
}
