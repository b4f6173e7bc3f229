package input

import (
	"os"
	"path/filepath"
	"testing"

	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

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
