package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/textdiff"
	"espalier.dev/schema"
)

// Runner runs the cases of one suite against a CRD.
type Runner struct {
	suite    *Suite
	source   any
	options  Options
	admitter *espalier.Admitter
	// other replaces admitter if the suite has no CRD, and types are what its objects are by
	// default.
	other Admitter
	types metav1.TypeMeta
	// patched caches the admitters of patched CRDs.
	patched map[string]*espalier.Admitter
}

// Admitter does what the API server does to objects. [espalier.Admitter] is one for the objects of
// a CRD. Errors that have causes, as those of the API server, name the fields that are rejected.
type Admitter interface {
	Create(ctx context.Context, obj schema.Object) (*espalier.Result, error)
	Update(ctx context.Context, obj, old schema.Object) (*espalier.Result, error)
	UpdateStatus(ctx context.Context, obj, old schema.Object) (*espalier.Result, error)
}

// NewRunnerFor returns a Runner for a suite of objects that need no CRD, such as Deployments.
// Objects without apiVersion and kind are of the given type.
func NewRunnerFor(s *Suite, a Admitter, types metav1.TypeMeta, o Options) *Runner {
	if s.Semantics != nil {
		o.Semantics = *s.Semantics
	}
	return &Runner{suite: s, options: o, other: a, types: types}
}

// Options configures a Runner.
type Options struct {
	// Semantics is the schema semantics to apply if the suite does not set it.
	Semantics schema.Semantics
	// Rules evaluates x-kubernetes-validations. If it is nil, a CRD with rules is an error.
	Rules crd.RuleChecker
	// Policies are the admission policies of the suite. It may be nil.
	Policies Policies
}

// NewRunner returns a Runner for a suite and its CRD, given as JSON. It returns an error if
// the API server would reject the CRD.
func NewRunner(ctx context.Context, s *Suite, definition []byte, o Options) (*Runner, error) {
	source, err := jsonx.Parse(definition)
	if err != nil {
		return nil, err
	}
	if s.Semantics != nil {
		o.Semantics = *s.Semantics
	}
	r := &Runner{suite: s, source: source, options: o, patched: map[string]*espalier.Admitter{}}
	r.admitter, err = r.compile(ctx, nil)
	return r, err
}

// Semantics returns the schema semantics that applies.
func (r *Runner) Semantics() schema.Semantics { return r.options.Semantics }

// compile returns an Admitter for the CRD with patches applied.
func (r *Runner) compile(ctx context.Context, patches []patch) (*espalier.Admitter, error) {
	tree := jsonx.Copy(r.source)
	for _, p := range patches {
		// An index in a path refers to the file with all its versions.
		var err error
		if tree, err = p.apply(tree, p.Path); err != nil {
			return nil, fmt.Errorf("patch of %s: %w", p.Path, err)
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	if !r.options.Semantics.KnowsForeignFields() {
		text = api.DropMalformedForeign(text)
	}
	options := []espalier.Option{espalier.WithSemantics(r.options.Semantics), espalier.WithRules(r.options.Rules)}
	if root, _ := tree.(map[string]any); api.IdentifyObject(root).APIVersion == v1beta1.APIVersion {
		var d v1beta1.CustomResourceDefinition
		if err := api.Unmarshal(text, &d); err != nil {
			return nil, err
		}
		return espalier.NewV1beta1(ctx, &d, options...)
	}
	var d api.CustomResourceDefinition
	if err := api.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	if r.suite.openshift {
		// Some files are sources from which the installed CRDs are merged. These
		// annotations control the merge, and not all of them are valid.
		maps.DeleteFunc(d.Annotations, func(k, _ string) bool { return strings.HasPrefix(k, "feature-gate.release.openshift.io/") })
	}
	if r.suite.Version != "" {
		var versions []api.CustomResourceDefinitionVersion
		for _, v := range d.Spec.Versions {
			if v.Name == r.suite.Version {
				v.Served, v.Storage = true, true
				versions = append(versions, v)
			}
		}
		if len(versions) == 0 {
			return nil, fmt.Errorf("%s has no version %q", d.Name, r.suite.Version)
		}
		d.Spec.Versions = versions
	}
	return espalier.New(ctx, &d, options...)
}

// madeByServer returns the metadata fields that the API server generates.
func madeByServer() []string {
	return []string{
		"uid", "generation", "creationTimestamp", "resourceVersion", "managedFields",
		"deletionGracePeriodSeconds", "deletionTimestamp", "selfLink",
	}
}

// difference returns the lines of a YAML diff of two objects. It ignores fields that the
// API server generates, and a name or namespace that is not expected.
func difference(want, got, expected schema.Object) []string {
	want, got = jsonx.CopyObject(want), jsonx.CopyObject(got)
	wantMeta, _ := want["metadata"].(map[string]any)
	gotMeta, _ := got["metadata"].(map[string]any)
	for _, key := range madeByServer() {
		delete(wantMeta, key)
		delete(gotMeta, key)
	}
	given, _ := expected["metadata"].(map[string]any)
	for _, key := range []string{"name", "namespace", "generateName"} {
		if given[key] == nil {
			delete(wantMeta, key)
			delete(gotMeta, key)
		}
	}
	wantText, err := yaml.Marshal(want)
	if err != nil {
		return []string{err.Error()}
	}
	gotText, err := yaml.Marshal(got)
	if err != nil {
		return []string{err.Error()}
	}
	return diff(string(wantText), string(gotText))
}

// diff returns the lines to remove from want (-) and to add (+) to get got.
func diff(want, got string) (lines []string) {
	for _, h := range textdiff.Hunks([]byte(want), []byte(got), 3) {
		for _, l := range h.Lines {
			lines = append(lines, string(l.Op)+" "+strings.TrimRight(string(l.Text), "\n"))
		}
	}
	if len(lines) > 0 {
		lines = append([]string{"expected (-), got (+):"}, lines...)
	}
	return lines
}
