package input

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// commit creates a repository with files in a new directory, and removes the files.
func commit(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir = t.TempDir()
	write(t, dir, files)
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-q", "-m", "one"}, {"rm", "-q", "-r", "."}} {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func TestParseGit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"git:main:a/b.yaml":             "main a/b.yaml",
		"git:main:":                     "main ",
		"git:origin/main:a:b":           "origin/main a:b",
		"git:HEAD^{/fix: typo}:a":       "HEAD^{/fix: typo} a",
		"git:HEAD@{2026-01-02 03:04}:a": "HEAD@{2026-01-02 03:04} a",
		"git:a}b:c":                     "a}b c",
		"git://main?path=a/b.yaml":      "main a/b.yaml",
		"git://origin/main?path=a%20b":  "origin/main a b",
		"git://main":                    "main ",
		"git://main/":                   "main ",
		"git:":                          "must be git:REV:PATH",
		"git:main":                      "must be git:REV:PATH",
		"git:HEAD^{/a:b":                "must be git:REV:PATH",
		"git::a":                        "a revision is required",
		"git://?path=a":                 "must be git:REV:PATH",
		"git://main?path=%zz":           "must be git:REV:PATH",
	} {
		rev, file, err := ParseGit(name)
		got := rev + " " + file
		if err != nil {
			got = err.Error()
		}
		if got != want && !(err != nil && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"a/b.yaml", "c.yaml", "a/c.yaml"}, {"b.yaml", "../c.yaml", "../c.yaml"}, {Stdin, "c.yaml", "c.yaml"}, {"a/b.yaml", "/c.yaml", "/c.yaml"},
		{"git:main:a/b.yaml", "c.yaml", "git:main:a/c.yaml"}, {"git:main:b.yaml", "c.yaml", "git:main:c.yaml"},
		{"git:main:a/b.yaml", "../c.yaml", "git:main:c.yaml"}, {"git:main:a/b.yaml", "../../c.yaml", "git:main:../c.yaml"},
	} {
		if got := Beside(c[0], c[1]); got != c[2] {
			t.Errorf("%q: got %s", c, got)
		}
	}
}

// A revision is read like a directory on disk.
func TestRevision(t *testing.T) {
	t.Parallel()
	object := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	odd := "new\nline \"quoted\" ünï.yaml"
	large := strings.Repeat("---\n"+object("many")+"data: {a: "+strings.Repeat("x", 1000)+"}\n", 2000)
	dir := commit(t, map[string]string{"a.yaml": object("a"), "b/" + odd: object("odd"), "b/c/large.yaml": large + "---\n" + object("last"), "b/d.txt": "no"})
	for _, shared := range []bool{true, false} {
		flags := Flags{Paths: []string{"git:main:b"}, Recursive: true, GitDir: dir}
		if shared {
			flags.GitDir, flags.Git = "", in(t, dir)
		}
		count, last := map[string]int{}, Place{}
		err := Read(t.Context(), nil, flags, func(it *Item) error {
			count[it.File+" "+it.Name()]++
			place, ok := it.Place(it.Sum())
			if it.Named() || !ok {
				t.Errorf("%s: named is %v, that it can be read again %v", it.File, it.Named(), ok)
			}
			last = place
			return nil
		}, func(p Problem) { t.Error(p.Error()) })
		want := map[string]int{"git:main:b/c/large.yaml many": 2000, "git:main:b/c/large.yaml last": 1, "git:main:b/" + odd + " odd": 1}
		if err != nil || fmt.Sprint(count) != fmt.Sprint(want) {
			t.Errorf("got %v and %v, want %v", count, err, want)
		}
		if last.identity.Name != "odd" {
			t.Errorf("the last is %s", last.identity.Name)
		}
		if it, err := last.Read(); err != nil || it.Name() != "odd" || it.Position("").Value.Line != 1 {
			t.Errorf("got %v and %v", it, err)
		}
		if shared {
			if err := flags.Git.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// An object in a large file of a revision is found again.
func TestPlaceInLargeRevision(t *testing.T) {
	t.Parallel()
	object := func(name string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	dir := commit(t, map[string]string{"large.yaml": strings.Repeat(object("many")+"data: {a: "+strings.Repeat("x", 1000)+"}\n---\n", 2000) + object("last")})
	ctx, cancel := context.WithCancel(t.Context())
	flags := Flags{Paths: []string{"git:HEAD:large.yaml"}, Git: in(t, dir)}
	var places []Place
	work := func(d *Document) []*Item {
		items, _ := d.Items()
		return items
	}
	err := Parallel(ctx, nil, flags, work, func(items []*Item) error {
		for _, it := range items {
			if place, ok := it.Place(it.Sum()); ok && it.Named() {
				places = append(places, place)
			}
		}
		return nil
	}, func(p Problem) { t.Error(p.Error()) })
	// What is read again does not depend on the context of the first read.
	cancel()
	if err != nil || len(places) != 2001 {
		t.Fatalf("got %d objects and %v", len(places), err)
	}
	for _, i := range []int{0, 1000, 2000} {
		it, err := places[i].Read()
		if err != nil {
			t.Fatal(err)
		}
		if want := 5*i + 1; it.Doc.Line() > want || it.Position("").Value.Line != want {
			t.Errorf("object %d is in line %d, want %d", i, it.Position("").Value.Line, want)
		}
	}
	if err := flags.Git.Close(); err != nil {
		t.Error(err)
	}
}
