package report

import (
	"bytes"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
)

// objects reads objects from a YAML text.
func objects(t *testing.T, text string) (items []*input.Item) {
	t.Helper()
	err := input.Read(t.Context(), strings.NewReader(text), input.Flags{Paths: []string{"-"}}, func(it *input.Item) error {
		items = append(items, it)
		return nil
	}, func(p input.Problem) { t.Error(p) })
	if err != nil {
		t.Fatal(err)
	}
	return items
}

// TestJUnitObjects makes sure that each object is one test case, with all of its findings.
func TestJUnitObjects(t *testing.T) {
	t.Parallel()
	items := objects(t, "kind: A\nmetadata: {name: a, namespace: ns}\n---\nkind: A\nmetadata: {name: b}\n---\nkind: A\nmetadata: {name: c}\n---\nkind: A\nmetadata: {name: d}\n")
	for _, most := range []int{0, 1} {
		var out bytes.Buffer
		r, err := New(Options{Outputs: []string{"junit"}, Stdout: &out, Semantics: "kep", MaxFindings: most})
		if err != nil {
			t.Fatal(err)
		}
		r.Saw(items[0])
		for _, severity := range []analysis.Severity{analysis.Warning, analysis.Error, analysis.Error, analysis.Info} {
			r.Report(items[0], analysis.Finding{Rule: "r", Severity: severity, Pointer: "/kind", Path: "kind", Message: "m-" + string(severity)})
		}
		r.Saw(items[1])
		r.Skipped(items[2], "no CRD found")
		r.Saw(items[3])
		r.Report(items[3], analysis.Finding{Rule: "r", Severity: analysis.Warning, Message: "only a warning"})
		r.Failure(input.Problem{Rule: "unreadable", File: "x.yaml", Message: "cannot read"})
		if err := r.Close(); err != ExitError(Failed) {
			t.Error(err)
		}
		got := parseJUnit(t, out.String())
		if got.Tests != 5 || got.Failures != 1 || got.Errors != 1 || got.Skipped != 1 || len(got.Suites) != 2 {
			t.Fatalf("got\n%s", out.String())
		}
		if p := got.Suites[0].Properties; len(p) != 4 || p[0].Value != "kep" || p[1].Value != "2" || p[2].Value != "2" || p[3].Value != "1" {
			t.Errorf("properties %v", p)
		}
		cases := got.Suites[0].Cases
		failure := cases[0].Failure
		if cases[0].Name != "A ns/a" || failure.Message != "m-error (and 1 more finding)" || failure.Type != "error" {
			t.Errorf("got %+v", cases[0])
		}
		// The first error is the worst finding.
		text, output := "<stdin>:1:7: error: kind: m-error [r]", []string(nil)
		if most == 0 {
			text, output = text+"\n"+text, []string{"<stdin>:1:7: warning: kind: m-warning [r]\n<stdin>:1:7: info: kind: m-info [r]"}
		}
		if o := cases[0].Output; failure.Text != text || (o == nil) != (output == nil) || o != nil && *o != output[0] {
			t.Errorf("limit %d: got %+v\n%s", most, cases[0], out.String())
		}
		if cases[1].Name != "A b" || cases[1].Failure != nil || cases[2].Skipped == nil || cases[2].Skipped.Message != "no CRD found" || cases[3].Failure != nil {
			t.Errorf("got\n%s", out.String())
		}
	}
}
