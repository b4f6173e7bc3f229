package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/report"
)

// objectStream is a stream of n objects that are generated when they are read. It records the
// memory in use.
type objectStream struct {
	n, made int
	buffer  bytes.Buffer
	// live is the memory in use after each tenth of the stream.
	live []uint64
}

// Read reads the next part of the stream.
func (s *objectStream) Read(p []byte) (int, error) {
	for s.buffer.Len() < len(p) && s.made < s.n {
		s.made++
		// Every object is different, and some have findings.
		unknown := ""
		if s.made%10 == 0 {
			unknown = ", unknown: 1"
		}
		fmt.Fprintf(&s.buffer, "---\napiVersion: example.com/v1\nkind: Note\nmetadata: {name: n-%d}\nspec: {text: %s%d%s}\n", s.made, strings.Repeat("x", 500), s.made, unknown)
		if s.made%(s.n/10) == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			s.live = append(s.live, m.HeapAlloc)
		}
	}
	if s.buffer.Len() == 0 {
		return 0, io.EOF
	}
	return s.buffer.Read(p)
}

// TestMemoryIsBounded validates many objects. Memory use must not grow with their number.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("validates 20,000 objects")
	}
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: notes.example.com}
spec:
  group: example.com
  names: {kind: Note, plural: notes}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              text: {type: string}
            x-kubernetes-validations:
            - rule: size(self.text) > 1
`
	file := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(file, []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	xml := filepath.Join(t.TempDir(), "report.xml")
	for _, outputs := range [][]string{{"-o", "json"}, {"-o", "text", "-o", "junit=" + xml}} {
		t.Run(strings.Join(outputs[:2], " "), func(t *testing.T) {
			in := &objectStream{n: 20000}
			a := newApp(in, io.Discard, os.Stderr)
			if code := a.run(context.Background(), append([]string{"validate", "--crd", file, "-f", "-", "--fail-on=warning"}, outputs...)); code != 1 {
				t.Fatalf("exits with %d", code)
			}
			// The objects are 11 MB of text, and would take many times that in memory.
			const slack = 6 << 20
			// How much is in use at a moment depends on how far the workers are.
			first, last := slices.Max(in.live[:3]), slices.Min(in.live[len(in.live)-3:])
			if last > first+slack {
				t.Errorf("%d MB in use after all objects, %d MB after a third of them: %v", last>>20, first>>20, in.live)
			}
		})
	}
}

// TestUnusedDefinitions reads many CRDs that no object needs. They must cost little more than an
// entry of an index each: of their texts, only maxOnce bytes are kept, and of their schemas nothing.
func TestUnusedDefinitions(t *testing.T) {
	if testing.Short() {
		t.Skip("reads large CRDs")
	}
	const count, fields = 400, 1000
	dir := t.TempDir()
	size := 0
	for i := range count {
		var text strings.Builder
		fmt.Fprintf(&text, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: notes%[1]d.example.com}\n"+
			"spec:\n  group: example.com\n  names: {kind: Note%[1]d, plural: notes%[1]d}\n  scope: Namespaced\n  versions:\n  - name: v1\n    served: true\n    storage: true\n"+
			"    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n", i)
		for f := range fields {
			fmt.Fprintf(&text, "          field%d: {type: string, maxLength: 10, description: This is field %d of the schema.}\n", f, f)
		}
		size = text.Len()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{}
	live := func() int {
		runtime.GC()
		runtime.GC() // what the first one has freed of pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := live()
	ds, err := a.index(t.Context(), input.Flags{Paths: []string{dir}}, func(p input.Problem) { t.Error(p.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	after := live()
	// An entry is a few hundred bytes and closures, and the text of each CRD 80 KB.
	if each := (after - before - maxOnce) / count; each > 8<<10 || size*count < 3*maxOnce/2 {
		t.Errorf("%d bytes in memory for each CRD of %d bytes", each, size)
	}
	// A CRD is decoded, and read again if its text is not kept, when an object needs it.
	texts := 0
	for i, d := range ds.All() {
		if d.once.Load() != nil {
			texts++
		}
		if i%20 != 0 {
			continue
		}
		checker, err := d.checker()
		if err != nil {
			t.Fatal(err)
		}
		note := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":"a"},"field5":"longer than allowed","unknown":1}`, d.kind.Kind)
		found := checker.Check(t.Context(), []byte(note), nil, object.Warn)
		if len(found) != 2 || found[0].Schema == nil || found[1].Schema == nil || min(found[0].Schema.Line, found[1].Schema.Line) == 0 {
			t.Errorf("%s: findings are %v", d.kind, found)
		}
		if d.once.Load() != nil {
			t.Errorf("%s: the text is kept after its use", d.kind)
		}
	}
	if texts < count/4 || texts > 3*count/4 {
		t.Errorf("the texts of %d CRDs are kept", texts)
	}
	// The file of a CRD that has been used changes.
	d := ds.All()[0]
	if err := os.WriteFile(d.file, []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runtime.GC() // what was read last
	var messages []string
	r, err := report.New(report.Options{Collect: func(f report.Finding) { messages = append(messages, f.Message) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := reportRejected(t.Context(), r, d, true); err != nil {
		t.Fatal(err)
	}
	if len(messages) != 1 || !strings.Contains(messages[0], "has changed since it was read") {
		t.Errorf("findings of a file that has changed are %q", messages)
	}
	runtime.KeepAlive(ds)
}
