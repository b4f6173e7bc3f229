package lint_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "write golden files anew")

// project holds the CRDs of one project of the corpus.
type project struct {
	name  string
	docs  []*yamlx.Document
	texts [][]byte
}

// corpus reads the CRDs of a part of the projects of the corpus.
func corpus(t testing.TB) (projects []project) {
	dir := testcase.Corpus(t)
	for _, version := range []string{"v1", "v1beta1"} {
		dirs, err := filepath.Glob(filepath.Join(dir, version, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range testcase.Part(dirs) {
			p := project{name: version + "/" + filepath.Base(d)}
			files, err := filepath.Glob(filepath.Join(d, "*.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				doc, err := yamlx.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				// Unlike other decoders, this one keeps duplicate keys.
				data, err := doc.JSON()
				if err != nil {
					t.Fatal(err)
				}
				p.docs, p.texts = append(p.docs, doc), append(p.texts, data)
			}
			projects = append(projects, p)
		}
	}
	if len(projects) == 0 {
		t.Skipf("no corpus at %s; set ESPALIER_CORPUS to where it is", dir)
	}
	return projects
}

// TestCorpus compares the findings in real CRDs, by rule and project, with a golden file: a
// change to a rule shows which CRDs it affects. All rules are enabled. Without the whole corpus,
// it compares the lines of a part of the projects.
func TestCorpus(t *testing.T) {
	projects := corpus(t)
	if testing.Short() && !testcase.WholeCorpus() {
		n := 0
		projects = slices.DeleteFunc(projects, func(project) bool { n++; return n%3 != 1 })
	}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			byRule := map[string]map[string]int{}
			severities := map[string]map[analysis.Severity]int{}
			count := 0
			for _, p := range projects {
				count += len(p.texts)
				found, err := lint.Run(context.Background(), p.texts, lint.Options{Rules: cel.Checker{}, Semantics: sem, Configs: []lint.Config{{Enable: []string{lint.All}}}})
				if err != nil {
					t.Fatal(err)
				}
				for i, fs := range found {
					for _, f := range fs {
						if byRule[f.Rule] == nil {
							byRule[f.Rule], severities[f.Rule] = map[string]int{}, map[analysis.Severity]int{}
						}
						byRule[f.Rule][p.name]++
						severities[f.Rule][f.Severity]++
						checkFinding(t, p.docs[i], f)
					}
				}
			}
			var b bytes.Buffer
			fmt.Fprintf(&b, "%d definitions of %d projects, %s semantics\n", count, len(projects), sem)
			for _, rule := range slices.Sorted(maps.Keys(byRule)) {
				fmt.Fprintf(&b, "\n%s:", rule)
				for _, s := range []analysis.Severity{analysis.Error, analysis.Warning, analysis.Info} {
					if n := severities[rule][s]; n > 0 {
						fmt.Fprintf(&b, " %d %s", n, s)
					}
				}
				fmt.Fprintln(&b)
				for _, p := range slices.Sorted(maps.Keys(byRule[rule])) {
					fmt.Fprintf(&b, "  %s %d\n", p, byRule[rule][p])
				}
			}
			file := filepath.Join("testdata", "corpus-"+sem.String()+".txt")
			if testcase.WholeCorpus() {
				testcase.Golden(t, file, b.String(), *update)
				return
			}
			all, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := linesOf(projects, b.String()), linesOf(projects, string(all)); !slices.Equal(got, want) {
				t.Errorf("got %q, and %s has %q", got, file, want)
			}
		})
	}
}

// linesOf returns the lines of projects in a golden file, each after its rule.
func linesOf(projects []project, text string) (lines []string) {
	rule := ""
	for line := range strings.Lines(text) {
		name, isProject := strings.CutPrefix(line, "  ")
		if !isProject {
			rule, _, _ = strings.Cut(line, ":")
			continue
		}
		if slices.ContainsFunc(projects, func(p project) bool { return strings.HasPrefix(name, p.name+" ") }) {
			lines = append(lines, rule+line)
		}
	}
	return lines
}

// checkFinding checks that a finding has a position, and that its fix can be applied.
func checkFinding(t *testing.T, doc *yamlx.Document, f analysis.Finding) {
	t.Helper()
	if f.Message == "" || strings.Contains(f.Message, "\n") {
		t.Errorf("%s at %s: message %q", f.Rule, f.Path, f.Message)
	}
	if span := doc.Find(f.Pointer); span.Value.Line == 0 || f.Fix != nil && f.Fix.Edits[0].Op == yamledit.Remove && !span.Exact {
		t.Errorf("%s at %s: found at %+v", f.Rule, f.Path, span)
	}
	if f.Fix != nil {
		if _, err := yamledit.Apply(doc, f.Fix.Edits...); err != nil {
			t.Errorf("%s at %s: %v", f.Rule, f.Path, err)
		}
	}
}
