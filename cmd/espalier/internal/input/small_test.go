package input

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadSmall checks that only a regular file of the expected size is read at once: all others are left
// to the code that knows what to do with them.
func TestReadSmall(t *testing.T) {
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	write := func(base, text string) {
		if err := os.WriteFile(name(base), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "kind: A\n")
	if text, ok := readSmall(name("a.yaml"), 8, nil); string(text) != "kind: A\n" || !ok {
		t.Fatalf("got %q, %v", text, ok)
	}
	if err := os.Symlink("missing", name("dangling.yaml")); err != nil {
		t.Fatal(err)
	}
	for what, try := range map[string]struct {
		name string
		size int64
	}{
		"has grown":      {"a.yaml", 7},
		"has shrunk":     {"a.yaml", 9},
		"has vanished":   {"b.yaml", 8},
		"is a link":      {"dangling.yaml", 8},
		"is a directory": {".", 8},
	} {
		if text, ok := readSmall(name(try.name), try.size, nil); ok {
			t.Errorf("a file that %s: got %q", what, text)
		}
	}
	if err := syscall.Mkfifo(name("fifo.yaml"), 0o600); err != nil {
		t.Skip(err)
	}
	if text, ok := readSmall(name("fifo.yaml"), 8, nil); ok {
		t.Errorf("a FIFO: got %q", text)
	}
}

// TestReplaced checks that a file that changes after its directory was read is read as it is then.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	for _, text := range []string{"kind: B\n", "kind: Changed\n", "kind: C # " + strings.Repeat("x", 100) + "\n"} {
		if err := os.WriteFile(path, []byte("kind: A\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f := file{path: path, in: osTree{}, size: plainSize(osTree{}, info)}
		if f.size != 8 {
			t.Fatalf("the size of a small file is %d, want 8", f.size)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got string
		r := &reader{ctx: t.Context(), flags: &Flags{}, visit: func(d *Document) error { got += string(d.Source()); return nil },
			problem: func(p Problem) { t.Error(p.Message) }}
		if err := r.file(f); err != nil || got != text {
			t.Errorf("got %q, %v, want %q", got, err, text)
		}
	}
	// The text of an editor takes precedence over the file.
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := plainSize(osTree{buffers: new(Buffers)}, info); got != 0 {
		t.Errorf("with buffers, the size is %d, want 0", got)
	}
}
