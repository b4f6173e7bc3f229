package suite_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/suite"
)

// TestChoose chooses the CRD of a suite: the command line takes precedence over the suite, and the
// configuration file is the last.
func TestChoose(t *testing.T) {
	crds := func(all ...string) (list []suite.Candidate) {
		for _, c := range all {
			name, file, _ := strings.Cut(c, "@")
			list = append(list, suite.Candidate{Name: name, File: file})
		}
		return list
	}
	unnamed, named, files := &suite.Suite{}, &suite.Suite{Definition: "b"}, &suite.Suite{Files: []string{"x.yaml", "y.yaml"}}
	for _, c := range []struct {
		suite         *suite.Suite
		from          suite.Candidates
		want, pointer string
	}{
		{unnamed, suite.Candidates{Given: crds("a@flag"), Around: crds("a@suite"), Configured: crds("a@config")}, "a@flag", ""},
		{unnamed, suite.Candidates{Around: crds("a@other", "a@suite"), Configured: crds("a@config")}, "a@suite", ""},
		{unnamed, suite.Candidates{Around: crds("a@other"), Configured: crds("a@config")}, "a@other", ""},
		{unnamed, suite.Candidates{Configured: crds("a@config")}, "a@config", ""},
		{unnamed, suite.Candidates{}, "no CRD found: name its file with crd in the suite, or with --crd", ""},
		{unnamed, suite.Candidates{Around: crds("a@x", "b@y")}, "more than one CRD found: select one with crd in the suite, or with --crd\na in x\nb in y", ""},
		{unnamed, suite.Candidates{Given: crds("a@x", "b@y")}, "more than one CRD found: --crd takes precedence over the suite, so pass only one of these\na in x\nb in y", ""},
		{named, suite.Candidates{Given: crds("a@x", "b@y")}, "b@y", ""},
		{named, suite.Candidates{Given: crds("a@x"), Configured: crds("b@config")}, "b@config", ""},
		{named, suite.Candidates{Given: crds("a@x")}, "CRD b not found: name its file with --crd", "/crdName"},
		{files, suite.Candidates{Named: crds("a@x.yaml"), Around: crds("a@suite"), Configured: crds("a@config")}, "a@x.yaml", "/crd"},
		{files, suite.Candidates{Given: crds("a@flag"), Named: crds("a@x.yaml")}, "a@flag", "/crd"},
		{&suite.Suite{Files: []string{"x.yaml"}}, suite.Candidates{Around: crds("a@suite")}, "no CRD found in x.yaml", "/crd"},
		{files, suite.Candidates{Named: crds("a@x.yaml", "b@y.yaml")}, "more than one CRD found: select one with crd in the suite, or with --crd\na in x.yaml\nb in y.yaml", "/crd"},
		{files, suite.Candidates{Given: crds("a@flag")}, "no CRD found in x.yaml, y.yaml", "/crd"},
	} {
		c.from.File = "suite"
		chosen, pointer, err := c.suite.Choose(c.from)
		got := chosen.Name + "@" + chosen.File
		if err != nil {
			got = err.Error()
		}
		if got != c.want || pointer != c.pointer {
			t.Errorf("%+v of %+v: got %q at %q, want %q at %q", *c.suite, c.from, got, pointer, c.want, c.pointer)
		}
	}
}

