package input

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// in returns the repositories of commands with a working directory.
func in(t *testing.T, dir string) *Repositories {
	r := NewRepositories(t.Context(), workdir.Dir(dir))
	t.Cleanup(func() { _ = r.Close() }) // only processes end
	return r
}

// readAll returns the kinds of the objects and the problems, read with and without
// concurrency, which must agree. Paths are relative to a directory.
func readAll(t *testing.T, dir string, flags Flags) (kinds, problems []string) {
	t.Helper()
	flags.Git = in(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	visit := func(items []*Item) {
		for _, it := range items {
			kinds = append(kinds, it.Kind())
		}
	}
	problem := func(p Problem) { problems = append(problems, p.Error()) }
	if err := Read(ctx, strings.NewReader(""), flags, func(it *Item) error {
		visit([]*Item{it})
		return nil
	}, problem); err != nil {
		t.Fatalf("%+v: %v", flags, err)
	}
	firstKinds, firstProblems := kinds, problems
	kinds, problems = nil, nil
	type result struct {
		items   []*Item
		problem *Problem
	}
	err := Parallel(ctx, strings.NewReader(""), flags, func(d *Document) (r result) {
		r.items, r.problem = d.Items()
		return r
	}, func(r result) error {
		visit(r.items)
		if r.problem != nil {
			problem(*r.problem)
		}
		return nil
	}, problem)
	if err != nil || !slices.Equal(kinds, firstKinds) || !slices.Equal(problems, firstProblems) {
		t.Errorf("%+v: Parallel gives %q, %q, %v; Read gives %q, %q", flags, kinds, problems, err, firstKinds, firstProblems)
	}
	return kinds, problems
}

// TestExclude skips files and directories in every form that patterns can have.
func TestExclude(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"top/a.yaml": "kind: A", "top/b.yaml": "kind: B", "top/gen/c.yaml": "kind: C", "top/x/gen/d.yaml": "kind: D", "top/x/y/gen.yaml": "kind: E",
		"top/x/z/.yaml": "kind: F",
	})
	for pattern, want := range map[string]string{
		"none":             "A B C D E F",
		"b.yaml":           "A C D E F",
		"*.yaml":           "",
		"[bc].yaml":        "A D E F",
		"gen":              "A B E F",
		"gen/":             "A B E F",
		"gen*":             "A B F",
		"gen*/":            "A B E F",
		"/gen":             "A B D E F",
		"gen/*.yaml":       "A B D E F",
		"gen/**":           "A B D E F",
		"./gen/c.yaml":     "A B D E F",
		"**/gen":           "A B E F",
		"**/gen/*.yaml":    "A B E F",
		"x/**/gen*":        "A B C F",
		"x/**":             "A B C",
		"**/y/**":          "A B C D F",
		"**":               "",
		"top/gen/c.yaml":   "A B C D E F",
		"x/*/*.yaml":       "A B C",
		"x/?/gen.yaml":     "A B C D F",
		"*/gen/d.y[!x]*ml": "A B C E F",
	} {
		kinds, problems := readAll(t, dir, Flags{Paths: []string{"top"}, Recursive: true, Exclude: []string{pattern}})
		if got := strings.Join(kinds, " "); got != want || len(problems) > 0 {
			t.Errorf("%s: got %s %q, want %s", pattern, got, problems, want)
		}
	}
	for pattern, want := range map[string]string{"gen": "A", "top/gen/*": "A", "top/**": "", "c.yaml": "A", "**/gen/": "A", "top": ""} {
		kinds, _ := readAll(t, dir, Flags{Paths: []string{"top/a.yaml", "./top/gen/c.yaml"}, Exclude: []string{pattern}})
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s with files: got %s, want %s", pattern, got, want)
		}
	}
	for _, pattern := range []string{"[", "a/[x", "", "a//b"} {
		if err := Read(t.Context(), nil, Flags{Paths: []string{"top"}, Exclude: []string{pattern}, Git: in(t, dir)}, nil, nil); err == nil {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

// TestSpecialFiles makes sure that files that block or never end are problems, whether they
// are named or found in a directory.
func TestSpecialFiles(t *testing.T) {
	t.Parallel()
	// The path of a socket must be short.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o644); err != nil {
		t.Skip(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for from, to := range map[string]string{"loop-a.yaml": "loop-b.yaml", "loop-b.yaml": "loop-a.yaml", "zero.yaml": "/dev/zero"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"fifo.yaml: cannot read: it is a FIFO: pipe its content to standard input with -f -",
		"loop-a.yaml: cannot read: too many levels of symbolic links",
		"loop-b.yaml: cannot read: too many levels of symbolic links",
		"socket.yaml: cannot read: it is a socket: pipe its content to standard input with -f -",
		"zero.yaml: cannot read: it is a device: pipe its content to standard input with -f -",
	}
	var paths []string
	for _, problem := range want {
		path, _, _ := strings.Cut(problem, ":")
		paths = append(paths, path)
	}
	for _, paths := range [][]string{paths, {"."}} {
		if _, problems := readAll(t, dir, Flags{Paths: paths}); !slices.Equal(problems, want) {
			t.Errorf("%q: got %q", paths, problems)
		}
	}
	for _, path := range paths {
		if _, err := in(t, dir).ReadFile(path); err == nil {
			t.Errorf("ReadFile(%s) succeeds", path)
		}
	}
}

// TestShellPipe reads the pipe of a process substitution.
func TestShellPipe(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/fd/0"); err != nil {
		t.Skip(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("kind: A\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var kinds []string
	path := filepath.Join("/dev/fd", strconv.Itoa(int(r.Fd())))
	err = Read(t.Context(), nil, Flags{Paths: []string{path}}, func(it *Item) error {
		kinds = append(kinds, it.Kind())
		return nil
	}, func(p Problem) { t.Error(p.Error()) })
	if err != nil || !slices.Equal(kinds, []string{"A"}) {
		t.Errorf("got %q, %v", kinds, err)
	}
}

// TestPermission reads files and directories without permission, as another user than root,
// whom permissions do not concern.
func TestPermission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"dir/a.yaml": "kind: A", "dir/closed.yaml": "kind: B", "dir/locked/c.yaml": "kind: C"})
	// The other user can reach the directory.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"dir/closed.yaml": 0, "dir/locked": 0} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = os.Chmod(filepath.Join(dir, "dir/locked"), 0o755) }()
	var kinds, problems []string
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine, because it stays locked.
		runtime.LockOSThread()
		if os.Geteuid() == 0 {
			if err := dropPrivileges(); err != nil {
				done <- err
				return
			}
		}
		done <- Read(context.Background(), nil, Flags{Paths: []string{"dir", "dir/closed.yaml"}, Recursive: true, Git: in(t, dir)}, func(it *Item) error {
			kinds = append(kinds, it.Kind())
			return nil
		}, func(p Problem) { problems = append(problems, p.Error()) })
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	want := []string{"dir/closed.yaml: cannot read: permission denied", "dir/locked: cannot read: permission denied"}
	if !slices.Equal(problems, want) || !slices.Equal(kinds, []string{"A"}) {
		t.Errorf("got %q, %q", kinds, problems)
	}
}

// TestVanishing removes a directory while it is read.
func TestVanishing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"dir/a.yaml": "kind: A", "dir/b.yaml": "kind: B", "dir/sub/c.yaml": "kind: C"})
	var problems []string
	err := Read(t.Context(), nil, Flags{Paths: []string{"dir", "dir"}, Recursive: true, Git: in(t, dir)}, func(*Item) error { return os.RemoveAll(filepath.Join(dir, "dir")) },
		func(p Problem) { problems = append(problems, p.Error()) })
	want := []string{"dir/b.yaml: cannot read: no such file or directory", "dir: cannot read: no such file or directory"}
	if err != nil || !slices.Equal(problems, want) {
		t.Errorf("got %q, %v", problems, err)
	}
}

