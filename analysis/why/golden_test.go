package why_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/analysis/why"
	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/kinds"
	"espalier.dev/kinds/schemas"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// TestGolden compares whole explanations of the objects in testdata, under both semantics. Each line
// of the requests is a comment, an object, or a path in the last object; the word server before a
// path says that an API server has returned the object. Without a CRD, the kinds are built in.
func TestGolden(t *testing.T) {
	t.Parallel()
	testcase.GoldenArchives(t, "testdata/*.txtar", *update, func(t *testing.T, archive *txtar.Archive) {
		explain := builtinExplainer(t)
		if text := testcase.Section(archive, "crd.yaml"); text != "" {
			explain = customExplainer(t, text)
		}
		var out strings.Builder
		source := ""
		for line := range strings.Lines(testcase.Section(archive, "requests")) {
			out.WriteString(line)
			switch line = strings.TrimSuffix(line, "\n"); {
			case line == "" || line[0] == '#':
			case line[0] == '{':
				source = line
			default:
				path, fromServer := strings.CutPrefix(line, "server ")
				out.WriteString(explain([]byte(source), path, fromServer))
			}
		}
		testcase.SetSection(archive, "want", out.String())
	})
}

// render writes an explanation, one line for each version.
func render(t *testing.T, e *why.Explanation, err error) string {
	t.Helper()
	if err != nil {
		return fmt.Sprintf("    error: %v\n", err)
	}
	line := func(v any) string {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(v); err != nil {
			t.Fatal(err)
		}
		return "    " + out.String()
	}
	head := *e
	head.Versions = nil
	text := line(head)
	for _, v := range e.Versions {
		text += line(v)
	}
	return text
}

func customExplainer(t *testing.T, text string) func(source []byte, path string, fromServer bool) string {
	t.Helper()
	hub := analysistest.CRD(t, text)
	api.SetDefaults(hub)
	return func(source []byte, path string, fromServer bool) string {
		var texts []string
		for _, sem := range []schema.Semantics{schema.Kubernetes, schema.KEP} {
			d, err := crd.New(hub, crd.Options{Semantics: sem, IgnoreRules: true})
			if err != nil {
				t.Fatal(err)
			}
			o := why.Options{FromServer: fromServer, Text: object.Options{Locate: func(pointer string) analysis.Location {
				return analysis.Location{Pointer: pointer, File: "crd.yaml", Line: len(pointer), Column: 2}
			}}}
			e, err := why.Explain(d, source, path, o)
			texts = append(texts, render(t, e, err))
		}
		if texts[0] == texts[1] {
			return texts[0]
		}
		return texts[0] + "  kep\n" + texts[1]
	}
}

func builtinExplainer(t *testing.T) func(source []byte, path string, fromServer bool) string {
	t.Helper()
	rules, err := kinds.NewOffline(nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(source []byte, path string, fromServer bool) string {
		id, err := api.Identify(source)
		if err != nil {
			t.Fatal(err)
		}
		d, err := schemas.Called(id.Kind)[0].Definition()
		if err != nil {
			t.Fatal(err)
		}
		e, err := why.ExplainKind(d, rules, source, path, why.Options{FromServer: fromServer})
		return render(t, e, err)
	}
}
