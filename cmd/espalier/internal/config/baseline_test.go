package config

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBaseline writes a baseline and reads it again.
func TestBaseline(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.yaml")
	b, err := NewBaseline("", path)
	if err != nil {
		t.Fatal(err)
	}
	b.Commands["validate"] = []Known{
		{Rule: "validation/enum", Object: `Shirt "x"`, Path: `spec["a: b"].é`, Count: 2},
		{Rule: "decode", Object: "A", Count: 1},
	}
	b.Commands["lint"] = []Known{{Rule: "list-type", Object: "B", Path: "spec", Count: 1}}
	if err := b.Write(); err != nil {
		t.Fatal(err)
	}
	const want = `# Known findings, which are not reported. Update them with --write-baseline.
apiVersion: espalier.dev/v1
kind: Baseline
lint:
- {rule: "list-type", object: "B", path: "spec"}
validate:
- {rule: "decode", object: "A", path: ""}
- {rule: "validation/enum", object: "Shirt \"x\"", path: "spec[\"a: b\"].é", count: 2}
`
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	read, err := LoadBaseline("", path)
	if err != nil {
		t.Fatal(err)
	}
	got := read.Commands["validate"]
	for i := range got {
		got[i].Line = 0
	}
	if !slices.Equal(got, []Known{b.Commands["validate"][1], b.Commands["validate"][0]}) {
		t.Errorf("got %+v", got)
	}
}

func TestForeignBaseline(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: espalier.dev/v1\nkind: Baseline\n"
	const foreign = "b.yaml:1:1: not a baseline of espalier: must have apiVersion: espalier.dev/v1 and kind: Baseline"
	for text, want := range map[string]string{
		"":                                 foreign,
		"[]":                               foreign,
		`{"version": "2.1.0", "runs": []}`: foreign,
		"apiVersion: espalier.dev/v2\nkind: Baseline": foreign + `, got "espalier.dev/v2" and "Baseline"`,
		head + "lint: {}":                                          "b.yaml:3:7: must be a list",
		head + "lint:\n- {object: a, line: 3}":                     "b.yaml:4:3: rule is required\nb.yaml:4:15: unknown key \"line\": use rule, object, path or count",
		head + "lint:\n- {rule: a, count: 0}":                      "b.yaml:4:20: count must be a positive number",
		head + "lint:\n- {rule: a, count: 9999999999999999999999}": "b.yaml:4:20: count must be a positive number",
		head + "lint:\n- text":                                     "b.yaml:4:3: a finding must be a mapping\nb.yaml:4:3: rule is required",
		"a: [":                                                     "b.yaml:1:5: the document ends within braces or brackets",
	} {
		if _, err := parseBaseline([]byte(text), "b.yaml"); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
