package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamlx"
)

// TestAssembleMany edits all documents of a large file, some of which have the same text. The
// time grows with the size of the file, not with its square.
func TestAssembleMany(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	body := "# " + strings.Repeat("x\n# ", 500) + "\n"
	measure := func(n int) time.Duration {
		old := strings.Repeat("a: 0\n"+body+"---\na: 1\n"+body+"---\n", n/2)
		want := strings.ReplaceAll(old, "a: 1", "b: 1")
		var documents []editedDocument
		reader := yamlx.NewBytesReader([]byte(old), yamlx.Options{})
		for i := range n {
			d, err := reader.Next()
			if err != nil {
				t.Fatal(err)
			}
			e := editedDocument{doc: &input.Document{Document: d}}
			if i%2 == 1 {
				e.text = bytes.Replace(d.Source(), []byte("a: 1"), []byte("b: 1"), 1)
			}
			documents = append(documents, e)
		}
		start := time.Now()
		got, err := assemble([]byte(old), documents)
		took := time.Since(start)
		if err != nil || string(got) != want {
			t.Fatalf("got %d bytes and %v, want %d bytes", len(got), err, len(want))
		}
		return took
	}
	var small, large time.Duration
	for range 5 {
		// A factor of 16 would give 256 if the time were quadratic.
		if small, large = measure(500), measure(8000); large < 80*small {
			return
		}
	}
	t.Errorf("500 documents took %s, 8000 documents took %s", small, large)
}

// TestEditPipe edits the pipe of a process substitution, which cannot be read again.
func TestEditPipe(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/fd/0"); err != nil {
		t.Skip(err)
	}
	p := newPlace(t)
	p.write("crd.yaml", boxDefinition)
	for _, test := range []struct {
		text string
		args []string
	}{
		{"apiVersion: example.com/v1\nkind: Box\nmetadata: {name: a}\nunknown: 1\n", []string{"prune", "-o", "diff", "--crd", "crd.yaml"}},
		{strings.Replace(boxDefinition, "type: object, ", "", 1), []string{"fix"}},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := w.WriteString(test.text); err != nil {
			t.Fatal(err)
		}
		w.Close()
		out, code := p.run(append(test.args, filepath.Join("/dev/fd", strconv.Itoa(int(r.Fd()))))...)
		if code != 2 || !strings.Contains(out, "cannot edit a pipe: pass its content on standard input with -f -") {
			t.Errorf("%s exits with %d:\n%s", test.args[0], code, out)
		}
	}
}
