package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"espalier.dev/cmd/espalier/internal/report"
)

// noteCRD returns a CRD for the objects of an objectStream. The text of its objects has a maximum
// length, unless it is zero.
func noteCRD(maxLength int) []byte {
	limit := ""
	if maxLength > 0 {
		limit = fmt.Sprintf(", maxLength: %d", maxLength)
	}
	return []byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: notes.example.com}, spec: {group: example.com, scope: Namespaced,
names: {kind: Note, plural: notes}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
properties: {spec: {type: object, properties: {text: {type: string` + limit + `}, unknown: {type: integer}}}}}}}]}}`)
}

// TestUpgradeMany judges many objects, all of which become invalid: programs get every object, people
// get some names, and memory does not grow with their number.
func TestUpgradeMany(t *testing.T) {
	dir := t.TempDir()
	old, new := filepath.Join(dir, "old.yaml"), filepath.Join(dir, "new.yaml")
	writeFile(t, old, noteCRD(0))
	writeFile(t, new, noteCRD(10))
	n := 20_000
	if testing.Short() {
		n = 500 // memory is not measured then
	}
	run := func(t *testing.T, stdout io.Writer, format string) *objectStream {
		in := &objectStream{n: n}
		a := newApp(in, stdout, os.Stderr)
		if code := a.run(t.Context(), []string{"upgrade", old, new, "--objects", "-", "-o", format}); code != 1 {
			t.Fatalf("exits with %d", code)
		}
		return in
	}
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			in := run(t, io.Discard, format)
			const slack = 6 << 20 // the objects are 11 MB of text
			first, last := slices.Max(in.live[:3]), slices.Min(in.live[len(in.live)-3:])
			if last > first+slack && !testing.Short() {
				t.Errorf("%d MB in use after all objects, %d MB after a third of them: %v", last>>20, first>>20, in.live)
			}
		})
	}
	var out bytes.Buffer
	run(t, &out, "json")
	var u upgraded
	if err := json.Unmarshal(out.Bytes(), &u); err != nil || len(u.Findings) != n || u.Summary.Objects != n || u.Summary.Affected != n || u.Summary.Errors != n {
		t.Errorf("%d findings, summary %+v: %v", len(u.Findings), u.Summary, err)
	}
	out.Reset()
	run(t, &out, "markdown")
	if text := out.String(); len(text) > report.MaxMarkdown || !strings.Contains(text, fmt.Sprintf("and %d more", n-5)) || !strings.Contains(text, "#### Steps") {
		t.Errorf("Markdown of %d bytes:\n%.3000s", len(text), text)
	}
}

// TestUpgradeElsewhere reads places that have none of the CRDs, or are no place at all.
func TestUpgradeElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, path("new.yaml"), noteCRD(10))
	writeFile(t, path("text.db"), []byte("a snapshot of another product"))
	writeSnapshot(t, path("empty.db"), map[string][]byte{"/other/key": []byte("value")})
	for _, tt := range []struct {
		snapshot string
		code     int
		want     string
	}{
		{"empty.db", 0, "warning: none of the CRDs is in " + path("empty.db")},
		{"text.db", 2, path("text.db")},
		{"missing.db", 2, "no such file"},
	} {
		code, stdout, stderr := runWith(t.Context(), "upgrade", path("new.yaml"), "--snapshot", path(tt.snapshot), "--no-config")
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%s: exits with %d, want %d and %q:\n%s%s", tt.snapshot, code, tt.code, tt.want, stdout, stderr)
		}
	}
}
