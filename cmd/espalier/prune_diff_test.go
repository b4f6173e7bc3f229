package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestPatches applies the output of prune -o diff with git and with patch. The result must be
// the pruned objects, in a text that prune does not change again.
func TestPatches(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/patches.txtar")
	if err != nil {
		t.Fatal(err)
	}
	crd := archive.Files[0]
	for _, tool := range [][]string{{"git", "apply", "--verbose"}, {"patch", "-p1"}, {"patch", "-p0"}} {
		if _, err := exec.LookPath(tool[0]); err != nil {
			t.Logf("%s is not installed", tool[0])
			continue
		}
		for _, f := range archive.Files[1:] {
			t.Run(strings.Join(tool, " ")+" "+f.Name, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				original := f.Data
				if strings.HasPrefix(f.Name, "crlf") {
					original = bytes.ReplaceAll(original, []byte("\n"), []byte("\r\n"))
				}
				if strings.HasPrefix(f.Name, "unended") {
					original = bytes.TrimSuffix(original, []byte("\n"))
				}
				writeFile(t, p.path("crd.yaml"), crd.Data)
				writeFile(t, p.path(f.Name), original)
				want := prunedObjects(t, p, f.Name)
				patch, code := p.run("prune", "-o", "diff", "--crd", "crd.yaml", "-f", f.Name)
				if code != 0 || patch == "" {
					t.Fatalf("exits with %d:\n%s", code, patch)
				}
				args := tool[1:]
				if tool[0] == "patch" {
					args = append(args, "--fuzz=0", "--no-backup-if-mismatch")
				}
				if len(args) > 1 && args[0] == "-p0" {
					args = append(args, f.Name) // the file is named, as for standard input
				}
				c := exec.Command(tool[0], args...)
				c.Dir, c.Stdin = p.dir, strings.NewReader(patch)
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s\n%s", err, out, patch)
				} else if strings.Contains(string(out), "offset") {
					t.Errorf("the line numbers are wrong: %s\n%s", out, patch)
				}
				if got := prunedObjects(t, p, f.Name); got != want {
					t.Errorf("got\n%s, want\n%s", got, want)
				}
				if again, code := p.run("prune", "-o", "diff", "--crd", "crd.yaml", "-f", f.Name); code != 0 || again != "" {
					t.Errorf("pruning again exits with %d:\n%s", code, again)
				}
				text := p.read(f.Name)
				for _, line := range strings.SplitAfter(string(original), "\n") {
					if strings.Contains(line, "# keep") && !strings.Contains(text, line) {
						t.Errorf("the line %q is lost:\n%s", line, text)
					}
				}
			})
		}
	}
	t.Run("standard input", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		writeFile(t, p.path("crd.yaml"), crd.Data)
		a := archive.Files[1]
		writeFile(t, p.path(a.Name), a.Data)
		fromFile, _ := p.run("prune", "-o", "diff", "--crd", "crd.yaml", "-f", a.Name)
		var out bytes.Buffer
		run := p.app(bytes.NewReader(a.Data), &out, &out)
		code := run.run(t.Context(), []string{"prune", "-o", "diff", "--crd", "crd.yaml", "-f", "-"})
		if want := strings.ReplaceAll(fromFile, a.Name, "stdin"); code != 0 || out.String() != want {
			t.Errorf("exits with %d, got\n%s, want\n%s", code, out.String(), want)
		}
	})
}

// prunedObjects returns the objects of a file as JSON, pruned.
func prunedObjects(t *testing.T, p place, file string) string {
	t.Helper()
	out, code := p.run("prune", "-o", "json", "--crd", "crd.yaml", "-f", file)
	if code != 0 {
		t.Fatalf("exits with %d:\n%s", code, out)
	}
	return out
}

