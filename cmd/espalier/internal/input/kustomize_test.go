package input

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"espalier.dev/cmd/espalier/internal/kustomize"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// TestBuildKustomize builds kustomizations with programs that print their arguments, with none, and
// with the real one if there is one.
func TestBuildKustomize(t *testing.T) {
	realProgram, _ := exec.LookPath("kustomize")
	cwd := t.TempDir()
	write(t, cwd, map[string]string{
		"repo/a/kustomization.yaml":         "resources: [object.yaml, ../base]\npatches: [{path: patch.yaml}]\n",
		"repo/a/object.yaml":                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"repo/a/patch.yaml":                 "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n",
		"repo/base/kustomization.yml":       "resources: [b.yaml]\n",
		"repo/base/b.yaml":                  "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
		"repo/component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n",
		"repo/plain.yaml":                   "apiVersion: v1\nkind: Plain\n",
		"remote/kustomization.yaml":         "resources: [../over]\n",
		"over/Kustomization":                "resources: ['https://example.com/x.yaml', missing]\nhelmCharts: [{name: c}]\n",
	})
	program := func(dir, name string) {
		write(t, cwd, map[string]string{dir + "/" + name: "#!/bin/sh\necho apiVersion: v1\necho kind: Built\necho \"command: $0 $*\"\n"})
		if err := os.Chmod(filepath.Join(cwd, dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("both", "kustomize")
	program("both", "kubectl")
	program("only", "kubectl")
	write(t, cwd, map[string]string{"fails/kustomize": "#!/bin/sh\necho 'Error: no good' >&2\nexit 1\n"})
	if err := os.Chmod(filepath.Join(cwd, "fails/kustomize"), 0o755); err != nil {
		t.Fatal(err)
	}
	read := func(dir string, paths ...string) (string, string) {
		t.Helper()
		t.Setenv("PATH", filepath.Join(cwd, dir))
		kinds, problems := readAll(t, cwd, Flags{Paths: paths, Recursive: true, Build: new(kustomize.Builder), Skipped: new(Skipped)})
		return strings.Join(kinds, " "), strings.Join(problems, "\n")
	}
	for _, dir := range []string{"both", "only"} {
		if kinds, problems := read(dir, "repo"); kinds != "Built Built Plain" || problems != "" {
			t.Errorf("%s: got %s, %s", dir, kinds, problems)
		}
	}
	if _, problems := read("both", "remote"); !strings.Contains(problems,
		"remote: cannot build the kustomization: it loads Helm chart c, https://example.com/x.yaml, missing from the network: allow it with --kustomize-network") {
		t.Errorf("got %s", problems)
	}
	if _, problems := read("fails", "repo/a"); problems != "repo/a: cannot build the kustomization: kustomize: no good" {
		t.Errorf("got %s", problems)
	}
	if _, problems := read("none", "repo/a"); !strings.Contains(problems, "neither kustomize nor kubectl is in PATH") {
		t.Errorf("got %s", problems)
	}
	if realProgram == "" {
		t.Log("kustomize is not installed: only replacements were run")
		return
	}
	t.Setenv("PATH", filepath.Dir(realProgram))
	kinds, problems := readAll(t, cwd, Flags{Paths: []string{"repo"}, Recursive: true, Build: new(kustomize.Builder)})
	if got := strings.Join(kinds, " "); got != "ConfigMap Secret Secret Plain" && got != "Secret ConfigMap Secret Plain" || len(problems) > 0 {
		t.Errorf("got %s, %q", got, problems)
	}
}

// TestBuildKustomizeFIFO builds kustomizations whose files would block.
func TestBuildKustomizeFIFO(t *testing.T) {
	cwd := t.TempDir()
	write(t, cwd, map[string]string{
		"a/object.yaml":        "kind: A\n",
		"b/kustomization.yaml": "resources: [../a]\n",
		"bin/kustomize":        "#!/bin/sh\necho kind: Built\n",
	})
	if err := os.Chmod(filepath.Join(cwd, "bin/kustomize"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(cwd, "a/kustomization.yaml"), 0o644); err != nil {
		t.Skip(err)
	}
	write(t, cwd, map[string]string{"c/kustomization.yaml": "resources: [fifo.yaml]\n"})
	if err := syscall.Mkfifo(filepath.Join(cwd, "c/fifo.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(cwd, "bin"))
	for _, network := range []bool{false, true} {
		kinds, problems := readAll(t, cwd, Flags{Paths: []string{"a", "b", "c"}, Build: &kustomize.Builder{Network: network}})
		if len(kinds) > 0 || len(problems) != 3 || !strings.HasPrefix(problems[0], "a/kustomization.yaml: cannot read: it is a FIFO") ||
			!strings.HasPrefix(problems[1], "b: cannot build the kustomization: ") || !strings.Contains(problems[1], "it is a FIFO") ||
			problems[2] != "c: cannot build the kustomization: fifo.yaml is not a regular file" {
			t.Errorf("got %q, %q", kinds, problems)
		}
	}
}

// countingTree counts the files that are opened.
type countingTree struct {
	osTree
	opened map[string]int
}

func (t countingTree) open(path string) (*content, error) {
	t.opened[filepath.Base(path)]++
	return t.osTree.open(path)
}

// TestConvertedByPatch looks for patches of many CRDs. Each file is read once, and none outside of
// the repository.
func TestConvertedByPatch(t *testing.T) {
	t.Parallel()
	cwd := t.TempDir()
	patch := func(name string) string {
		return "kind: CustomResourceDefinition\nmetadata: {name: " + name + "}\nspec: {conversion: {strategy: Webhook}}\n"
	}
	write(t, cwd, map[string]string{
		"repo/.git/HEAD": "",
		"repo/config/crd/kustomization.yaml": "patches: [{path: patches/below.yaml}, {path: ../shared.yaml}, {path: ../../../outside.yaml}," +
			" {path: link.yaml}]\n",
		"repo/config/crd/patches/below.yaml": patch("below"),
		"repo/config/shared.yaml":            patch("shared"),
		"outside.yaml":                       patch("outside"),
		"target.yaml":                        patch("link"),
		"kustomization.yaml":                 "patches: [{path: above.yaml}]\n",
		"above.yaml":                         patch("above"),
		"plain/kustomization.yaml":           "patches: [{path: ../outside.yaml}, {path: own.yaml}]\n",
		"plain/own.yaml":                     patch("own"),
	})
	if err := os.Symlink("../../../target.yaml", filepath.Join(cwd, "repo/config/crd/link.yaml")); err != nil {
		t.Skip(err)
	}
	in := countingTree{osTree{dir: workdir.Dir(cwd), patches: new(webhookPatches)}, map[string]int{}}
	for range 3 {
		for file, names := range map[string]map[string]bool{
			"repo/config/crd/bases/a.yaml": {"below": true, "shared": true, "outside": false, "link": false, "above": false},
			"plain/a.yaml":                 {"own": true, "outside": false, "above": true},
		} {
			for name, want := range names {
				it := &Item{File: file, identity: Identity{Name: name}, in: in}
				if it.ConvertedByPatch() != want {
					t.Errorf("%s of %s: want %t", name, file, want)
				}
			}
		}
	}
	for _, name := range []string{"below.yaml", "shared.yaml", "own.yaml", "above.yaml"} {
		if in.opened[name] != 1 {
			t.Errorf("%s was read %d times", name, in.opened[name])
		}
	}
	if in.opened["outside.yaml"]+in.opened["link.yaml"] > 0 {
		t.Errorf("files outside of the repository were read: %v", in.opened)
	}
}

// TestContentOfLimit reads a file of kustomize that is too large.
func TestContentOfLimit(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "kustomization.yaml")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int64]bool{yamlx.DefaultMaxDocument: true, yamlx.DefaultMaxDocument + 1: false} {
		if err := os.Truncate(name, size); err != nil {
			t.Fatal(err)
		}
		if _, err := contentOf(osTree{}, name); (err == nil) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
