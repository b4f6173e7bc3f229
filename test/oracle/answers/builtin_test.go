package answers

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/gomod"
	"espalier.dev/test/oracle/builtin"
)

// number returns the number in an environment variable.
func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

func TestMain(m *testing.M) { os.Exit(builtin.Main(m)) }

// builtinReferences starts several processes of the reference, and returns the kinds that it
// knows.
func builtinReferences(t *testing.T) (chan *builtin.Reference, *builtin.Runner, []*builtin.Kind) {
	t.Helper()
	refs := make(chan *builtin.Reference, runtime.GOMAXPROCS(0))
	for range cap(refs) {
		refs <- builtin.Open(t)
	}
	ref := <-refs
	defer func() { refs <- ref }()
	kinds, err := builtin.Kinds(ref)
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.NewRunner(ref)
	if err != nil {
		t.Fatal(err)
	}
	return refs, runner, kinds
}

// compareManifests compares the creation of the objects in the manifests of Kubernetes, and of the
// modules in BUILTIN_MODULES. If BUILTIN_HELM names the program helm, it also renders their charts.
func compareManifests(t *testing.T, runner *builtin.Runner, kinds []*builtin.Kind) {
	for _, module := range append([]string{"k8s.io/kubernetes"}, strings.Fields(os.Getenv("BUILTIN_MODULES"))...) {
		dir, err := gomod.Dir("../../oracle36", module)
		if err != nil {
			t.Fatal(err)
		}
		manifests, err := builtin.Manifests(dir)
		if err != nil {
			t.Fatal(err)
		}
		files, charts, skipped := len(manifests), []builtin.Manifest(nil), 0
		if helm := os.Getenv("BUILTIN_HELM"); helm != "" {
			if charts, skipped, err = builtin.Charts(helm, dir); err != nil {
				t.Fatal(err)
			}
			manifests = append(manifests, charts...)
		}
		objects, rendered := 0, 0
		for i, m := range manifests {
			for _, k := range kinds {
				if !k.Accepts(m.Object) {
					continue
				}
				if objects++; i >= files {
					rendered++
				}
				f, err := runner.Check(k, m.Object)
				switch {
				case err != nil:
					t.Fatalf("%s: %v", m.File, err)
				case f == nil || f.Known != "":
				default:
					t.Errorf("%s: %s: %s\n%s\n%s", module, m.File, f.Key, f.Text(), f.Case)
				}
			}
		}
		t.Logf("%s: %d objects, %d of them in charts; %d charts need other values", module, objects, rendered, skipped)
		if objects == 0 {
			t.Errorf("%s has no objects of built-in kinds: is it the right module?", module)
		}
	}
}

// TestBuiltin compares the rules of Kubernetes' own kinds with the reference. See the
// documentation of package builtin for how to use it as a tool.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	refs, runner, kinds := builtinReferences(t)
	seeds, err := builtin.Seeds()
	if err != nil {
		t.Fatal(err)
	}
	runner.Seed = uint64(number("BUILTIN_SEED", 0))
	cases, show, only := number("BUILTIN_CASES", 200), number("BUILTIN_SHOW", 10), number("BUILTIN_CASE", -1)
	chosen := strings.FieldsFunc(os.Getenv("BUILTIN_KINDS"), func(r rune) bool { return r == ',' || r == ' ' })
	t.Run("new fields", func(t *testing.T) {
		if got := runner.NewFields(kinds); !slices.Equal(got, builtin.FieldsNewIn137) {
			t.Errorf("fields that the reference does not know:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(builtin.FieldsNewIn137, "\n"))
		}
	})
	t.Run("manifests", func(t *testing.T) {
		t.Parallel()
		if len(chosen) > 0 {
			t.Skip("kinds are chosen")
		}
		if !builtin.Live() || builtin.Records() {
			t.Skip("the manifests are not recorded: run make oracle-builtin")
		}
		ref := <-refs
		defer func() { refs <- ref }()
		compareManifests(t, runner.With(ref), kinds)
	})
	for _, k := range kinds {
		if len(chosen) > 0 && !slices.Contains(chosen, k.Name) {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			of := builtin.SeedsOf(seeds, k)
			if len(of) == 0 {
				t.Fatal("there is no manifest of the kind among the seeds")
			}
			ref := <-refs
			defer func() { refs <- ref }()
			first, n := 0, cases
			if only >= 0 {
				first, n = only, 1
			}
			s, err := runner.With(ref).Run(k, of, first, n)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(s)
			shown := 0
			for _, f := range s.Findings {
				if f.Known != "" {
					t.Logf("%d × known: %s", f.Count, f.Known)
					continue
				}
				if shown++; shown > show {
					continue
				}
				t.Errorf("%d × %s (case %d)\n%s\n%s", f.Count, f.Key, f.First, f.Text(), f.Case)
			}
		})
	}
}
