package lint

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// verdictsOf returns the errors of a CRD in both semantics, as Differences compares them.
func verdictsOf(t *testing.T, c *api.CustomResourceDefinition) (kep, kubernetes sets.Set[string]) {
	t.Helper()
	d, err := of(c)
	if err != nil {
		t.Fatal(err)
	}
	ids := func(sem schema.Semantics) sets.Set[string] {
		all := sets.Set[string]{}
		for _, e := range d.validate(context.Background(), crd.Options{Semantics: sem, IgnoreRules: true}) {
			all.Insert(e.Field + " " + string(e.Type))
		}
		return all
	}
	return ids(schema.KEP), ids(schema.Kubernetes)
}

// differencesOfText returns the differences in a CRD that both semantics accept, encoded and
// decoded again.
func differencesOfText(t *testing.T, in *api.CustomResourceDefinition) []analysis.Finding {
	t.Helper()
	c := newCheck(defaultSelection(), schema.KEP)
	var err error
	if c.d, err = of(in); err != nil {
		t.Fatal(err)
	}
	c.differences(verdicts{})
	analysis.Sort(c.findings)
	return c.findings
}

// checkAlike checks a CRD that is assumed to have the same errors in both semantics, and reports whether it is: it has
// them, and Differences finds the same without that assumption and does not change the CRD.
func checkAlike(t *testing.T, name string, text []byte) bool {
	t.Helper()
	data, err := yaml.YAMLToJSON(text)
	if err != nil {
		return false
	}
	c, err := codec.Decode(data)
	if err != nil || !decoded(c).acceptedAlike() {
		return false
	}
	before := c.DeepCopy()
	got, err := Differences(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if want := differencesOfText(t, c); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
	if !reflect.DeepEqual(c, before) {
		t.Errorf("%s: changed", name)
	}
	if kep, kubernetes := verdictsOf(t, c); !kep.Equal(kubernetes) {
		t.Errorf("%s\nkep: %v\nkubernetes: %v", name, kep, kubernetes)
	}
	return true
}

// TestAcceptedAlike checks the schemas in testdata/schema-rules.txt: many of them differ by little.
func TestAcceptedAlike(t *testing.T) {
	text, err := os.ReadFile("testdata/schema-rules.txt")
	if err != nil {
		t.Fatal(err)
	}
	alike, all := 0, 0
	for block := range strings.SplitSeq(strings.TrimPrefix(string(text), "=== "), "\n=== ") {
		name, rest, _ := strings.Cut(block, "\n")
		props, _, _ := strings.Cut(rest, "\n")
		all++
		if checkAlike(t, name, []byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example.com},
spec: {group: example.com, scope: Namespaced, names: {plural: a, kind: A}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+props+`}}]}}`)) {
			alike++
		}
	}
	if alike < 40 || all < alike+40 {
		t.Errorf("%d of %d schemas are assumed to be accepted alike", alike, all)
	}
}

// TestAcceptedAlikeCorpus does the same with real CRDs.
func TestAcceptedAlikeCorpus(t *testing.T) {
	dir := testcase.Corpus(t)
	files, err := filepath.Glob(filepath.Join(dir, "v1*", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no corpus at %s; set ESPALIER_CORPUS to where it is", dir)
	}
	files = testcase.Part(files)
	alike := 0
	for i, file := range files {
		if testing.Short() && i%4 > 0 {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if checkAlike(t, file, text) {
			alike++
		}
	}
	if alike == 0 {
		t.Error("no CRD is accepted alike")
	}
	t.Logf("%d of %d CRDs", alike, len(files))
}
