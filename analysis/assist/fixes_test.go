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

// TestFixes applies the first fix for each finding until there is none left, and compares the result.
func TestFixes(t *testing.T) {
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	checker := object.New(w.definitions[0], object.Options{})
	for _, tt := range []struct{ name, text, want, fixes string }{{
		name: "missing fields", text: `apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: a
spec:
  # when
  schedule: 0 4 * * *
  policy:
    window:
      level: low
`, want: `apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: a
spec:
  # when
  schedule: 0 4 * * *
  policy:
    window:
      level: low
      start: "2006-01-02T15:04:05Z"
  image: example
`, fixes: "Add image; Add start",
	}, {
		name: "several missing fields", text: `apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: a}
spec: {image: x}
`, want: `apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: a}
spec: {image: x, policy: {window: {level: low, start: "2006-01-02T15:04:05Z"}}, schedule: 0 4 * * *}
`, fixes: "Add policy, Add schedule, policy; Add schedule",
	}, {
		name: "unknown fields", text: `apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: a
spec:
  schedule: 0 4 * * *
  imgae: x # the image
  policy:
    window: {start: "2006-01-02T15:04:05Z", level: low}
  ports:
  - name: a
    port: 1
    zzz: 1
`, want: `apiVersion: stable.example.com/v1
kind: CronTab
metadata:
  name: a
spec:
  schedule: 0 4 * * *
  image: x # the image
  policy:
    window: {start: "2006-01-02T15:04:05Z", level: low}
  ports:
  - name: a
    port: 1
`, fixes: "Rename imgae to image, Remove imgae, which the API server drops; Remove zzz, which the API server drops",
	}} {
		t.Run(tt.name, func(t *testing.T) {
			text, applied := []byte(tt.text), []string{}
			for range 10 {
				findings := check(t, checker, text)
				if len(findings) == 0 {
					break
				}
				if text, applied = fixFirst(t, text, findings, applied); t.Failed() {
					return
				}
			}
			if string(text) != tt.want || strings.Join(applied, "; ") != tt.fixes {
				t.Errorf("the fixes are %q, want %q:\n%s", strings.Join(applied, "; "), tt.fixes, text)
			}
		})
	}
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
