package object_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/object"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// archived returns the CRD of an archive in testdata.
func archived(t testing.TB, name string) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return testcase.Section(archive, "crd.yaml")
}

func text(t testing.TB, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func checker(t testing.TB, document string, sem schema.Semantics, locate func(string) analysis.Location) *object.Checker {
	t.Helper()
	return object.New(definition(t, document, sem), object.Options{Document: func() []byte { return analysistest.JSON(t, document) }, Locate: locate})
}

func definition(t testing.TB, document string, sem schema.Semantics) *crd.Definition {
	t.Helper()
	return analysistest.Define(t, document, crd.Options{Semantics: sem, Rules: cel.Checker{}})
}

// widget returns a Widget with a name and a spec. It does not parse YAML, which cannot have
// duplicate fields.
func widget(spec string) []byte {
	return []byte(`{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "default"}, "spec": ` + spec + `}`)
}

// thingsWith returns a CRD with a schema.
func thingsWith(schema string) string {
	return `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com},
spec: {group: example.com, scope: Cluster, names: {plural: things, kind: Thing}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: ` + schema + `}}]}}`
}

func thing(fields string) []byte {
	return []byte(`{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, ` + fields + `}`)
}

func peer(version, spec string) []byte {
	return []byte(`{"apiVersion": "example.com/` + version + `", "kind": "Peer", "metadata": {"name": "a"}, "spec": ` + spec + `}`)
}

// lines formats findings for comparison, one per line, in order.
func lines(findings []analysis.Finding) (all []string) {
	findings = slices.Clone(findings)
	analysis.Sort(findings)
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, f.Pointer, f.Message))
		for _, d := range f.Detail {
			all = append(all, "  "+d)
		}
		if at := f.Schema; at != nil {
			all = append(all, "  schema: "+strings.TrimSpace(cmp.Or(at.Path, "the root of the schema")+" "+at.Position()))
		}
	}
	return all
}

func expect(t *testing.T, got []analysis.Finding, want ...string) {
	t.Helper()
	if got := lines(got); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestCheckParts checks which part of a field a finding is about.
func TestCheckParts(t *testing.T) {
	c := checker(t, archived(t, "widgets"), schema.Kubernetes, nil)
	want := map[string]analysis.Part{
		object.RuleUnknownField:   analysis.FieldName,
		object.RuleDuplicateField: analysis.RepeatedName,
		"validation/max-length":   analysis.FieldValue,
	}
	seen := 0
	for _, f := range c.Check(t.Context(), widget(`{"name": "too long", "nam": "a", "min": 1, "min": 2}`), nil, object.Warn) {
		if part, ok := want[f.Rule]; ok {
			seen++
			if f.Part != part {
				t.Errorf("%s is about part %d", f.Rule, f.Part)
			}
		}
	}
	if seen != len(want) {
		t.Errorf("%d findings", seen)
	}
}

// TestParseFieldValidation parses valid and invalid values.
func TestParseFieldValidation(t *testing.T) {
	for text, want := range map[string]object.FieldValidation{"Warn": object.Warn, "ignore": object.Ignore, "STRICT": object.Strict} {
		if got, err := object.ParseFieldValidation(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v", text, got, err)
		}
	}
	if _, err := object.ParseFieldValidation("true"); err == nil {
		t.Error("true is no field validation")
	}
}

// TestConcurrent uses one Checker from several goroutines.
func TestConcurrent(t *testing.T) {
	c := checker(t, archived(t, "widgets"), schema.KEP, nil)
	source := widget(`{"free": {"some": {"extra": 1}}, "nam": 1}`)
	want := lines(checker(t, archived(t, "widgets"), schema.KEP, nil).Check(t.Context(), source, nil, object.Warn))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := lines(c.Check(t.Context(), source, nil, object.Warn)); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			c.Prune(source).Difference()
		})
	}
	wg.Wait()
}
