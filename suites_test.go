package espalier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// suite is a suite of the corpus, as its authors run it against a real API server.
type suite struct {
	file         string
	APIVersion   string   `json:"apiVersion"`
	Name         string   `json:"name"`
	CRDName      string   `json:"crdName"`
	Version      string   `json:"version"`
	FeatureGates []string `json:"featureGates"`
	Tests        struct {
		OnCreate []suiteCase `json:"onCreate"`
		OnUpdate []suiteCase `json:"onUpdate"`
	} `json:"tests"`
}

// id is how listedCases names the suite.
func (s *suite) id() string { return strings.TrimSuffix(filepath.Base(s.file), ".yaml") }

// suiteCase is an object that is created and, in cases of updates, replaced.
type suiteCase struct {
	Name string `json:"name"`
	// InitialCRDPatches make the definition under which the initial object is
	// created. It is replaced under the one without them.
	InitialCRDPatches []suitePatch `json:"initialCRDPatches"`
	Initial           string       `json:"initial"`
	Updated           string       `json:"updated"`
	// Expected is what is read in the end, and what was sent if it is empty.
	Expected            string `json:"expected"`
	ExpectedError       string `json:"expectedError"`
	ExpectedStatusError string `json:"expectedStatusError"`
}

// suitePatch is an operation of RFC 6902.
type suitePatch struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// listedCase is a case that needs something else than the corpus has.
type listedCase struct {
	suite string
	// test is the case; if empty, all of the suite are meant.
	test   string
	reason string
}

// listedCases are the cases that do not pass, with what they would need. They run
// all the same, and must fail: one that passes is to be taken off the list.
func listedCases() []listedCase {
	const (
		otherVersion = "the corpus has the definition with version v1 alone"
		otherVariant = "needs the variant of the definition without the feature gate Example; the corpus has the one with it"
	)
	return []listedCase{
		{suite: "config__v1alpha1__tests__insightsdatagathers.config.openshift.io__InsightsConfig", reason: otherVersion},
		{suite: "config__v1alpha2__tests__insightsdatagathers.config.openshift.io__InsightsConfig", reason: otherVersion},
		{
			suite:  "example__v1__tests__stableconfigtypes.example.openshift.io__-Example",
			test:   "Should not persist a tech preview field",
			reason: otherVariant,
		},
		{
			suite:  "example__v1__tests__stableconfigtypes.example.openshift.io__-Example",
			test:   "With an EvolvingUnion, Should not allow a TechPreview enum value",
			reason: otherVariant,
		},
	}
}

// TestSuites runs the suites of the corpus: real definitions with what their authors
// have seen a real API server do to objects.
func TestSuites(t *testing.T) {
	suites := loadSuites(t)
	run := suiteRunner{admitters: map[string]*espalier.Admitter{}}
	reasons := listedReasons(t, suites)
	passed, listed := 0, 0
	check := func(t *testing.T, s *suite, c *suiteCase, err error) {
		reason := reasons[s.id()+"/"+c.Name]
		switch {
		case reason == "" && err != nil:
			t.Error(err)
		case reason == "":
			passed++
		case err == nil:
			t.Errorf("passes, but is listed: %s", reason)
		default:
			listed++
			t.Logf("listed: %s; got: %v", reason, err)
		}
	}
	for _, s := range suites {
		t.Run(s.id(), func(t *testing.T) {
			for _, c := range s.Tests.OnCreate {
				t.Run("create/"+c.Name, func(t *testing.T) { check(t, s, &c, run.create(s, &c)) })
			}
			for _, c := range s.Tests.OnUpdate {
				t.Run("update/"+c.Name, func(t *testing.T) { check(t, s, &c, run.update(s, &c)) })
			}
		})
	}
	t.Logf("%d suites, %d definitions compiled: %d cases passed (%d with an error as earlier releases of Kubernetes word it), %d listed",
		len(suites), len(run.admitters), passed, run.earlier, listed)
}