// TestKeep names files of all kinds, of which only manifests or CRDs are read.
func TestKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"binary.yaml":    "\x7fELF\x00\x01",
		"broken.yaml":    "a: [\n",
		"brokenobj.yaml": "apiVersion: v1\nkind: [X\n",
		"brokencrd.yaml": "apiVersion: v1\nkind: [CustomResourceDefinition\n",
		"crd.yaml":       "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n",
		"empty.yaml":     "",
		"latin.yaml":     "a: \xe4\n",
		"list.yaml":      "- apiVersion: v1\n  kind: X\n",
		"object.yaml":    "apiVersion: v1\nkind: A\n---\nvalues: 1\n---\nkind: B\n---\nkind: C\nmetadata: {}\n---\napiVersion: v2\nname: chart\n---\nkind: [\n",
		"template.yaml":  "{{ if x }}\napiVersion: v1\nkind: CustomResourceDefinition\n{{ end }}\n",
	})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, e := range entries {
		paths = append(paths, e.Name())
	}
	for keep, want := range map[Filter]string{
		Manifests:   "CustomResourceDefinition A C; brokencrd.yaml brokenobj.yaml",
		Definitions: "CustomResourceDefinition; brokencrd.yaml",
	} {
		kinds, problems := readAll(t, dir, Flags{Paths: paths, Keep: keep})
		for i := range problems {
			problems[i], _, _ = strings.Cut(problems[i], ":")
		}
		if got := strings.Join(kinds, " ") + "; " + strings.Join(problems, " "); got != want {
			t.Errorf("%d: got %s, want %s", keep, got, want)
		}
	}
}
