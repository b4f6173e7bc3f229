package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/crdserverscheme"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/internal/program"
	"espalier.dev/internal/testcase"
)

// TestValidateCommand compares "espalier validate --semantics kubernetes" with the
// reference's handling of a create request, on all objects of the corpus and on changed
// copies: whether the object is accepted, the paths of the errors, and the unknown fields.
func TestValidateCommand(t *testing.T) {
	mutations := int(setting(t, "ORACLE_MUTATIONS", 3))
	corpus := readCorpus(t)
	dir, index := corpus.dir, corpus.objects
	espalier := program.Path(t, program.Complete)
	var (
		objects, changed, refused, unserved int
		different                           int
	)
	for i, group := range commandGroups(t, dir, index) {
		work := t.TempDir()
		var asked []*commandCase
		var args []string
		for _, file := range group {
			creators, err := newCreators(dir, file)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			args = append(args, "--crd", filepath.Join(dir, file))
			cases, err := commandCases(dir, file, work, index[file], mutations)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range cases {
				if c.creator = creators[c.apiVersion]; c.creator == nil {
					unserved++
					continue
				}
				c.want = c.creator.create(c.doc)
				if c.want.other {
					continue
				}
				args = append(args, "-f", c.file)
				asked = append(asked, c)
			}
		}
		got := runValidate(t, espalier, args, len(asked))
		for _, c := range asked {
			ours := got[c.file]
			if c.changed {
				changed++
			} else {
				objects++
			}
			if c.want.refused {
				refused++
			}
			if c.agrees(ours) {
				continue
			}
			if different++; different <= 20 {
				t.Errorf("group %d: %s\n  object:    %s\n  reference: %v\n  ours:      %v", i, c.name, c.doc, c.want, ours)
			}
		}
	}
	t.Logf("compared %d objects and %d changed copies, of which %d are rejected; %d have a version that cannot be served; %d differ",
		objects, changed, refused, unserved, different)
	if different > 0 {
		t.Errorf("%d verdicts differ", different)
	}
	if objects < 100 || objects < 1500 && testcase.WholeCorpus() {
		t.Errorf("the corpus has 1,784 objects; only %d were compared", objects)
	}
}

