package jsonschema_test

import (
	"encoding/json"
	"flag"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/jsonschema"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestDocuments compares the documents of the CRDs in testdata. The name of a document lists the
// options: Strict, GoTypes, SingleTypes. Of the metadata, only three fields are shown, and long
// descriptions are left out.
func TestDocuments(t *testing.T) {
	t.Parallel()
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		d := analysistest.Define(t, string(archive.Files[0].Data), crd.Options{Semantics: schema.Kubernetes, IgnoreRules: true})
		for i := range archive.Files[1:] {
			f := &archive.Files[i+1]
			has := func(option string) bool { return strings.Contains(f.Name, option) }
			s, err := jsonschema.New(d.Versions()[0], jsonschema.Options{Strict: has("Strict"), GoTypes: has("GoTypes"), SingleTypes: has("SingleTypes")})
			if err != nil {
				t.Fatal(err)
			}
			f.Data = []byte(layout(t, shorten(s), "") + "\n")
		}
	})
}

// shorten removes most fields from the schemas of metadata, and long descriptions.
func shorten(s jsonschema.Schema) jsonschema.Schema {
	if text, ok := s["description"].(string); ok && len(text) > 20 {
		s["description"] = "…"
	}
	for name, value := range s {
		inner, ok := value.(jsonschema.Schema)
		if !ok {
			continue
		}
		shorten(inner)
		fields, _ := inner["properties"].(jsonschema.Schema)
		for field := range fields {
			if name == "metadata" && field != "name" && field != "labels" && field != "finalizers" {
				delete(fields, field)
			}
		}
	}
	return s
}

// layout returns a value as JSON, with objects that fit on one line on one line.
func layout(t *testing.T, v any, indent string) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := v.(jsonschema.Schema)
	if !ok || len(text) < 140 {
		return string(text)
	}
	out := "{"
	for i, name := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			out += ","
		}
		out += "\n" + indent + " " + strconv.Quote(name) + ": " + layout(t, s[name], indent+" ")
	}
	return out + "\n" + indent + "}"
}
