package git_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/git"
)

// sandbox is a directory with Git repositories.
type sandbox struct {
	t   *testing.T
	dir string
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &sandbox{t, dir}
}

// git runs git in a directory of the sandbox.
func (s *sandbox) git(dir string, args ...string) string {
	s.t.Helper()
	c := exec.CommandContext(s.t.Context(), "git", append([]string{"-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	c.Dir = filepath.Join(s.dir, dir)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_ALLOW_PROTOCOL=file")
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// write writes files.
func (s *sandbox) write(dir string, files map[string]string) {
	s.t.Helper()
	for name, text := range files {
		name = filepath.Join(s.dir, dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
}

// link creates a symbolic link.
func (s *sandbox) link(target, name string) {
	s.t.Helper()
	if err := os.Symlink(target, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// remove removes a file or directory.
func (s *sandbox) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// commit commits everything in a repository, which it creates, and returns the ID.
func (s *sandbox) commit(dir string, files map[string]string) string {
	s.t.Helper()
	s.write(dir, files)
	if _, err := os.Stat(filepath.Join(s.dir, dir, ".git")); err != nil {
		s.write(dir, nil)
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.git(dir, "init", "-q", "-b", "main")
		// Users have settings that change the output of commands for people.
		for _, setting := range []string{"core.quotePath=true", "diff.renames=copies", "diff.noprefix=true", "diff.external=false",
			"color.ui=always", "core.pager=false", "diff.relative=true", "status.showUntrackedFiles=no"} {
			name, value, _ := strings.Cut(setting, "=")
			s.git(dir, "config", name, value)
		}
	}
	s.git(dir, "add", "-A")
	s.git(dir, "commit", "-q", "--allow-empty", "-m", "change")
	return s.git(dir, "rev-parse", "HEAD")
}

func (s *sandbox) open(dir string) *git.Repository {
	s.t.Helper()
	r, err := git.Open(s.t.Context(), "", filepath.Join(s.dir, dir))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return r
}

// content returns the content of a file of a revision.
func content(t *testing.T, r *git.Repository, rev, name string) (string, error) {
	t.Helper()
	tree, err := r.Tree(t.Context(), rev)
	if err != nil {
		return "", err
	}
	in, size, err := tree.Open(t.Context(), name)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err == nil && int64(len(text)) != size {
		t.Errorf("%s: got %d bytes, want %d", name, len(text), size)
	}
	return string(text), err
}

// names returns the entries of a directory, with / for directories, @ for links and ! for
// submodules.
func names(t *testing.T, tree *git.Tree, dir string) (all []string) {
	t.Helper()
	entries, err := tree.ReadDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		mark := map[fs.FileMode]string{fs.ModeDir: "/", fs.ModeSymlink: "@", git.Submodule: "!"}[e.Mode.Type()]
		all = append(all, e.Name+mark)
	}
	return all
}

func expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// odd is a file name that commands for people quote.
const odd = "sp ace \"quoted\" \t\n'ünï✓'.yaml"

// fixedTime is a time that no file of a test has.
var fixedTime = time.Unix(1e9, 0)

func TestTree(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	first := s.commit("r", map[string]string{"a.yaml": "one", "dir/b.yaml": "b", "dir-x/c": "c", "dir.x": "d", odd: "odd"})
	s.link("../dir/b.yaml", "r/dir-x/link")
	s.link("../dir", "r/dir-x/directory")
	s.link("loop", "r/loop")
	s.link("../../outside", "r/dir/out")
	s.link("/etc/passwd", "r/dir/absolute")
	s.link("missing", "r/dir/dangling")
	second := s.commit("r", map[string]string{"a.yaml": "two", "large": strings.Repeat("0123456789abcdef", 1<<18)})
	s.git("r", "tag", "-a", "-m", "a tag", "v1", first)
	r := s.open("r/dir")
	if r.Root() != filepath.Join(s.dir, "r") || r.Prefix() != "dir/" {
		t.Errorf("got root %s and prefix %s", r.Root(), r.Prefix())
	}
	for rev, want := range map[string]string{"HEAD": second, "main": second, "HEAD~1": first, "v1": first, "HEAD^{/change}": second,
		first[:9]: first} {
		if got, err := r.Resolve(t.Context(), rev); err != nil || got != want {
			t.Errorf("Resolve(%s): got %s and %v, want %s", rev, got, err, want)
		}
	}
	for name, want := range map[string]string{"a.yaml": "two", "./dir//b.yaml": "b", "dir/../dir/b.yaml": "b", odd: "odd",
		"dir-x/link": "b", "dir-x/directory/b.yaml": "b"} {
		if got, err := content(t, r, "HEAD", name); err != nil || got != want {
			t.Errorf("%s: got %q and %v, want %q", name, got, err, want)
		}
	}
	if got, err := content(t, r, "v1", "a.yaml"); err != nil || got != "one" {
		t.Errorf("a.yaml of v1: got %q and %v", got, err)
	}
	if got, err := content(t, r, "HEAD", "large"); err != nil || len(got) != 4<<20 {
		t.Errorf("large: got %d bytes and %v", len(got), err)
	}
	for name, want := range map[string]string{"nope": "no such file or directory in HEAD", "a.yaml/x": "no such file", "dir": "it is a directory",
		"loop": "too many symbolic links", "dir/out": "outside of the repository", "dir/absolute": "leads out of the repository",
		"dir/dangling": "no such file", "..": "outside of the repository"} {
		_, err := content(t, r, "HEAD", name)
		expect(t, name, err, want)
		if got := errors.Is(err, fs.ErrNotExist); got != strings.Contains(want, "no such file") {
			t.Errorf("%s: that it does not exist is %v", name, got)
		}
	}
	tree, err := r.Tree(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, tree, ""), []string{"a.yaml", "dir/", "dir-x/", "dir.x", "large", "loop@", odd}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := names(t, tree, "dir-x/directory"), []string{"absolute@", "b.yaml", "dangling@", "out@"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, real, err := tree.Find(t.Context(), "dir-x/directory/b.yaml"); err != nil || real != "dir/b.yaml" {
		t.Errorf("got %s and %v", real, err)
	}
}

// IDs can be SHA-256, and settings for debugging do not matter.
func TestSHA256(t *testing.T) {
	s := newSandbox(t)
	t.Setenv("GIT_DEFAULT_HASH", "sha256")
	commit := s.commit("r", map[string]string{"a": "1", "touched": "t", "dir/b": "b"})
	if len(commit) != 64 {
		t.Skip("this git has no SHA-256")
	}
	t.Setenv("GIT_TRACE", "1")
	t.Setenv("GIT_PAGER", "false")
	t.Setenv("GIT_EXTERNAL_DIFF", "false")
	s.write("r", map[string]string{"a": "2"})
	if err := os.Chtimes(filepath.Join(s.dir, "r/touched"), fixedTime, fixedTime); err != nil {
		t.Fatal(err)
	}
	r := s.open("r")
	if got, err := content(t, r, "HEAD", "dir/b"); err != nil || got != "b" {
		t.Errorf("got %q and %v", got, err)
	}
	if got, err := r.Changes(t.Context(), commit); err != nil || !reflect.DeepEqual(got, []git.Change{{Old: "a", New: "a"}}) {
		t.Errorf("got %v and %v", got, err)
	}
}

// A large object that is being read holds up nobody, and its process ends.
func TestLarge(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.commit("r", map[string]string{"a": "a", "large": strings.Repeat("0123456789abcdef", 1<<18)})
	r := s.open("r")
	tree, err := r.Tree(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	large, _, err := tree.Open(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	start := make([]byte, 16)
	if _, err := io.ReadFull(large, start); err != nil || string(start) != "0123456789abcdef" {
		t.Errorf("got %q and %v", start, err)
	}
	if got, err := content(t, r, "HEAD", "a"); err != nil || got != "a" {
		t.Errorf("got %q and %v", got, err)
	}
	if err := large.Close(); err != nil {
		t.Error(err)
	}
	// A closed repository starts another process.
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if got, err := content(t, r, "HEAD", "a"); err != nil || got != "a" {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestUnknownRevisions(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.commit("r", map[string]string{"a": "a"})
	s.git("r", "remote", "add", "origin", "../none")
	r := s.open("r")
	for rev, want := range map[string]string{
		"nope": "unknown revision nope", "-x": "unknown revision -x", "--help": "unknown revision --help", "--output=x": "unknown",
		"": "empty", "a\nHEAD": "unknown", "HEAD:a": "HEAD:a is a blob, not a commit",
		"origin/main": "fetch it with git fetch origin main", "HEAD~1": "unknown revision HEAD~1", strings.Repeat("0", 40): "unknown",
	} {
		_, err := r.Resolve(t.Context(), rev)
		expect(t, rev, err, want)
		_, err = r.MergeBase(t.Context(), rev)
		expect(t, rev, err, want)
	}
	if files, _ := filepath.Glob(filepath.Join(s.dir, "r", "*")); len(files) != 2 {
		t.Errorf("got files %q", files)
	}
}

func TestMergeBase(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	base := s.commit("r", map[string]string{"a": "a"})
	s.git("r", "checkout", "-q", "-b", "topic")
	s.commit("r", map[string]string{"b": "b"})
	s.git("r", "checkout", "-q", "main")
	main := s.commit("r", map[string]string{"c": "c"})
	s.git("r", "checkout", "-q", "topic")
	r := s.open("r")
	if got, err := r.MergeBase(t.Context(), "main"); err != nil || got != base {
		t.Errorf("got %s and %v, want %s", got, err, base)
	}
	s.git("r", "merge", "-q", "-m", "merge", "main")
	if got, err := r.MergeBase(t.Context(), "main"); err != nil || got != main {
		t.Errorf("got %s and %v, want %s", got, err, main)
	}
	if short, err := r.Short(t.Context(), main); err != nil || short != main[:12] {
		t.Errorf("got %s and %v", short, err)
	}
	s.git("r", "tag", main[:12], base)
	if short, err := r.Short(t.Context(), main); err != nil || short != main {
		t.Errorf("with a tag that has the name of the abbreviation: got %s and %v", short, err)
	}
	s.git("r", "checkout", "-q", "--orphan", "other")
	_, err := r.MergeBase(t.Context(), "main")
	expect(t, "a branch without commits", err, "HEAD has no commit")
	s.commit("r", map[string]string{"d": "d"})
	_, err = r.MergeBase(t.Context(), "main")
	expect(t, "unrelated histories", err, "their histories have no common commit")
}

func TestChanges(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	commit := s.commit("r", map[string]string{"same": "same", "changed": "1", "removed": "removed", "renamed": "a\nb\nc\n", "staged": "1",
		"touched": "touched", "kept": "kept", "untracked": "1", "mode": "mode", "becomes-link": "file", "committed": "1", odd: "1",
		".gitignore": "ignored\nbuild/\n"})
	s.commit("r", map[string]string{"committed": "2", "new-committed": "1"})
	s.git("r", "mv", "renamed", "moved")
	s.remove("r/removed")
	s.remove("r/becomes-link")
	s.link("same", "r/becomes-link")
	s.git("r", "rm", "-q", "--cached", "kept", "untracked")
	s.write("r", map[string]string{"intended": "1", "changed": "2", "staged": "2", "staged-new": "1", odd: "2", "new " + odd: "n", "dir/new": "n", "ignored": "i",
		"build/x": "i", "untracked": "2"})
	s.git("r", "add", "staged", "staged-new")
	s.git("r", "add", "--intent-to-add", "intended")
	s.commit("r/nested", map[string]string{"x": "x"})
	if err := os.Chtimes(filepath.Join(s.dir, "r/touched"), fixedTime, fixedTime); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s.dir, "r/mode"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := s.git("r", "status", "--porcelain")
	index, err := os.ReadFile(filepath.Join(s.dir, "r/.git/index"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.open("r/dir").Changes(t.Context(), commit)
	if err != nil {
		t.Fatal(err)
	}
	both := func(name string) git.Change { return git.Change{Old: name, New: name} }
	want := []git.Change{both("becomes-link"), both("changed"), both("committed"), {New: "dir/new"}, {New: "intended"}, {New: "moved"}, {New: "new " + odd},
		{New: "new-committed"}, {Old: "removed"}, {Old: "renamed"}, both(odd), both("staged"), {New: "staged-new"}, both("untracked")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
	after, err := os.ReadFile(filepath.Join(s.dir, "r/.git/index"))
	if err != nil || string(after) != string(index) {
		t.Errorf("the index has changed: %v", err)
	}
	if now := s.git("r", "status", "--porcelain"); now != before {
		t.Errorf("the status has changed:\n%s\nwas\n%s", now, before)
	}
}

// A file in conflict is changed.
func TestConflict(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	base := s.commit("r", map[string]string{"a": "1", "b": "1"})
	s.git("r", "checkout", "-q", "-b", "topic")
	s.commit("r", map[string]string{"a": "2"})
	s.remove("r/b")
	s.commit("r", nil)
	s.git("r", "checkout", "-q", "main")
	s.commit("r", map[string]string{"a": "3", "b": "3"})
	c := exec.CommandContext(t.Context(), "git", "merge", "-q", "topic")
	c.Dir = filepath.Join(s.dir, "r")
	c.Env = append(os.Environ(), "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if err := c.Run(); err == nil {
		t.Fatal("there is no conflict")
	}
	got, err := s.open("r").Changes(t.Context(), base)
	if want := []git.Change{{Old: "a", New: "a"}, {Old: "b", New: "b"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

// Files that a sparse checkout leaves out have not changed.
func TestSparseCheckout(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	base := s.commit("r", map[string]string{"in/a": "1", "out/a": "1", "out/b": "1"})
	s.commit("r", map[string]string{"in/a": "2", "out/a": "2", "out/c": "1"})
	s.git("r", "sparse-checkout", "set", "in")
	got, err := s.open("r").Changes(t.Context(), base)
	if want := []git.Change{{Old: "in/a", New: "in/a"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	s.commit("r", map[string]string{"a": "a"})
	r := s.open("r")
	ctx, cancel := context.WithCancel(t.Context())
	tree, err := r.Tree(ctx, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, _, err := tree.Open(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Changes(ctx, "HEAD"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, err := content(t, r, "HEAD", "a"); err != nil || got != "a" {
		t.Errorf("got %q and %v", got, err)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := newSandbox(t)
	files := map[string]string{}
	for i := range 50 {
		files[fmt.Sprintf("dir%d/%d", i%7, i)] = strings.Repeat(fmt.Sprint(i), 100*i)
	}
	s.commit("r", files)
	r := s.open("r")
	t.Run("files", func(t *testing.T) {
		for name, want := range files {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if got, err := content(t, r, "HEAD", name); err != nil || got != want {
					t.Errorf("got %d bytes and %v, want %d", len(got), err, len(want))
				}
			})
		}
	})
}
