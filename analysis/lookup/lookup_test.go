package lookup_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/lookup"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/schema"
)

const things = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th]}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v2, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}
`

const others = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.spec.example.org}
spec:
  group: spec.example.org
  names: {kind: Thing, plural: things}
  scope: Cluster
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]
`

func define(t *testing.T, text string) *crd.Definition {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.DecodeLenient(data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(c, crd.Options{Semantics: schema.KEP})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFind(t *testing.T) {
	one := []*crd.Definition{define(t, things)}
	both := append(one, define(t, others))
	for _, c := range []struct {
		definitions         []*crd.Definition
		request, apiVersion string
		want                string // group version path, or the error
	}{
		{one, "things", "", "example.com v1 "},
		{one, "THING", "", "example.com v1 "},
		{one, "th.spec.mode", "", "example.com v1 spec.mode"},
		{one, "Thing.example.com", "", "example.com v1 "},
		{one, "things.example.com.spec.ports", "", "example.com v1 spec.ports"},
		{one, "things", "v1alpha1", "example.com v1alpha1 "},
		{one, "things", "example.com/v2", "example.com v2 "},
		{one, "things", "v3", "things.example.com has no version \"v3\": it has v1alpha1, v2, v1"},
		{one, "things", "other.com/v1", `no CRD defines a resource "things" in group "other.com": there are things.example.com`},
		{one, "thigns", "", `no CRD defines a resource "thigns": did you mean "things"?`},
		{one, "deployments", "", `no CRD defines a resource "deployments": there are things.example.com`},
		{both, "things.spec.mode", "", `"things" matches several resources: use one of things.example.com, things.spec.example.org`},
		{both, "things.spec.example.org.spec", "", "spec.example.org v1 spec"},
		{both, "things.spec", "example.com/v1", "example.com v1 spec"},
		{append(one, one...), "things", "", "example.com v1 "},
		{nil, "things", "", `no CRD defines a resource "things"`},
	} {
		v, path, err := lookup.Find(c.definitions, c.request, c.apiVersion)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = v.Definition().Group() + " " + v.Name() + " " + path
		}
		if got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.request, c.apiVersion, got, c.want)
		}
	}
}

// deployments is a built-in resource, described as a CRD would define it.
const deployments = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: deployments.apps}
spec:
  group: apps
  names: {kind: Deployment, plural: deployments, singular: deployment, shortNames: [deploy, th]}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestResources looks for resources among CRDs and built-in ones: CRDs take precedence.
func TestResources(t *testing.T) {
	all := lookup.Resources{
		CRDs: []*crd.Definition{define(t, things)}, Advice: "add it", Names: slices.Values([]string{"deployments", "deployment", "Deployment", "deploy"}),
		Builtin: func(name string) ([]*crd.Definition, error) {
			if name == "th" || name == "deployments" {
				return []*crd.Definition{define(t, deployments)}, nil
			}
			return nil, nil
		},
	}
	for request, want := range map[string]string{
		"deployments.spec": "deployments.apps v1 spec ",
		"th.spec":          "things.example.com v1 spec deployments.apps",
		"deploymnets":      `neither the CRDs nor Kubernetes have a resource "deploymnets": did you mean "deployments"?`,
		"thigns":           `neither the CRDs nor Kubernetes have a resource "thigns": did you mean "things"?`,
		"other":            `neither the CRDs nor Kubernetes have a resource "other": add it`,
	} {
		r, err := all.Find(request, "")
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = r.Definition().Name() + " " + r.Name() + " " + r.Path + " " + strings.Join(r.Also, ",")
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", request, got, want)
		}
	}
}

// object is an object with an apiVersion and a kind.
type object [2]string

func (o object) APIVersion() string { return o[0] }
func (o object) Kind() string       { return o[1] }
func (o object) Field(string) byte  { return 0 }

// definition is a CRD in a file.
type definition struct {
	file string
	crd  *crd.Definition
}

func (d *definition) Defines() runtimeschema.GroupKind {
	return runtimeschema.GroupKind{Group: d.crd.Group(), Kind: d.crd.Names().Kind}
}
func (d *definition) Base() (*crd.Definition, error) { return d.crd, nil }
func (d *definition) Place() string                  { return d.file }

// newIndex returns an index of CRDs.
func newIndex(crds ...*definition) *lookup.Index[*definition] {
	x := lookup.New[*definition]()
	for _, d := range crds {
		x.Add(d)
	}
	return x
}

