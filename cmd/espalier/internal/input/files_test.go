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
