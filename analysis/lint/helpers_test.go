package lint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// v1 is a definition in v1 with a schema, written in one line or several.
func v1(props string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shirts, kind: Shirt}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: ` + indent(props, "        ")
}

// v1beta1 is a definition in v1beta1 with more of a spec.
func v1beta1(spec string) string {
	return `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: shirts.example.com}
spec:
  group: example.com
  version: v1
  scope: Namespaced
  names: {plural: shirts, kind: Shirt}
` + indent("  "+strings.TrimPrefix(spec, "\n"), "  ")
}

func indent(text, by string) string {
	return strings.ReplaceAll(text, "\n", "\n"+by)
}

// site is where v1 puts the schema.
const site = "spec.versions[0].schema.openAPIV3Schema"

// lintAll lints definitions written in YAML.
func lintAll(t *testing.T, sem schema.Semantics, config lint.Config, texts ...string) [][]analysis.Finding {
	t.Helper()
	var raws [][]byte
	for _, text := range texts {
		raws = append(raws, toJSON(t, text))
	}
	found, err := lint.Run(context.Background(), raws, lint.Options{Rules: cel.Checker{}, Semantics: sem, Configs: []lint.Config{config}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func toJSONText(text string) ([]byte, error) { return yaml.YAMLToJSON([]byte(text)) }

func toJSON(t *testing.T, text string) []byte {
	t.Helper()
	data, err := toJSONText(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return data
}

// only turns everything off but some rules.
func only(rules ...string) lint.Config {
	return lint.Config{Disable: []string{lint.All}, Enable: rules}
}

// shown writes findings with their severity, below the schema's place.
func shown(fs []analysis.Finding) (lines []string) {
	for _, f := range fs {
		path := strings.TrimPrefix(f.Path, site)
		lines = append(lines, fmt.Sprintf("%s %s", f.Severity, path))
	}
	return lines
}

// expect compares findings with what they should be: "severity path".
func expect(t *testing.T, fs []analysis.Finding, want ...string) {
	t.Helper()
	if got := shown(fs); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		for _, f := range fs {
			t.Log(f)
		}
	}
}

// says checks that a finding has texts in its message or details.
func says(t *testing.T, f analysis.Finding, texts ...string) {
	t.Helper()
	all := f.Message + "\n" + strings.Join(f.Detail, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q does not say %q", all, text)
		}
	}
}
