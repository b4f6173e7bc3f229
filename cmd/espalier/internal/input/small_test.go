package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplaced checks that a file that changes after its directory was read is read as it is then.
func TestReplaced(t *testing.T) {
	t.Parallel()
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