// TestMissing looks for the CRDs of objects that have none.
func TestMissing(t *testing.T) {
	x := newIndex(&definition{"things.yaml", define(t, things)})
	for _, c := range []struct {
		apiVersion, kind string
		field, want      string
		unrelated        bool
	}{
		{"example.com/v2", "Thing", "apiVersion", `version "v2" of Thing is not served: the CRD in things.yaml serves v1alpha1, v1`, false},
		{"example.com/v1", "Thnig", "kind", `no CRD found for example.com/v1 Thnig: did you mean "Thing"?`, false},
		{"example.com/v1", "Other", "kind", `no CRD found for example.com/v1 Other: add it with --crd (the CRDs of its group define Thing)`, false},
		{"exmaple.com/v3", "Thing", "apiVersion", `no CRD found for exmaple.com/v3 Thing: did you mean "example.com/v1alpha1"?`, false},
		{"example.org/v1", "Thing", "apiVersion", `no CRD found for example.org/v1 Thing: did you mean "example.com/v1"?`, false},
		{"example.com", "Thing", "apiVersion", `no CRD found for example.com Thing: did you mean "example.com/v1alpha1"?`, false},
		{"other.io/v1", "Thing", "kind", `no CRD found for other.io/v1 Thing: add it with --crd`, true},
		{"a/b/c", "Thing", "apiVersion", `malformed apiVersion "a/b/c": must be group/version, or v1 for the core group`, false},
		{"", "Thing", "kind", `apiVersion and kind are required`, false},
		{"apiextensions.k8s.io/v1", "CustomResourceDefiniton", "kind", `apiextensions.k8s.io/v1 CustomResourceDefiniton is not a CRD: did you mean "CustomResourceDefinition"?`, false},
		{"v1", "CustomResourceDefinition", "apiVersion", `v1 CustomResourceDefinition is not a CRD: did you mean "apiextensions.k8s.io/v1"?`, false},
		{"apps/v1", "Deployment", "kind", `apps/v1 Deployment is a built-in kind, which has no CRD: skip such objects with --skip-builtin-kinds`, true},
		{"apps/v1beta1", "Deployment", "apiVersion", `apps/v1beta1 Deployment has not been served since Kubernetes 1.16: did you mean "apps/v1"?`, false},
		{"v1", "Deployment", "apiVersion", `Kubernetes has no v1 Deployment: did you mean "apps/v1"?`, false},
		{"apps/v1", "Deplyoment", "kind", `Kubernetes has no apps/v1 Deplyoment: did you mean "Deployment"?`, false},
		{"app/v1", "Deployment", "apiVersion", `no CRD found for app/v1 Deployment: did you mean "apps/v1"?`, false},
		{"v1", "PodList", "kind", `Kubernetes stores no objects of v1 PodList`, true},
	} {
		_, err := x.Find(object{c.apiVersion, c.kind})
		var missing *lookup.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%s %s: %v", c.apiVersion, c.kind, err)
		}
		if err.Error() != c.want || missing.Field != c.field || missing.Unrelated != c.unrelated {
			t.Errorf("%s %s: got %s %s %t, want %s %s %t", c.apiVersion, c.kind, missing.Field, err, missing.Unrelated, c.field, c.want, c.unrelated)
		}
	}
}

// TestPrecedence finds the CRD of an object among several, in the index and in its extension.
func TestPrecedence(t *testing.T) {
	given, same, more := &definition{"given", define(t, things)}, &definition{"same", define(t, things)}, &definition{"more", define(t, things)}
	further, builtin := &definition{"further", define(t, others)}, &definition{"builtin", define(t, deployments)}
	x := newIndex(given, same)
	asked := 0
	x.Extend(func() ([]*definition, error) {
		asked++
		return []*definition{more, further, builtin}, nil
	})
	for _, c := range []struct {
		object object
		want   *definition
		asked  int
	}{
		{object{"example.com/v1", "Thing"}, given, 0},
		{object{"spec.example.org/v1", "Thing"}, further, 1},
		{object{"example.com/v1alpha1", "Thing"}, given, 1},
	} {
		if d, err := x.Find(c.object); err != nil || d != c.want || asked != c.asked || x.IsBuiltin(c.object) {
			t.Errorf("%s: got %v, %v after %d extensions", c.object, d, err, asked)
		}
	}
	if got := x.Others(given); !slices.Equal(got, []*definition{same}) {
		t.Errorf("others are %v", got)
	}
	if _, err := x.Find(object{"example.com/v2", "Thing"}); err == nil {
		t.Error("a CRD of the extension is used for a kind of the index")
	}
	deployment := object{"apps/v1", "Deployment"}
	if !x.IsBuiltin(deployment) {
		t.Error("a CRD of the extension takes precedence over a built-in kind")
	}
	if x.Add(builtin); x.IsBuiltin(deployment) {
		t.Error("a built-in kind takes precedence over a CRD of the index")
	}
}
