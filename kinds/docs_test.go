package kinds_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"espalier.dev/internal/pages"
	"espalier.dev/kinds"
)

var update = flag.Bool("update", false, "write the table of resources in docs/reference/kinds.md, or testdata/rules")

const page = "docs/reference/kinds.md"

// TestPage checks that the page about checks lists all kinds.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../" + page)
	if err != nil {
		t.Fatal(err)
	}
	checks, _, _ := strings.Cut(string(text), "<!-- generated: ")
	words := regexp.MustCompile(`[a-z]+`).FindAllString(checks, -1)
	for _, r := range kinds.Resources() {
		if !slices.Contains(words, r.Plural) {
			t.Errorf("%s is missing", r.GroupResource())
		}
	}
}

// TestReference generates the table of resources of that page.
func TestReference(t *testing.T) {
	var rows [][]string
	for _, r := range kinds.All() {
		version := r.GroupVersionKind().GroupVersion().String()
		if r.Optional {
			version += " (off)"
		}
		names := append([]string{pages.Code(r.Plural)}, r.ShortNames...)
		scope := "cluster"
		if r.Namespaced {
			scope = "namespace"
		}
		var below []string
		for _, s := range r.Subresources {
			below = append(below, s.Name)
		}
		verbs := "all"
		switch {
		case r.CreateOnly:
			verbs = "create"
		case r.KeepsCollection:
			verbs = "all but deletecollection"
		}
		rows = append(rows, []string{version, strings.Join(names, ", "), r.Kind, scope, verbs, strings.Join(below, ", ")})
	}
	g := pages.Generator{Command: "go test ./kinds -run TestReference -update", Update: *update}
	g.Part(t, page, "resources", pages.Table([]string{"version", "resource", "kind", "scope", "verbs", "subresources"}, rows))
}
