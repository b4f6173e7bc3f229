// Package generatetest has what the tests of package generate and of those below it share.
package generatetest

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/generate"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

// Input returns a CRD in YAML.
func Input(t testing.TB, text string, semantics schema.Semantics) generate.Input {
	t.Helper()
	document, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	hub, err := codec.DecodeLenient(document)
	if err != nil {
		t.Fatal(err)
	}
	crd.PrepareCreate(hub)
	d, err := crd.New(hub, crd.Options{Semantics: semantics, IgnoreRules: true})
	if err != nil {
		t.Fatal(err)
	}
	return generate.Input{Definition: d, Document: document}
}

// Inputs returns the CRDs in a file.
func Inputs(t testing.TB, file string) (all []generate.Input) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		all = append(all, Input(t, document, schema.KEP))
	}
	return all
}

// Archive returns generated files as a txtar archive, sorted by their names.
func Archive(files generate.Files) string {
	var archive txtar.Archive
	for _, name := range slices.Sorted(maps.Keys(files)) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: files[name]})
	}
	return string(txtar.Format(&archive))
}
