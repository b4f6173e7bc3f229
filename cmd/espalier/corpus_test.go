package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/analysis/forms"
	"espalier.dev/analysis/lookup"
	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/testcase"
)

// corpusDir returns the directory of the corpus of real CRDs and objects, or "".
func corpusDir(t testing.TB) string {
	t.Helper()
	dir := testcase.Corpus(t)
	if _, err := os.Stat(filepath.Join(dir, "CR_INDEX.tsv")); err != nil {
		t.Skipf("SKIPPED: no corpus in %s (set ESPALIER_CORPUS to use another directory)", dir)
	}
	return dir
}

// TestCorpusCommands runs the commands on objects of the corpus and their CRDs. No command may
// fail.
func TestCorpusCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("the corpus takes a while")
	}
	t.Parallel()
	p := newPlace(t)
	count := p.copyCorpus(corpusDir(t))
	definitions := []string{"--crd", "v1", "--crd", "v1beta1", "-R"}
	objects := []string{"-f", "cr", "-f", "cr-braces", "-f", "cr-invalid"}
	for _, semantics := range []string{"kep", "kubernetes"} {
		t.Run("validate "+semantics, func(t *testing.T) {
			args := append(append([]string{"validate", "--semantics", semantics, "-o", "json"}, definitions...), objects...)
			out, code := p.run(args...)
			var got struct {
				Findings []struct{ File, Rule, Message string }
				Summary  struct{ Objects, Failures int }
			}
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %.500s", err, out)
			}
			if code > 1 || got.Summary.Failures > 0 || got.Summary.Objects != count {
				t.Errorf("exits with %d: %+v of %d objects", code, got.Summary, count)
			}
			for _, f := range got.Findings {
				if f.Rule == lookup.RuleMissing || f.Rule == object.RuleInvalidDefinition {
					t.Errorf("%s: %s", f.File, f.Message)
				}
			}
		})
	}
	for _, extra := range [][]string{{"-o", "json"}, {"-o", "diff"}, {"--why", "-o", "sarif"}} {
		t.Run("prune "+strings.Join(extra, " "), func(t *testing.T) {
			args := append(append(append([]string{"prune", "--semantics", "kubernetes"}, extra...), definitions...), objects...)
			if out, code := p.run(args...); code != 0 {
				t.Errorf("exits with %d: %.2000s", code, out)
			}
		})
	}
	for _, form := range forms.All() {
		t.Run("show "+form.Name, func(t *testing.T) {
			out, code := p.run("show", form.Name, "-o", "json", "-R", "-f", "v1", "-f", "v1beta1")
			if code > 1 || code == 1 && form.Name == "skeleton" || strings.Contains(out, object.RuleInvalidDefinition) {
				t.Errorf("exits with %d: %.2000s", code, out)
			}
		})
	}
	t.Run("lint", func(t *testing.T) {
		if out, code := p.run("lint", "-o", "junit", "-R", "-f", "v1", "-f", "v1beta1"); code > 1 {
			t.Errorf("exits with %d: %.2000s", code, out)
		}
	})
	t.Run("explain", func(t *testing.T) {
		a := p.app(strings.NewReader(""), nil, nil)
		a.repositories = input.NewRepositories(t.Context(), a.dir)
		ds, err := a.loadDefinitions(context.Background(), input.Flags{Paths: []string{"v1", "v1beta1"}, Recursive: true, Git: a.repositories}, func(p input.Problem) { t.Error(p.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds.All() {
			hub, err := d.hub()
			if err != nil {
				t.Error(err)
				continue
			}
			if out, code := p.run("explain", "--recursive", "--crd", d.file, hub.Spec.Names.Plural); code != 0 || !strings.Contains(out, hub.Spec.Names.Kind) {
				t.Errorf("%s: exits with %d: %.500s", d.file, code, out)
			}
		}
	})
}

// copyCorpus copies a part of the objects of the corpus and their CRDs, and returns the number of
// objects.
func (p place) copyCorpus(corpus string) int {
	t := p.t
	t.Helper()
	index, err := os.ReadFile(filepath.Join(corpus, "CR_INDEX.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := testcase.Part(strings.Split(strings.TrimSpace(string(index)), "\n")[1:])
	for _, line := range lines {
		for _, file := range strings.Split(line, "\t")[:2] {
			text, err := os.ReadFile(filepath.Join(corpus, file))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, p.path(file), text)
		}
	}
	return len(lines)
}
