package git_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/git"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// Git does not read the repositories of other users.
func TestOtherOwner(t *testing.T) {
	s := newSandbox(t)
	s.commit("r", map[string]string{"dir/a": "a"})
	t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "true")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	_, err := git.Open(t.Context(), "", filepath.Join(s.dir, "r/dir"))
	expect(t, "the repository of another user", err, "git config --global --add safe.directory "+filepath.Join(s.dir, "r"))
	if err != nil && strings.HasSuffix(err.Error(), "dir") {
		t.Errorf("got %v", err)
	}
}

// No process outlives the repository, or a context.
func TestProcessesEnd(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("there is no /proc")
	}
	s := newSandbox(t)
	s.commit("r", map[string]string{"a": "a", "large": strings.Repeat("0123456789abcdef", 1<<18)})
	before := children(t)
	for _, closed := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := git.Open(ctx, "", filepath.Join(s.dir, "r"))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := r.Tree(ctx, "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		large, _, err := tree.Open(ctx, "large")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := content(t, r, "HEAD", "a"); err != nil {
			t.Fatal(err)
		}
		if now := children(t); now != before+2 {
			t.Errorf("there are %d processes, and were %d", now, before)
		}
		if closed {
			large.Close()
			r.Close()
		} else {
			cancel()
			// The process may still be writing.
			if _, err := io.Copy(io.Discard, large); err == nil {
				t.Log("the object was read before the process ended")
			}
			large.Close()
			r.Close()
		}
		if now := children(t); now != before {
			t.Errorf("closed %v: there are %d processes, and were %d", closed, now, before)
		}
		cancel()
	}
}

// children returns the number of processes that this one has started.
func children(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// PID (NAME) STATE PARENT
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == fmt.Sprint(os.Getpid()) {
			n++
		}
	}
	return n
}

// A git that fails, hangs or answers something else is an error, and no process remains.
func TestFaultyGit(t *testing.T) {
	s := newSandbox(t)
	s.commit("r", map[string]string{"a": "a"})
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for fault, want := range map[string]string{
		"echo fatal: boom >&2; exit 128": "git cat-file: boom", "exit 0": "EOF", "echo some other words": `unexpected output "some other words\n"`,
		"echo 0123 commit -5": "unexpected output", "echo 0123 commit 5; echo ab": "EOF", "exec sleep 100": context.Canceled.Error(),
	} {
		script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *cat-file*) read line; %s;; *) exec %s \"$@\";; esac\n", fault, program)
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := git.Open(ctx, "", filepath.Join(s.dir, "r"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fault, "sleep") {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		_, err = r.Resolve(ctx, "HEAD")
		expect(t, fault, err, want)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// Hooks have variables that name a repository.
func TestEnvironmentOfHooks(t *testing.T) {
	s := newSandbox(t)
	s.commit("r", map[string]string{"dir/a": "a"})
	s.commit("other", map[string]string{"b": "b"})
	current := workdir.Dir(filepath.Join(s.dir, "r", "dir"))
	t.Setenv("GIT_DIR", "../.git")
	t.Setenv("GIT_WORK_TREE", "..")
	t.Setenv("GIT_INDEX_FILE", "../.git/index")
	s.write("r", map[string]string{"dir/a": "b"})
	r, err := git.Open(t.Context(), current, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := r.Changes(t.Context(), "HEAD"); err != nil || !reflect.DeepEqual(got, []git.Change{{Old: "dir/a", New: "dir/a"}}) {
		t.Errorf("got %v and %v", got, err)
	}
	other, err := git.Open(t.Context(), current, filepath.Join(s.dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got, err := content(t, other, "HEAD", "b"); err != nil || got != "b" || other.Root() != filepath.Join(s.dir, "other") {
		t.Errorf("got %q, %v and root %s", got, err, other.Root())
	}
}
