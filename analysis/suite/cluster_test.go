package suite_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev"
	"espalier.dev/analysis/suite"
	"espalier.dev/crd/cel"
	_ "espalier.dev/kinds"
	"espalier.dev/schema"
)

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
		s, wrong := suite.Parse(toJSON(t, tests+c.text), noFiles)
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
		doc := `{"apiVersion":"espalier.dev/v1","kind":"TestSuite",` + string(toJSON(t, text))[1:]
		s, wrong := suite.Parse([]byte(doc), noFiles)
		if len(wrong) > 0 {
			t.Fatal(text, wrong)
		}
		if types, ok := s.NeedsNoCRD(has); ok != want.ok || types != want.types {
			t.Errorf("%s: %v, %t", text, types, ok)
		}
	}
}

// TestBuiltinKinds runs a suite of a built-in kind: its objects need neither a CRD nor an
// apiVersion and kind of their own.
func TestBuiltinKinds(t *testing.T) {
	s, wrong := suite.Parse(toJSON(t, `
apiVersion: espalier.dev/v1
kind: TestSuite
semantics: kubernetes
base: {apiVersion: v1, kind: Service, spec: {ports: [{port: 1}]}}
valid:
- {name: base, defaulted: [spec.internalTrafficPolicy, spec.ipFamilies, spec.ipFamilyPolicy, "spec.ports[0].protocol", "spec.ports[0].targetPort", spec.sessionAffinity, spec.type]}
- {name: own, object: {spec: {ports: [{port: 2}]}}}
invalid:
- {name: type, with: {spec: {type: x}}, errors: [{path: spec.type, rule: enum}]}
- {name: cause, with: {spec: {type: x}}, errors: [{path: spec.type, rule: FieldValueNotSupported}]}
- {name: required, with: {spec: {ports: [{port: 1}, {port: 2, name: b}]}}, errors: [{path: "spec.ports[0].name", rule: required}]}
- {name: metadata, with: {metadata: {name: A_B}}, errors: [{path: metadata.name, rule: metadata}]}
updates:
- {name: change, with: {spec: {ports: [{port: 3}]}}}
- {name: name, with: {metadata: {name: other}}, errors: [{path: metadata.name}]}
`), noFiles)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	admitter, err := espalier.Kind("v1", "Service")
	if err != nil {
		t.Fatal(err)
	}
	r := suite.NewRunnerFor(s, admitter, metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, suite.Options{Semantics: schema.KEP, Rules: cel.Checker{}})
	if r.Semantics() != schema.Kubernetes {
		t.Errorf("%v", r.Semantics())
	}
	for _, c := range s.Cases {
		for _, f := range r.Run(t.Context(), c) {
			t.Errorf("%s: %s\n%s", c.FullName(), f.Message, strings.Join(f.Detail, "\n"))
		}
	}
}
