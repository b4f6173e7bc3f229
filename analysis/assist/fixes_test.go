package assist_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"espalier.dev/analysis"
	"espalier.dev/analysis/assist"
	"espalier.dev/analysis/object"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// showFixes applies the first fix for each finding until there is none left, and shows all fixes and the result.
func showFixes(t *testing.T, text []byte, _ int) string {
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	checker := object.New(w.definitions[0], object.Options{})
	var applied []string
	for range 10 {
		findings := check(t, checker, text)
		if len(findings) == 0 {
			return strings.Join(applied, "\n") + "\n" + string(text)
		}
		text, applied = fixFirst(t, text, findings, applied)
	}
	t.Errorf("there are findings after %d fixes:\n%s", len(applied), text)
	return ""
}

// check returns the findings about the object in a text.
func check(t *testing.T, checker *object.Checker, text []byte) []analysis.Finding {
	t.Helper()
	d, err := yamlx.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	source, err := d.JSON()
	if err != nil {
		t.Fatal(err)
	}
	findings := checker.Check(t.Context(), source, nil, object.Warn)
	analysis.Sort(findings)
	// Unknown fields first: renamed ones may be those that are missing.
	var unknown, others []analysis.Finding
	for _, f := range findings {
		switch f.Rule {
		case object.RuleUnknownField:
			unknown = append(unknown, f)
		case "validation/rules-skipped", object.RuleSemantics:
		default:
			others = append(others, f)
		}
	}
	return append(unknown, others...)
}

// fixFirst applies the best fix of the first finding.
func fixFirst(t *testing.T, text []byte, findings []analysis.Finding, applied []string) ([]byte, []string) {
	t.Helper()
	fixes := assist.Fixes(text, findings[0], env(t, text))
	if len(fixes) == 0 {
		t.Fatalf("no fix for %v", findings[0])
	}
	var messages []string
	for _, f := range fixes {
		messages = append(messages, f.Message)
	}
	d, err := yamlx.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := yamledit.Apply(d, fixes[0].Edits...)
	if err != nil {
		t.Fatalf("%v: %v", fixes[0], err)
	}
	return fixed, append(applied, strings.Join(messages, ", "))
}

// TestFieldIn finds the uses of a schema in objects.
func TestFieldIn(t *testing.T) {
	crds := `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {kind: A}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          ports:
            items:
              properties:
                na█me: {type: string}
              anyOf:
              - properties:
                  na█me: {type: string}
          map:
            additionalProperties:
              ty█pe: string
`
	object := "apiVersion: example.com/v1\nkind: A\nports:\n- name: x\n- {name: y}\n- other: z\nmap:\n  one: 1\n  two: 2\n"
	var got []string
	for i, at := 0, 0; ; i++ {
		next := strings.Index(crds[at:], cursor)
		if next < 0 {
			break
		}
		text := strings.ReplaceAll(crds, cursor, "")
		f := assist.FieldAt([]byte(text), at+next-i*len(cursor))
		if f == nil {
			t.Fatalf("no field at cursor %d", i)
		}
		for _, r := range f.In([]byte(object)) {
			line := 1 + bytes.Count([]byte(object[:r.Start]), []byte("\n"))
			got = append(got, fmt.Sprintf("%s %d:%s", f.Path, line, object[r.Start:r.End]))
		}
		for _, other := range []string{"example.com/v2", "v1", "example.org/v1"} {
			if f.In([]byte(strings.Replace(object, "example.com/v1", other, 1))) != nil {
				t.Errorf("an object of %s has the field", other)
			}
		}
		at += next + len(cursor)
	}
	want := []string{".properties[ports].items.properties[name] 4:name", ".properties[ports].items.properties[name] 5:name",
		".properties[ports].items.anyOf[0].properties[name] 4:name", ".properties[ports].items.anyOf[0].properties[name] 5:name",
		".properties[map].additionalProperties 8:one", ".properties[map].additionalProperties 9:two"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
