package main

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// TestZip makes the zip file of the module, and lists the packages of the program in it: all
// files that they embed must be there, and go.sum must be complete.
func TestZip(t *testing.T) {
	const root, version = "../../..", "v1.0.0"
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil && os.Getenv("CI") == "" {
		t.Skip("not in a clone")
	}
	archive, _, err := create(root, version)
	if err != nil {
		t.Fatal(err)
	}
	const most = 20 << 20
	if len(archive) > most {
		t.Errorf("the zip file has %d bytes, more than %d", len(archive), most)
	}
	path, dir := filepath.Join(t.TempDir(), "m.zip"), filepath.Join(t.TempDir(), "m")
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := modzip.Unzip(dir, module.Version{Path: modulePath, Version: version}, path); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{if .EmbedFiles}}{{.ImportPath}} {{.EmbedFiles}}{{end}}", "./cmd/...", ".", "./espaliertest")
	list.Dir = dir
	list.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, want := range []string{"espalier.dev/analysis/lint [docs/", "espalier.dev/kinds/releases [fields.txt kinds.txt]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestCreate checks what a module must not have.
func TestCreate(t *testing.T) {
	for name, test := range map[string]struct {
		mod, file, want string
	}{
		"good":      {"module espalier.dev\n", "a.txt", ""},
		"replace":   {"module espalier.dev\nreplace a.com/b => ../b\n", "a.txt", "replace or exclude"},
		"exclude":   {"module espalier.dev\nexclude a.com/b v1.0.0\n", "a.txt", "replace or exclude"},
		"file name": {"module espalier.dev\n", "a:b.txt", "cannot be downloaded"},
		"module":    {"module example.com\n", "a.txt", "not espalier.dev"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"go.mod": test.mod, test.file: "text", "sub/go.mod": "module espalier.dev/sub\n", "sub/b.txt": "text"} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
				if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			archive, _, err := create(dir, "v1.0.0")
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range r.File {
				names = append(names, strings.TrimPrefix(f.Name, "espalier.dev@v1.0.0/"))
			}
			if got := strings.Join(names, " "); got != "a.txt go.mod" {
				t.Errorf("the zip file has %s", got)
			}
		})
	}
}