// commandGroups divides the CRDs that have objects into groups without duplicate kinds: a
// server has only one CRD of a kind.
func commandGroups(t *testing.T, dir string, index map[string][]corpusObject) (groups [][]string) {
	t.Helper()
	var taken []map[string]bool
	for _, file := range testcase.Part(slices.Sorted(maps.Keys(index))) {
		crd, err := readYAML(filepath.Join(dir, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		spec, _ := crd["spec"].(map[string]any)
		names, _ := spec["names"].(map[string]any)
		kind := str(spec["group"]) + "/" + str(names["kind"])
		at := slices.IndexFunc(taken, func(kinds map[string]bool) bool { return !kinds[kind] })
		if at < 0 {
			at = len(taken)
			taken, groups = append(taken, map[string]bool{}), append(groups, nil)
		}
		taken[at][kind] = true
		groups[at] = append(groups[at], file)
	}
	return groups
}

// commandCase is an object in a file of its own.
type commandCase struct {
	name, file, apiVersion string
	doc                    []byte
	changed                bool
	creator                *creator
	want                   outcome
}

// commandCases returns the objects of a CRD and changed copies, and writes them to files.
func commandCases(dir, crd, work string, objects []corpusObject, mutations int) (cases []*commandCase, err error) {
	for i, o := range objects {
		file := filepath.Join(dir, o.file)
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		doc, err := yaml.YAMLToJSON(src)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.file, err)
		}
		cases = append(cases, &commandCase{name: o.file, file: file, apiVersion: o.apiVersion, doc: doc})
		g := &gen{r: rand.New(rand.NewPCG(uint64(len(crd)), uint64(i)))}
		for n := range mutations {
			var v any = parse(doc)
			g.mutate(&v, 1+g.r.IntN(3))
			c := &commandCase{
				name:       fmt.Sprintf("%s changed (%d)", o.file, n),
				file:       filepath.Join(work, fmt.Sprintf("%s-%d-%d.json", strings.ReplaceAll(crd, "/", "-"), i, n)),
				apiVersion: o.apiVersion, doc: encode(v), changed: true,
			}
			if err := os.WriteFile(c.file, c.doc, 0o600); err != nil {
				return nil, err
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// outcome is the result of validating an object.
type outcome struct {
	refused bool
	// paths are the fields with errors. They are unknown if the object could not be decoded.
	paths  map[string]bool
	unread bool
	// unknown are the pruned fields, if the object was decoded.
	unknown map[string]bool
	// messages are the error messages, to help find the cause of a difference.
	messages []string
	// other is set if the object does not belong to this resource, or the reference has no
	// result.
	other bool
}

// String formats the outcome.
func (o outcome) String() string {
	return fmt.Sprintf("rejected %v, paths %q, unknown %q: %q", o.refused, slices.Sorted(maps.Keys(o.paths)), slices.Sorted(maps.Keys(o.unknown)), o.messages)
}

// agrees reports whether the reference has the same outcome. It is asked again where its
// answer depends on the order of a map.
func (c *commandCase) agrees(ours outcome) bool {
	want := c.want
	for range tries {
		switch {
		case want.refused != ours.refused:
		case want.unread, want.samePaths(ours) && maps.Equal(want.unknown, ours.unknown):
			return true
		}
		want = c.creator.create(c.doc)
	}
	return false
}

// samePaths reports whether both sides report errors for the same fields. For an error in a
// branch of a logical operator, the reference lists the branch's errors next to the
// operator's, the command below it.
func (o outcome) samePaths(ours outcome) bool {
	for path := range ours.paths {
		if !o.paths[path] {
			return false
		}
	}
	said := strings.Join(ours.messages, "\n")
	for path := range o.paths {
		if !ours.paths[path] && !(strings.Contains(said, "is the closest match") && strings.Contains(said, " "+path+": ")) {
			return false
		}
	}
	return true
}

// The paths that errors of the reference contain only in their text.
var (
	operatorPlace = regexp.MustCompile(`^Invalid value: "": "([^"]+)" must (not )?validate `)
	formatPlace   = regexp.MustCompile(`^Invalid value: "": Checked value must be of type .* in (\S+)$`)
)

// causePath returns the field that an error of the reference is about.
func causePath(cause metav1.StatusCause) string {
	if cause.Field != "<nil>" {
		// The paths of the scale subresource come from the CRD.
		return strings.TrimPrefix(cause.Field, ".")
	}
	for _, place := range []*regexp.Regexp{operatorPlace, formatPlace} {
		if m := place.FindStringSubmatch(cause.Message); m != nil {
			return m[1]
		}
	}
	return ""
}

// runValidate runs the command on files and returns the outcome of each.
func runValidate(t *testing.T, espalier string, args []string, files int) map[string]outcome {
	t.Helper()
	c := exec.Command(espalier, append([]string{"validate", "--semantics", "kubernetes", "-o", "json"}, args...)...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
		t.Fatalf("%v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	var report struct {
		Findings []struct {
			File, Rule, Severity, Path, Message string
			Details                             []string
		}
		Summary struct{ Objects, Files int }
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if report.Summary.Objects != files || report.Summary.Files != files {
		t.Fatalf("%d objects in %d files were validated, not %d", report.Summary.Objects, report.Summary.Files, files)
	}
	out := map[string]outcome{}
	for _, f := range report.Findings {
		o := out[f.File]
		if o.paths == nil {
			o.paths, o.unknown = map[string]bool{}, map[string]bool{}
		}
		switch {
		case f.Severity == "error":
			o.refused = true
			o.paths[f.Path] = true
		case f.Rule == "unknown-field":
			o.unknown[f.Path] = true
		default:
			continue
		}
		o.messages = append(append(o.messages, f.Path+": "+f.Message), f.Details...)
		out[f.File] = o
	}
	return out
}

// creator handles the creation of an object as the reference's server does.
type creator struct {
	*Reference
	strategy rest.RESTCreateStrategy
}

// newCreators returns the creators of the served versions of a CRD, by apiVersion.
func newCreators(dir, file string) (map[string]*creator, error) {
	crd, err := readYAML(filepath.Join(dir, file))
	if err != nil {
		return nil, err
	}
	out := map[string]*creator{}
	spec, _ := crd["spec"].(map[string]any)
	for _, v := range versions(file, crd) {
		version, served := spec, true
		list, _ := spec["versions"].([]any)
		for _, x := range list {
			if x, ok := x.(map[string]any); ok && x["name"] == v.base.Kind.Version {
				version, served = x, x["served"] == true
			}
		}
		if !served {
			continue
		}
		subresources := version["subresources"]
		if subresources == nil {
			subresources = spec["subresources"]
		}
		c, err := newCreator(v.base, subresources)
		if err != nil {
			// The reference cannot serve it either.
			continue
		}
		out[v.base.Kind.GroupVersion().String()] = c
	}
	return out, nil
}

func newCreator(base Case, subresources any) (*creator, error) {
	var (
		schemaJSON []byte
		props      *apiextensions.JSONSchemaProps
		structural *structuralschema.Structural
		err        error
	)
	if base.Schema != nil {
		schemaJSON = encode(base.Schema)
		if props, err = ReferenceSchema(schemaJSON); err != nil {
			return nil, err
		}
		if structural, err = structuralschema.NewStructural(props); err != nil {
			return nil, err
		}
		if !base.Preserve {
			if err := defaulting.PruneDefaults(structural); err != nil {
				return nil, err
			}
		}
	}
	ref, err := NewReference(schemaJSON, base.Kind, base.Namespaced, base.Preserve)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	var sub apiextensions.CustomResourceSubresources
	if m, ok := subresources.(map[string]any); ok {
		if m["status"] != nil {
			sub.Status = &apiextensions.CustomResourceSubresourceStatus{}
		}
		if scale, ok := m["scale"].(map[string]any); ok {
			sub.Scale = &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: str(scale["specReplicasPath"]), StatusReplicasPath: str(scale["statusReplicasPath"])}
			if p := str(scale["labelSelectorPath"]); p != "" {
				sub.Scale.LabelSelectorPath = &p
			}
		}
	}
	c := &creator{Reference: ref}
	if g := guard(func() {
		c.strategy = customresource.NewStrategy(crdserverscheme.NewUnstructuredObjectTyper(), base.Namespaced, base.Kind, validator, nil, structural, sub.Status, sub.Scale, nil)
	}); g != "" {
		return nil, errors.New(g)
	}
	return c, nil
}

// create creates an object without storing it.
func (c *creator) create(doc []byte) (o outcome) {
	if guard(func() { o = c.tryCreate(doc) }) != "" {
		return outcome{other: true} // the reference panics: nothing to compare
	}
	return o
}

func (c *creator) tryCreate(doc []byte) outcome {
	o := outcome{paths: map[string]bool{}, unknown: map[string]bool{}}
	unread := func(err error) outcome {
		return outcome{refused: true, unread: true, messages: []string{err.Error()}}
	}
	decoded := c.Decode(doc, FromRequest)
	switch {
	case errors.Is(decoded.Err, errNotThisResource):
		return outcome{other: true}
	case decoded.Err != nil:
		return unread(decoded.Err)
	}
	u := &unstructured.Unstructured{Object: decoded.Object}
	if u.GetResourceVersion() != "" {
		return unread(errors.New("the storage rejects a new object with a resourceVersion"))
	}
	for _, path := range decoded.Unknown {
		o.unknown[path] = true
	}
	namespace := ""
	if c.strategy.NamespaceScoped() {
		if namespace = u.GetNamespace(); namespace == "" {
			namespace = "default"
		}
	}
	rest.FillObjectMetaSystemFields(u)
	if u.GetGenerateName() != "" && u.GetName() == "" {
		u.SetName(c.strategy.GenerateName(u.GetGenerateName()))
	}
	err := rest.BeforeCreate(c.strategy, genericapirequest.WithNamespace(context.Background(), namespace), u)
	if err == nil {
		return o
	}
	o.refused = true
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil {
		return unread(err)
	}
	for _, cause := range status.ErrStatus.Details.Causes {
		o.messages = append(o.messages, cause.Field+": "+cause.Message)
		if strings.Contains(cause.Message, "some validation rules were not checked") {
			continue
		}
		o.paths[causePath(cause)] = true
	}
	return o
}
