package object_test

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	rules "espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
	"espalier.dev/kinds"
	"espalier.dev/kinds/cel"
	"espalier.dev/kinds/releases"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestGolden compares all that is said about the objects in testdata. Each line of a file with
// objects is a comment, or an object, optionally after the object before an update and ->. Without
// a CRD, the objects are of built-in kinds; a line such as 1.25 selects a release for those that follow.
// After a line that starts with "crd:" or "schema:", the objects are of that CRD, or of the kind Thing.
func TestGolden(t *testing.T) {
	t.Parallel()
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		objects := testcase.Section(archive, "objects")
		got := ""
		if definition := testcase.Section(archive, "crd.yaml"); definition != "" || strings.Contains(objects, "\nschema: ") {
			got = customGolden(t, definition, objects)
		} else {
			got = builtinGolden(t, objects)
		}
		testcase.SetSection(archive, "want", got)
	})
}

// golden collects what is said about objects.
type golden struct{ strings.Builder }

func (g *golden) findings(title string, findings []analysis.Finding) {
	for _, line := range lines(findings) {
		fmt.Fprintf(g, "    %s: %s\n", title, line)
	}
}

// twice writes what is returned and what is stored of an object.
func (g *golden) twice(t *testing.T, source []byte, returned, stored *object.Pruned) {
	t.Helper()
	result, other := prunedGolden(t, "returned", source, returned), prunedGolden(t, "stored", source, stored)
	g.WriteString(result)
	if other != strings.ReplaceAll(result, "    returned: ", "    stored: ") {
		g.WriteString(other)
	}
}

// prunedGolden describes what remains of an object, and why. The edits must turn the text into it.
func prunedGolden(t *testing.T, title string, source []byte, p *object.Pruned) string {
	t.Helper()
	var g golden
	g.findings(title, p.Failures)
	if p.Object != nil {
		fmt.Fprintf(&g, "    %s: %s\n", title, text(t, p.Object))
	}
	g.findings(title, p.Reasons())
	g.findings(title, p.Difference())
	edits, err := p.Edits()
	if err != nil {
		fmt.Fprintf(&g, "    %s: no edits: %v\n", title, err)
	}
	if err == nil {
		doc, err := yamlx.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		edited, err := yamledit.Apply(doc, edits...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := jsonx.Parse(edited); err != nil || text(t, got) != text(t, p.Object) {
			t.Errorf("%s: the edits lead to %s, %v", source, edited, err)
		}
	}
	for _, e := range edits {
		fmt.Fprintf(&g, "    %s: edit %v %s %v\n", title, e.Op, e.Pointer, e.Value)
	}
	return g.String()
}

// requests calls do for each object of a file, with the object before it if there is one.
func (g *golden) requests(text string, other func(line string), do func(source, old []byte)) {
	for line := range strings.Lines(text) {
		g.WriteString(line)
		line = strings.TrimSpace(line)
		switch old, source, ok := strings.Cut(line, " -> "); {
		case line == "" || line[0] == '#':
		case line[0] != '{' && line[0] != '[':
			other(line)
		case ok:
			do([]byte(source), []byte(old))
		default:
			do([]byte(line), nil)
		}
	}
}

func customGolden(t *testing.T, document, objects string) string {
	t.Helper()
	var g golden
	both := []schema.Semantics{schema.Kubernetes, schema.KEP}
	checkers := map[schema.Semantics]*object.Checker{}
	define := func(document string) {
		for _, sem := range both {
			decoded := analysistest.CRD(t, document)
			d, err := crd.New(decoded, crd.Options{Semantics: sem, Rules: rules.Checker{}})
			if checkers[sem] = nil; err != nil {
				fmt.Fprintf(&g, "  %s semantics: %v\n", sem, err)
				continue
			}
			checkers[sem] = object.New(d, object.Options{Document: func() []byte { return analysistest.JSON(t, document) }, Locate: func(pointer string) analysis.Location {
				return analysis.Location{Pointer: pointer, File: "crd.yaml", Line: len(pointer), Column: 1}
			}})
		}
	}
	if document != "" {
		define(document)
	}
	g.requests(objects, func(line string) {
		if schema, ok := strings.CutPrefix(line, "schema: "); ok {
			define(thingsWith(schema))
		} else if crd, ok := strings.CutPrefix(line, "crd: "); ok {
			define(crd)
		} else {
			t.Errorf("%q is no object", line)
		}
	}, func(source, text []byte) {
		var old schema.Object
		if text != nil {
			value, err := jsonx.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			old = value.(schema.Object)
		}
		results := map[schema.Semantics]string{}
		for sem, c := range checkers {
			if c != nil {
				results[sem] = customRequest(t, c, source, old)
			}
		}
		g.WriteString(results[schema.Kubernetes])
		if kep, ok := results[schema.KEP]; ok && kep != results[schema.Kubernetes] {
			g.WriteString("  kep semantics\n" + kep)
		}
	})
	return g.String()
}

// customRequest describes what happens to an object of a CRD.
func customRequest(t *testing.T, c *object.Checker, source []byte, old schema.Object) string {
	t.Helper()
	var g golden
	for _, fields := range []object.FieldValidation{object.Warn, object.Ignore, object.Strict} {
		title := [...]string{"warn", "ignore", "strict"}[fields]
		found := c.Check(t.Context(), source, old, fields)
		if fields == object.Warn {
			g.findings(title, found)
			continue
		}
		rules := map[string]int{}
		for _, f := range found {
			rules[fmt.Sprintf("%s %s", f.Severity, f.Rule)]++
		}
		fmt.Fprintf(&g, "    %s: %v\n", title, rules)
	}
	if old != nil {
		fmt.Fprintf(&g, "    compared with the old object: %t\n", c.Converts(old, source))
	}
	p := c.Prune(source)
	if again := c.Prune(source); again.Preview != p.Preview || again.Webhook != p.Webhook {
		t.Errorf("%s: each object has a preview or a finding of its own", source)
	}
	if p.Preview != nil {
		g.findings("preview", []analysis.Finding{p.Preview.Finding})
	}
	if p.Webhook != nil {
		g.findings("webhook", []analysis.Finding{*p.Webhook})
	}
	g.twice(t, source, p, c.PruneStored(source))
	return g.String()
}

func builtinGolden(t *testing.T, objects string) string {
	t.Helper()
	var g golden
	c := object.ForKinds(cel.New())
	var at *object.ReleaseChecker
	g.requests(objects, func(line string) {
		minor, err := strconv.Atoi(strings.TrimPrefix(line, "1."))
		if err != nil {
			t.Fatal(err)
		}
		at = c.At(releases.Release(minor), func(r releases.Release) kinds.CEL { return cel.At(r) })
	}, func(source, old []byte) {
		check := c.Check
		if at != nil {
			check = at.Check
		}
		g.findings("warn", check(t.Context(), source, old, object.Warn))
		g.findings("ignore", check(t.Context(), source, old, object.Ignore))
		if at != nil {
			return
		}
		g.findings("strict", check(t.Context(), source, old, object.Strict))
		g.twice(t, source, c.Prune(source), c.PruneStored(source))
	})
	return g.String()
}