func loadSuites(t *testing.T) (suites []*suite) {
	root := os.Getenv("ESPALIER_CORPUS")
	if root == "" {
		root = filepath.Join("..", "shared", "corpus")
	}
	files, err := filepath.Glob(filepath.Join(root, "testsuites", "*", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skipf("no suites in %s: set ESPALIER_CORPUS to the directory of the corpus", root)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := &suite{file: file}
		if err := yaml.UnmarshalStrict(text, s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		suites = append(suites, s)
	}
	return suites
}

// listedReasons gives the reasons of listedCases by suite and case, and makes sure
// that there are such cases.
func listedReasons(t *testing.T, suites []*suite) map[string]string {
	reasons := map[string]string{}
	for _, l := range listedCases() {
		found := false
		for _, s := range suites {
			for _, c := range append(s.Tests.OnCreate[:len(s.Tests.OnCreate):len(s.Tests.OnCreate)], s.Tests.OnUpdate...) {
				if s.id() == l.suite && (c.Name == l.test || l.test == "") {
					reasons[s.id()+"/"+c.Name] = l.reason
					found = true
				}
			}
		}
		if !found {
			t.Errorf("listed, but not there: suite %q, case %q", l.suite, l.test)
		}
	}
	return reasons
}

// suiteRunner does what the runner of the suites' authors does with a client.
type suiteRunner struct {
	// admitters are by definition, version and patches: each is compiled once.
	admitters map[string]*espalier.Admitter
	// earlier counts the errors that are expected in earlier releases' words.
	earlier int
}

// create runs a case that creates an object.
func (r *suiteRunner) create(s *suite, c *suiteCase) error {
	a, err := r.admitter(s, nil)
	if err != nil {
		return err
	}
	initial, err := readSuiteObject(c.Initial)
	if err != nil {
		return err
	}
	stored, err := suiteResult(a.Create(initial))
	if done, err := r.expectError(err, c.ExpectedError); done || err != nil {
		return err
	}
	return compareObject(stored, c.Expected, c.Initial)
}

// update runs a case that creates an object, maybe under another definition, and
// then replaces it.
func (r *suiteRunner) update(s *suite, c *suiteCase) error {
	a, err := r.admitter(s, nil)
	if err != nil {
		return err
	}
	stored, err := r.stored(s, c)
	if err != nil {
		return err
	}
	if len(c.InitialCRDPatches) > 0 {
		// The definition is put right. What is stored must survive a write as it is.
		if stored, err = suiteResult(a.Update(stored, stored)); err != nil {
			return fmt.Errorf("writing the initial object again: %w", err)
		}
	}
	updated, err := readSuiteObject(c.Updated)
	if err != nil {
		return err
	}
	for _, k := range []string{"name", "namespace"} {
		updated["metadata"].(map[string]any)[k] = stored["metadata"].(map[string]any)[k]
	}
	got, err := suiteResult(a.Update(updated, stored))
	if done, err := r.expectError(err, c.ExpectedError); done || err != nil {
		return err
	}
	if status, ok := updated["status"]; ok {
		got, err = updateStatus(a, got, status)
		if done, err := r.expectError(err, c.ExpectedStatusError); done || err != nil {
			return err
		}
	}
	return compareObject(got, c.Expected, c.Updated)
}

// stored makes the object that a case of an update replaces.
func (r *suiteRunner) stored(s *suite, c *suiteCase) (espalier.Object, error) {
	a, err := r.admitter(s, c.InitialCRDPatches)
	if err != nil {
		return nil, err
	}
	initial, err := readSuiteObject(c.Initial)
	if err != nil {
		return nil, err
	}
	stored, err := suiteResult(a.Create(initial))
	if err != nil {
		return nil, fmt.Errorf("creating the initial object: %w", err)
	}
	if status, ok := initial["status"]; ok {
		if stored, err = updateStatus(a, stored, status); err != nil {
			return nil, fmt.Errorf("writing the initial status: %w", err)
		}
	}
	return stored, nil
}

// admitter compiles the definition of a suite.
func (r *suiteRunner) admitter(s *suite, patches []suitePatch) (*espalier.Admitter, error) {
	key := fmt.Sprint(s.CRDName, " ", s.Version, " ", patches)
	if a := r.admitters[key]; a != nil {
		return a, nil
	}
	project := filepath.Dir(s.file)
	text, err := os.ReadFile(filepath.Join(project, "..", "..", "v1", filepath.Base(project), s.CRDName+".yaml"))
	if err != nil {
		return nil, err
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	for _, p := range patches {
		// An index in a path is that of the file, with all its versions.
		if tree, err = p.apply(tree, p.Path); err != nil {
			return nil, fmt.Errorf("patch %s: %w", p.Path, err)
		}
	}
	if text, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	var d api.CustomResourceDefinition
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	// Some files are sources from which the definitions that get installed are
	// merged. These annotations, not all of them valid, only say how.
	maps.DeleteFunc(d.Annotations, func(k, _ string) bool { return strings.HasPrefix(k, "feature-gate.release.openshift.io/") })
	if s.Version != "" {
		var versions []api.CustomResourceDefinitionVersion
		for _, v := range d.Spec.Versions {
			if v.Name == s.Version {
				v.Served, v.Storage = true, true
				versions = append(versions, v)
			}
		}
		d.Spec.Versions = versions
	}
	a, err := espalier.New(&d, espalier.WithSemantics(schema.Kubernetes), espalier.WithRules(cel.Checker{}))
	if err != nil {
		return nil, err
	}
	r.admitters[key] = a
	return a, nil
}

// apply applies the operation below v, where path is what is left of its path.
func (p suitePatch) apply(v any, path string) (any, error) {
	if path == "" {
		if p.Op == "replace" {
			return p.Value, nil
		}
		return nil, fmt.Errorf("cannot %q here", p.Op)
	}
	token, rest, more := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	if more {
		rest = "/" + rest
	}
	switch v := v.(type) {
	case map[string]any:
		child, ok := v[token]
		switch {
		case rest == "" && p.Op == "add":
			v[token] = p.Value
			return v, nil
		case !ok:
			return nil, fmt.Errorf("there is no %q", token)
		case rest == "" && p.Op == "remove":
			delete(v, token)
			return v, nil
		}
		child, err := p.apply(child, rest)
		v[token] = child
		return v, err
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v) {
			return nil, fmt.Errorf("there is no element %q", token)
		}
		v[i], err = p.apply(v[i], rest)
		return v, err
	}
	return nil, fmt.Errorf("there is nothing below a %T", v)
}

// readSuiteObject reads an object and names it, as a client and the server do.
func readSuiteObject(text string) (obj espalier.Object, err error) {
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(data, &obj); err != nil {
		return nil, err
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		obj["metadata"] = meta
	}
	meta["generateName"], meta["namespace"] = "test-", "default"
	if meta["name"] == nil {
		meta["name"] = "test-4x7bq"
	}
	return obj, nil
}

// suiteResult is what a request gives: the stored object or an error.
func suiteResult(r *espalier.Result, err error) (espalier.Object, error) {
	if err != nil {
		return nil, err
	}
	var invalid *espalier.InvalidError
	if errors.As(r.Err(), &invalid) {
		return nil, refuse(invalid, r.Violations)
	}
	return r.Object, nil
}

// updateStatus writes a status to a stored object.
func updateStatus(a *espalier.Admitter, stored espalier.Object, status any) (espalier.Object, error) {
	sent := maps.Clone(stored)
	sent["status"] = status
	return suiteResult(a.UpdateStatus(sent, stored))
}

// expectError says whether err is the expected one, so that a case is done, and
// gives an error if it should have been.
func (r *suiteRunner) expectError(err error, want string) (done bool, _ error) {
	var refused *refusal
	switch {
	case want == "":
		return false, err
	case err == nil:
		return false, fmt.Errorf("no error, want %q", want)
	case strings.Contains(err.Error(), want):
		return true, nil
	case errors.As(err, &refused) && strings.Contains(refused.earlier, want):
		r.earlier++
		return true, nil
	}
	return false, fmt.Errorf("error\n%w\nwant\n%s", err, want)
}

// refusal is the error of an invalid object.
type refusal struct {
	error
	// earlier is how earlier releases of Kubernetes word it, against which most of
	// the suites were written.
	earlier string
}

// refuse makes the refusal of a result. Earlier releases of Kubernetes named the
// type of a value that breaks a rule where there is the value now, or nothing, and
// did not print composite values and null as JSON.
func refuse(invalid *espalier.InvalidError, violations schema.Violations) *refusal {
	earlier := espalier.InvalidError{Kind: invalid.Kind, Name: invalid.Name}
	for _, v := range violations {
		for _, e := range (schema.Violations{v}).FieldErrors() {
			e := *e
			switch value := e.BadValue.(type) {
			case nil:
				e.BadValue = "null"
			case map[string]any:
				e.BadValue = goSyntax{value}
			}
			if v.Kind == schema.Rule {
				switch v.Value.(type) {
				case map[string]any:
					e.BadValue = "object"
				case []any:
					e.BadValue = "array"
				case string:
					e.BadValue = "string"
				case int64:
					e.BadValue = "integer"
				}
			}
			earlier.Errors = append(earlier.Errors, &e)
		}
	}
	return &refusal{error: invalid, earlier: earlier.Error()}
}

// goSyntax is a value that field.Error prints in the syntax of Go, because it is
// none of JSON.
type goSyntax struct{ value any }

func (g goSyntax) MarshalJSON() ([]byte, error) { return nil, errors.New("not JSON") }
func (g goSyntax) String() string               { return fmt.Sprintf("%#v", g.value) }

// compareObject compares all of an object but what the server makes up.
func compareObject(got espalier.Object, expected, sent string) error {
	if strings.TrimSpace(expected) == "" {
		expected = sent
	}
	want, err := readSuiteObject(expected)
	if err != nil {
		return err
	}
	meta, wantMeta := got["metadata"].(map[string]any), want["metadata"].(map[string]any)
	for _, k := range []string{"name", "namespace"} {
		delete(wantMeta, k)
		if meta[k] != nil {
			wantMeta[k] = meta[k]
		}
	}
	for _, k := range []string{
		"uid", "generation", "creationTimestamp", "resourceVersion", "managedFields",
		"deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "generateName",
	} {
		delete(meta, k)
		delete(wantMeta, k)
	}
	if !reflect.DeepEqual(got, want) {
		g, _ := json.MarshalIndent(got, "", " ")
		w, _ := json.MarshalIndent(want, "", " ")
		return fmt.Errorf("got\n%s\nwant\n%s", g, w)
	}
	return nil
}
