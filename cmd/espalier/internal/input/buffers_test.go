package input

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBuffers reads a directory with files that are open in an editor: one that is also on disk, and
// one that is not.
func TestBuffers(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"a", "c", "sub/e"} {
		path := filepath.Join(root, name+".yaml")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("{apiVersion: v1, kind: Disk, metadata: {name: "+filepath.Base(name)+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var buffers Buffers
	for _, name := range []string{"b", "c", "sub/d"} {
		buffers.Set(filepath.Join(root, name+".yaml"), []byte("{apiVersion: v1, kind: Buffer, metadata: {name: "+filepath.Base(name)+"}}\n"))
	}
	read := func() string {
		t.Helper()
		var all []string
		flags := Flags{Paths: []string{root}, Recursive: true, Git: NewRepositories(context.Background(), "").WithBuffers(&buffers)}
		err := Read(t.Context(), nil, flags, func(it *Item) error {
			all = append(all, it.String())
			if _, again := it.Place(it.Sum()); again == (it.Kind() == "Buffer") {
				t.Errorf("%s: that it can be read again is %v", it, again)
			}
			return nil
		}, func(p Problem) { t.Error(p.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	}
	if got, want := read(), "Buffer b, Buffer c, Buffer d, Disk a, Disk e"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	buffers.Remove(filepath.Join(root, "b.yaml"))
	buffers.Remove(filepath.Join(root, "c.yaml"))
	if got, want := read(), "Buffer d, Disk a, Disk c, Disk e"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
