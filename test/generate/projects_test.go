package generate

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/analysis/generate/golang"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// project has the types of the CRDs of a project.
type project struct {
	name     string
	inputs   []generate.Input
	packages []*generate.Package
	problems []generate.Problem
}

// projects returns the v1 CRDs of the corpus, by project, and those in testdata/kinds. Without
// make generate-corpus it is a small part of them.
func projects(t *testing.T) (all []*project) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(corpusDir(t), "v1", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no projects: %v", err)
	}
	if !testcase.WholeCorpus() {
		dirs = slices.DeleteFunc(dirs, func(dir string) bool {
			return !slices.Contains([]string{"cert-manager", "crossplane", "prometheus-operator"}, filepath.Base(dir))
		})
	}
	for _, dir := range append(dirs, filepath.Join("testdata", "kinds")) {
		p := &project{name: filepath.Base(dir)}
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p.inputs = append(p.inputs, input(t, file, text))
		}
		p.packages, p.problems = generate.Build(p.inputs)
		all = append(all, p)
	}
	return all
}

// input returns a CRD in YAML as the input of Build.
func input(t *testing.T, file string, text []byte) generate.Input {
	t.Helper()
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	hub, err := codec.DecodeLenient(document)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	crd.PrepareCreate(hub)
	d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return generate.Input{Definition: d, Document: document}
}

// newModule creates an empty module with the dependencies of this one. It must be in a
// directory of its own, because the packages of a corpus are in many groups.
func newModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(mod), "module espalier.dev/test/generate", "module espalier.dev/generated", 1)
	text = strings.Replace(text, "=> ../..", "=> "+root, 1)
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, generate.Files{"go.mod": []byte(text), "go.sum": sum})
	return dir
}

func writeFiles(t *testing.T, dir string, files generate.Files) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// generateGo writes the Go types of packages below a directory.
func generateGo(t *testing.T, dir string, packages []*generate.Package) {
	t.Helper()
	files, problems, err := golang.Generate(packages)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Logf("%s: %s", filepath.Base(dir), p.String())
	}
	writeFiles(t, dir, files)
}

// goTool runs the go command in a directory.
func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%.8000s", strings.Join(args, " "), err, out)
	}
}
