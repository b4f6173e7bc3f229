package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSpecialFiles names paths that block or never end in all flags and arguments of all
// commands.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Abs("testdata/examples")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	if err := os.CopyFS(p.dir, os.DirFS(examples)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(p.path("fifo.yaml"), 0o644); err != nil {
		t.Skip(err)
	}
	for from, to := range map[string]string{"loop.yaml": "pool.yaml", "pool.yaml": "loop.yaml"} {
		if err := os.Symlink(to, p.path(from)); err != nil {
			t.Fatal(err)
		}
	}
	p.write("fifo-suite.yaml", "apiVersion: espalier.dev/v1\nkind: TestSuite\ncrd: fifo.yaml\nbase: {}\nvalid: [{name: a}]\n")
	p.write("zero-suite.yaml", "apiVersion: espalier.dev/v1\nkind: TestSuite\ncrd: crontab-crd.yaml\nvalid: [{name: a, object: /dev/zero}]\n")
	for path, reason := range map[string]string{"fifo.yaml": "it is a FIFO", "/dev/zero": "it is a device", "loop.yaml": "too many levels of symbolic links"} {
		for _, line := range []string{
			"lint PATH", "lint -f PATH", "fix PATH", "fix --write PATH", "show core PATH", "test PATH", "explain --crd PATH ct",
			"validate --crd crontab-crd.yaml PATH", "validate --crd PATH crontab.yaml", "validate --crd crontab-crd.yaml --old PATH crontab.yaml",
			"validate crontab.yaml PATH", "prune --crd crontab-crd.yaml PATH", "prune --crd PATH crontab.yaml", "prune -o diff --crd crontab-crd.yaml PATH",
			"diff PATH new-crd.yaml", "diff old-crd.yaml PATH", "diff old-crd.yaml new-crd.yaml --objects PATH",
		} {
			out, code := p.run(strings.Fields(strings.ReplaceAll(line, "PATH", path))...)
			if code != 2 || !strings.Contains(out, path+": error: cannot read: "+reason) {
				t.Errorf("$ espalier %s\nexits with %d:\n%s", strings.ReplaceAll(line, "PATH", path), code, out)
			}
		}
	}
	for file, want := range map[string]string{"fifo-suite.yaml": "it is a FIFO", "zero-suite.yaml": "it is a device"} {
		if out, code := p.run("test", file); code == 0 || !strings.Contains(out, want) {
			t.Errorf("$ espalier test %s\nexits with %d:\n%s", file, code, out)
		}
	}
}