// TestPatchesOutside applies patches of files that are not below the current directory with the
// commands that the patches name.
func TestPatchesOutside(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/patches.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for tool, index := range map[string]int{"git": 0, "patch": 1} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("%s is not installed", tool)
			continue
		}
		for name, paths := range map[string][]string{
			"parent":          {"../there/a b.yaml"},
			"absolute":        {"TOP/there/a b.yaml"},
			"directory":       {"../there"},
			"two directories": {"../there", "in.yaml"},
			"inside":          {"TOP/here/in.yaml"},
			"through link":    {"../there/a b.yaml"},
			"below link":      {"link/a b.yaml"},
			"linked":          {"link"},
		} {
			t.Run(tool+" "+name, func(t *testing.T) {
				top := t.TempDir()
				for _, dir := range []string{"here", "there"} {
					if err := os.Mkdir(filepath.Join(top, dir), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				t.Parallel()
				p := place{t, filepath.Join(top, "here")}
				for link, target := range map[string]string{"link": "../there", "../far/link": "../here"} {
					if err := errors.Join(os.MkdirAll(filepath.Dir(p.path(link)), 0o700), os.Symlink(target, p.path(link))); err != nil {
						t.Fatal(err)
					}
				}
				if name == "through link" {
					p.dir = filepath.Join(top, "far", "link")
				}
				writeFile(t, p.path("crd.yaml"), archive.Files[0].Data)
				writeFile(t, p.path("in.yaml"), archive.Files[1].Data)
				writeFile(t, filepath.Join(top, "there/a b.yaml"), archive.Files[1].Data)
				args := []string{"prune", "-o", "diff", "--crd", "crd.yaml"}
				for _, path := range paths {
					args = append(args, strings.Replace(path, "TOP", top, 1))
				}
				patch, code := p.run(args...)
				if code != 0 || patch == "" {
					t.Fatalf("exits with %d:\n%s", code, patch)
				}
				command := []string{"git apply", "patch -p1"}[index]
				if note, ok := strings.CutPrefix(patch, "# Apply this patch with "); ok {
					note, _, _ = strings.Cut(note, "\n")
					command = strings.Split(note, ", or ")[index]
				} else if name != "inside" {
					t.Errorf("the patch does not name a directory:\n%s", patch)
				}
				c := exec.Command("sh", "-c", command)
				c.Dir, c.Stdin = p.dir, strings.NewReader(patch)
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s\n%s", command, err, out, patch)
				}
				if again, code := p.run(args...); code != 0 || again != "" {
					t.Errorf("pruning again exits with %d:\n%s", code, again)
				}
			})
		}
	}
}

// TestPatchesNewDirectory applies the patch of generate --check for a directory that does not
// exist.
func TestPatchesNewDirectory(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed")
	}
	archive, err := txtar.ParseFile("testdata/patches.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{"../new/out", "new/out"} {
		t.Run(out, func(t *testing.T) {
			top := t.TempDir()
			writeFile(t, filepath.Join(top, "here", "crd.yaml"), archive.Files[0].Data)
			t.Parallel()
			p := place{t, filepath.Join(top, "here")}
			args := []string{"generate", "go", "--check", "-o", out, "crd.yaml"}
			patch, code := p.run(args...)
			if code != 1 {
				t.Fatalf("exits with %d:\n%s", code, patch)
			}
			command := "patch -p1"
			if note, ok := strings.CutPrefix(patch, "# Apply this patch with "); ok {
				note, _, _ = strings.Cut(note, "\n")
				_, command, _ = strings.Cut(note, ", or ")
			}
			c := exec.Command("sh", "-c", command)
			c.Dir, c.Stdin = p.dir, strings.NewReader(patch)
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v: %s\n%s", command, err, out, patch)
			}
			if again, code := p.run(args...); code != 0 {
				t.Errorf("checking again exits with %d:\n%s", code, again)
			}
		})
	}
}

// fullWriter cannot be written to.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestPruneWriteError checks that output that cannot be written is one error.
func TestPruneWriteError(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/patches.txtar")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	writeFile(t, p.path("crd.yaml"), archive.Files[0].Data)
	writeFile(t, p.path("several.yaml"), archive.Files[1].Data)
	for _, output := range []string{"json", "yaml"} {
		var stderr bytes.Buffer
		run := p.app(strings.NewReader(""), fullWriter{}, &stderr)
		code := run.run(t.Context(), []string{"prune", "-o", output, "--crd", "crd.yaml", "several.yaml"})
		if n := strings.Count(stderr.String(), "no space left"); code != 2 || n != 1 {
			t.Errorf("-o %s exits with %d and reports the error %d times:\n%s", output, code, n, stderr.String())
		}
	}
}