// TestChooseFromCluster chooses the CRD of a suite in a cluster, if there is no other.
func TestChooseFromCluster(t *testing.T) {
	for _, c := range []struct {
		text, name string
		kind       runtimeschema.GroupKind
		want       string
		pointer    string
	}{
		{`base: {spec: {}}`, "", runtimeschema.GroupKind{}, "no CRD found: to find it in the cluster, base needs apiVersion and kind", ""},
		{`base: {apiVersion: a.b/v1, spec: {}}`, "", runtimeschema.GroupKind{}, "no CRD found: to find it in the cluster, base needs apiVersion and kind", ""},
		{`base: {kind: A, spec: {}}`, "", runtimeschema.GroupKind{}, "no CRD found: to find it in the cluster, base needs apiVersion and kind", ""},
		{`base: {apiVersion: a.b/v1, kind: A}`, "", runtimeschema.GroupKind{Group: "a.b", Kind: "A"}, "found@cluster", ""},
		{`base: {apiVersion: c.d/v1, kind: A}`, "", runtimeschema.GroupKind{Group: "c.d", Kind: "A"}, "the cluster has no CRD for c.d/v1 A: name its file with crd in the suite, or with --crd", ""},
		{`base: {apiVersion: fails/v1, kind: A}`, "", runtimeschema.GroupKind{Group: "fails", Kind: "A"}, "no connection", ""},
		{`crdName: as.a.b`, "as.a.b", runtimeschema.GroupKind{}, "found@cluster", "/crdName"},
		{`crdName: others`, "others", runtimeschema.GroupKind{}, "the cluster has no CRD others: name its file with crd in the suite, or with --crd", "/crdName"},
	} {
		tests := "apiVersion: espalier.dev/v1\nkind: TestSuite\nvalid: [{name: a}]\n"
		if strings.HasPrefix(c.text, "crdName") {
			tests = "tests: {onCreate: [{name: a, initial: x}]}\n"
		}
		s, wrong := suite.Parse(analysistest.JSON(t, tests+c.text), noFiles)
		if len(wrong) > 0 {
			t.Fatal(c.text, wrong)
		}
		chosen, pointer, err := s.Choose(suite.Candidates{Cluster: func(name string, kind runtimeschema.GroupKind) ([]suite.Candidate, error) {
			if name != c.name || kind != c.kind {
				t.Errorf("%s: asked for %q, %v", c.text, name, kind)
			}
			if kind.Group == "fails" {
				return nil, errors.New("no connection")
			}
			if name == "as.a.b" || kind.Group == "a.b" {
				return []suite.Candidate{{Name: "found", File: "cluster"}, {Name: "other"}}, nil
			}
			return nil, nil
		}})
		got := chosen.Name + "@" + chosen.File
		if err != nil {
			got = err.Error()
		}
		if got != c.want || pointer != c.pointer {
			t.Errorf("%s: got %q at %q, want %q at %q", c.text, got, pointer, c.want, c.pointer)
		}
		if inFile, _, err := s.Choose(suite.Candidates{Given: []suite.Candidate{{Name: s.Definition, File: "x"}}, Cluster: func(string, runtimeschema.GroupKind) ([]suite.Candidate, error) {
			t.Error("the cluster is asked although there is a file")
			return nil, nil
		}}); err != nil || inFile.File != "x" {
			t.Errorf("%s: %v, %v", c.text, inFile, err)
		}
	}
}

// TestNeedsNoCRD checks which suites are about built-in kinds only.
func TestNeedsNoCRD(t *testing.T) {
	has := func(apiVersion, kind string) bool { return apiVersion == "v1" && (kind == "A" || kind == "B") }
	a, b := metav1.TypeMeta{APIVersion: "v1", Kind: "A"}, metav1.TypeMeta{APIVersion: "v1", Kind: "B"}
	for text, want := range map[string]struct {
		types metav1.TypeMeta
		ok    bool
	}{
		`{base: {apiVersion: v1, kind: A}, valid: [{name: a}]}`:                                                                   {a, true},
		`{base: {apiVersion: v1, kind: A}, valid: [{name: a, object: {apiVersion: v1, kind: B}}]}`:                                {a, true},
		`{valid: [{name: a, object: {apiVersion: v1, kind: B}}]}`:                                                                 {b, true},
		`{base: {apiVersion: v1, kind: A}, valid: [{name: a, object: {apiVersion: v1, kind: C}}]}`:                                {a, false},
		`{base: {apiVersion: v1, kind: A}, updates: [{name: a, old: {apiVersion: v1, kind: C}, new: {apiVersion: v1, kind: A}}]}`: {a, false},
		`{base: {spec: {}}, valid: [{name: a}]}`:                                                                                  {},
		`{base: {kind: A}, valid: [{name: a}]}`:                                                                                   {},
		`{base: {apiVersion: v1}, valid: [{name: a}]}`:                                                                            {},
		`{crd: x.yaml, base: {apiVersion: v1, kind: A}, valid: [{name: a}]}`:                                                      {},
		`{crd: [x.yaml, y.yaml], base: {apiVersion: v1, kind: A}, valid: [{name: a}]}`:                                            {},
	} {
		doc := `{"apiVersion":"espalier.dev/v1","kind":"TestSuite",` + string(analysistest.JSON(t, text))[1:]
		s, wrong := suite.Parse([]byte(doc), noFiles)
		if len(wrong) > 0 {
			t.Fatal(text, wrong)
		}
		if types, ok := s.NeedsNoCRD(has); ok != want.ok || types != want.types {
			t.Errorf("%s: %v, %t", text, types, ok)
		}
	}
}
