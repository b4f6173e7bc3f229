package lint_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lint"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// v1 returns a v1 CRD with the given schema, in one line or several.
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

// v1beta1 returns a v1beta1 CRD with additional fields of the spec.
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

// site is the path of the schema in v1, and sitePointer its pointer.
const (
	site        = "spec.versions[0].schema.openAPIV3Schema"
	sitePointer = "/spec/versions/0/schema/openAPIV3Schema"
)

// lintAll lints CRDs written in YAML.
func lintAll(t *testing.T, sem schema.Semantics, config lint.Config, texts ...string) [][]analysis.Finding {
	t.Helper()
	var raws [][]byte
	for _, text := range texts {
		raws = append(raws, analysistest.JSON(t, text))
	}
	found, err := lint.Run(context.Background(), raws, lint.Options{Rules: cel.Checker{}, Semantics: sem, Configs: []lint.Config{config}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func toJSONText(text string) ([]byte, error) { return yaml.YAMLToJSON([]byte(text)) }

// only disables all rules except the given ones.
func only(rules ...string) lint.Config {
	return lint.Config{Disable: []string{lint.All}, Enable: rules}
}

// shown formats findings with severity and path, relative to the schema.
func shown(fs []analysis.Finding) (lines []string) {
	for _, f := range fs {
		path := strings.TrimPrefix(f.Path, site)
		lines = append(lines, fmt.Sprintf("%s %s", f.Severity, path))
	}
	return lines
}

// expect compares findings with the expected ones, as "severity path".
func expect(t *testing.T, fs []analysis.Finding, want ...string) {
	t.Helper()
	if got := shown(fs); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		for _, f := range fs {
			t.Log(f)
		}
	}
}

// says checks that the message or details of a finding contain texts.
func says(t *testing.T, f analysis.Finding, texts ...string) {
	t.Helper()
	all := f.Message + "\n" + strings.Join(f.Detail, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			t.Errorf("%q does not say %q", all, text)
		}
	}
}

// A sheet has the findings of the cases of a test in full, for a golden file: other tests state what
// matters of them.
type sheet struct{ strings.Builder }

// add adds the findings of a case, if there are any.
func (s *sheet) add(name string, fs []analysis.Finding) {
	if len(fs) == 0 {
		return
	}
	fmt.Fprintf(s, "== %s\n", name)
	for _, f := range fs {
		fmt.Fprintf(s, "%s %s %s", f.Severity, f.Rule, strings.Replace(f.Pointer, sitePointer, "…", 1))
		if f.Part != 0 {
			fmt.Fprintf(s, " (part %d)", f.Part)
		}
		fmt.Fprintf(s, ": %s\n", f.Message)
		for _, line := range f.Detail {
			fmt.Fprintf(s, "    %s\n", line)
		}
		if f.Fix == nil {
			continue
		}
		fmt.Fprintf(s, "    fix: %s\n", f.Fix.Message)
		for _, e := range f.Fix.Edits {
			fmt.Fprintf(s, "      %s %s", e.Op, strings.Replace(e.Pointer, sitePointer, "…", 1))
			if e.To != "" {
				fmt.Fprintf(s, " to %s", e.To)
			}
			if e.Value != nil {
				fmt.Fprintf(s, " %v", e.Value)
			}
			fmt.Fprintln(s)
		}
	}
}

// addBoth adds the findings of a CRD in both semantics, those of kubernetes only if they differ.
func (s *sheet) addBoth(t *testing.T, name string, config lint.Config, text string) {
	t.Helper()
	var kep, kubernetes sheet
	kep.add(name, lintAll(t, schema.KEP, config, text)[0])
	kubernetes.add(name, lintAll(t, schema.Kubernetes, config, text)[0])
	s.WriteString(kep.String())
	switch {
	case kubernetes.String() == kep.String():
	case kubernetes.Len() == 0:
		fmt.Fprintf(s, "== %s, in kubernetes: nothing\n", name)
	default:
		s.WriteString(strings.Replace(kubernetes.String(), "\n", ", in kubernetes\n", 1))
	}
}

// compare compares the sheet with a golden file.
func (s *sheet) compare(t *testing.T, file string) {
	t.Helper()
	testcase.Golden(t, filepath.Join("testdata", file), s.String(), *update)
}
