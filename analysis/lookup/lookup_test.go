package lookup_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
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
  names: {kind: Thing, plural: things, singular: thg, shortNames: [th]}
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

// minimal returns a CRD of a kind that serves versions, the first of which is stored.
func minimal(group, kind string, versions ...string) string {
	plural := strings.ToLower(kind) + "s"
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + strings.TrimSuffix(plural+"."+group, ".") + "}\nspec:\n" +
		"  group: '" + group + "'\n  names: {kind: " + kind + ", plural: " + plural + "}\n  scope: Namespaced\n  versions:\n"
	for i, v := range versions {
		text += fmt.Sprintf("  - {name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object}}}\n", v, i == 0)
	}
	return text
}

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
	core, letter := []*crd.Definition{define(t, minimal("", "Pod", "v1"))}, []*crd.Definition{define(t, minimal("g", "Letter", "v1"))}
	unserved := []*crd.Definition{define(t, strings.ReplaceAll(things, "served: true", "served: false"))}
	none := []*crd.Definition{define(t, things[:strings.Index(things, "  versions:")]+"  versions: []")}
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
		{one, "", "", `no CRD defines a resource "": there are things.example.com`},
		{both, "", "", `no CRD defines a resource "": there are things.example.com, things.spec.example.org`},
		{one, "thg", "", "example.com v1 "},
		{one, "tgh.spec", "", `no CRD defines a resource "tgh": did you mean "thg"?`},
		{one, "things..spec", "", "example.com v1 .spec"},
		{one, "things.v1alpha1", "", "example.com v1 v1alpha1"},
		{one, "things.v1alpha1.example.com", "", "example.com v1alpha1 "},
		{one, "things.v1alpha1.example.com.spec", "v1alpha1", "example.com v1alpha1 spec"},
		{one, "things.v1alpha1.example.com", "example.com/v1", `"things.v1alpha1.example.com" names version v1alpha1, and the requested version is example.com/v1: use one of them`},
		{one, "things.example.community", "", "example.com v1 example.community"},
		{both, "things.v1.spec.example.org.spec", "", "spec.example.org v1 spec"},
		{core, "pods.v1.spec", "", " v1 spec"},
		{core, "pods.spec.v1", "", " v1 spec.v1"},
		{core, "pods.", "v1", " v1 "},
		{letter, "letters.g.spec", "", "g v1 spec"},
		{letter, "letters.spec", "h/v1", `no CRD defines a resource "letters" in group "h": there are letters.g`},
		{unserved, "things", "", "example.com v2 "},
		{none, "things", "", "things.example.com has no versions"},
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

// pods is a built-in resource of the core group.
func pods(t *testing.T) *crd.Definition {
	return define(t, strings.Replace(minimal("", "Pod", "v1"), "plural: pods", "plural: pods, shortNames: [po, th]", 1))
}

// TestResources looks for resources among CRDs and built-in ones: CRDs take precedence.
func TestResources(t *testing.T) {
	builtin := func(name string) ([]*crd.Definition, error) {
		switch name {
		case "th":
			return []*crd.Definition{define(t, deployments), pods(t)}, nil
		case "deployments":
			return []*crd.Definition{define(t, deployments)}, nil
		case "fails":
			return nil, errors.New("no schemas")
		}
		return nil, nil
	}
	names := slices.Values([]string{"deployments", "deployment", "Deployment", "deploy"})
	alone := &lookup.Resources{Names: names, Builtin: builtin}
	one := &lookup.Resources{CRDs: []*crd.Definition{define(t, things)}, Advice: "add it", Names: names, Builtin: builtin}
	two := &lookup.Resources{CRDs: []*crd.Definition{define(t, things), define(t, others)}, Names: names, Builtin: builtin}
	for _, c := range []struct {
		in                        *lookup.Resources
		request, apiVersion, want string
	}{
		{one, "deployments.spec", "", "deployments.apps v1 spec "},
		{one, "th.spec", "", "things.example.com v1 spec deployments.apps,pods.v1"},
		{one, "th", "v1alpha1", "things.example.com v1alpha1  deployments.apps,pods.v1"},
		{one, "th.apps.spec", "", "deployments.apps v1 spec "},
		{one, "deploymnets", "", `neither the CRDs nor Kubernetes have a resource "deploymnets": did you mean "deployments"?`},
		{one, "thigns", "", `neither the CRDs nor Kubernetes have a resource "thigns": did you mean "things"?`},
		{&lookup.Resources{CRDs: []*crd.Definition{define(t, others)}, Names: names, Builtin: builtin}, "thnig", "", `neither the CRDs nor Kubernetes have a resource "thnig": did you mean "thing"?`},
		{one, "other", "", `neither the CRDs nor Kubernetes have a resource "other": add it`},
		{one, "things", "apps/v1", `neither the CRDs nor Kubernetes have a resource "things" in group "apps": add it`},
		{one, "things", "v7", `things.example.com has no version "v7": it has v1alpha1, v2, v1`},
		{one, "fails", "", "no schemas"},
		{alone, "th", "", "deployments.apps v1  pods.v1"},
		{alone, "things", "", `there is no built-in resource "things"`},
		{two, "thing", "", `"thing" matches several resources: use one of things.example.com, things.spec.example.org`},
		{two, "th", "", "things.example.com v1  deployments.apps,pods.v1"},
		{two, "thing.spec.example.org", "", "things.spec.example.org v1  "},
	} {
		r, err := c.in.Find(c.request, c.apiVersion)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = r.Definition().Name() + " " + r.Name() + " " + r.Path + " " + strings.Join(r.Also, ",")
		}
		if got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.request, c.apiVersion, got, c.want)
		}
	}
}

// object is an object with an apiVersion and a kind.
type object [2]string

func (o object) APIVersion() string { return o[0] }
func (o object) Kind() string       { return o[1] }
func (o object) Field(string) byte  { return 0 }

// definition is a CRD in a file, or one that cannot be used.
type definition struct {
	file string
	kind runtimeschema.GroupKind
	crd  *crd.Definition
}

// in returns a CRD in a file.
func in(file string, d *crd.Definition) *definition {
	return &definition{file, runtimeschema.GroupKind{Group: d.Group(), Kind: d.Names().Kind}, d}
}

// broken returns a CRD of a kind that cannot be used.
func broken(file, group, kind string) *definition {
	return &definition{file: file, kind: runtimeschema.GroupKind{Group: group, Kind: kind}}
}

func (d *definition) Defines() runtimeschema.GroupKind { return d.kind }
func (d *definition) Place() string                    { return d.file }
func (d *definition) Base() (*crd.Definition, error) {
	if d.crd == nil {
		return nil, errors.New(d.file + " is broken")
	}
	return d.crd, nil
}

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
	x := newIndex(in("things.yaml", define(t, things)), broken("part.yaml", "", "Part"), broken("part.yaml", "many.com", ""), broken("broken.yaml", "broken.com", "Broken"),
		in("a.yaml", define(t, minimal("a.many.com", "Aa", "v1"))), in("single.yaml", define(t, minimal("bar", "Single", "v1"))),
		in("shared.yaml", define(t, minimal("shared.com", "Shared", "v1"))), in("secret.yaml", define(t, minimal("shared.com", "Secret", "v1"))))
	for _, kind := range []string{"Gg", "Cc", "Ee", "Aa", "Ff", "Bb", "Dd"} {
		x.Add(in("many.yaml", define(t, minimal("many.com", kind, "v1"))))
	}
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
		{"v1", "Podd", "kind", `Kubernetes has no v1 Podd: did you mean "Pod"?`, false},
		{"v1", "Deployments", "kind", `Kubernetes has no v1 Deployments: did you mean "apps/v1 Deployment"?`, false},
		{"apps/v2", "Deployment", "apiVersion", `Kubernetes has no apps/v2 Deployment: did you mean "apps/v1"?`, false},
		{"v2", "Pod", "apiVersion", `Kubernetes has no v2 Pod: did you mean "v1"?`, false},
		{"batch/v1", "Deployment", "apiVersion", `Kubernetes has no batch/v1 Deployment: did you mean "apps/v1"?`, false},
		{"apps/v1", "Podd", "kind", `Kubernetes has no apps/v1 Podd: did you mean "v1 Pod"?`, false},
		{"extensions/v1beta1", "Ingress", "apiVersion", `extensions/v1beta1 Ingress has not been served since Kubernetes 1.22: did you mean "networking.k8s.io/v1"?`, false},
		{"extensions/v1beta1", "PodSecurityPolicy", "kind", `extensions/v1beta1 PodSecurityPolicy has not been served since Kubernetes 1.25`, false},
		{"policy/v1beta1", "PodDisruptionBudget", "apiVersion", `policy/v1beta1 PodDisruptionBudget has not been served since Kubernetes 1.25: did you mean "policy/v1"?`, false},
		{"certificates.k8s.io/v1alpha1", "ClusterTrustBundle", "apiVersion", `certificates.k8s.io/v1alpha1 ClusterTrustBundle has not been served since Kubernetes 1.37`, false},
		{"resource.k8s.io/v1alpha3", "DeviceTaintRule", "kind", `Kubernetes does not serve resource.k8s.io/v1alpha3 DeviceTaintRule by default`, true},
		{"autoscaling/v1", "Scale", "kind", `Kubernetes stores no objects of autoscaling/v1 Scale`, true},
		{"core/v1", "Pod", "apiVersion", `no CRD found for core/v1 Pod: did you mean "v1"?`, false},
		{"core/v1", "Deployment", "kind", `no CRD found for core/v1 Deployment: add it with --crd`, true},
		{"rbac/v1", "Role", "apiVersion", `no CRD found for rbac/v1 Role: did you mean "rbac.authorization.k8s.io/v1"?`, false},
		{"networkingk8s.io/v1", "Ingress", "apiVersion", `no CRD found for networkingk8s.io/v1 Ingress: did you mean "networking.k8s.io/v1"?`, false},
		{"rbac/v1", "Pod", "kind", `no CRD found for rbac/v1 Pod: add it with --crd`, true},
		{"v1", "Whatever", "kind", `no CRD found for v1 Whatever: add it with --crd`, true},
		{"apps/V1", "Deployment", "apiVersion", `malformed apiVersion "apps/V1": must be group/version, or v1 for the core group`, false},
		{"Apps/v1", "X", "apiVersion", `malformed apiVersion "Apps/v1": must be group/version, or v1 for the core group`, false},
		{"V1", "Pod", "apiVersion", `malformed apiVersion "V1": must be group/version, or v1 for the core group`, false},
		{"x/example.com", "Thing", "apiVersion", `malformed apiVersion "x/example.com": must be group/version, or v1 for the core group`, false},
		{"example.com", "Whatever", "apiVersion", `no CRD found for example.com Whatever: did you mean "example.com/v1alpha1"?`, false},
		{"v1", "Thing", "apiVersion", `no CRD found for v1 Thing: did you mean "example.com/v1"?`, false},
		{"example.com/v9", "Thing", "apiVersion", `version "v9" of Thing is not served: the CRD in things.yaml serves v1alpha1, v1`, false},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinitionList", "kind", `no CRD found for apiextensions.k8s.io/v1 CustomResourceDefinitionList: add it with --crd`, true},
		{"apiextension.k8s.io/v1", "CustomResourceDefinitions", "apiVersion", `apiextension.k8s.io/v1 CustomResourceDefinitions is not a CRD: did you mean "apiextensions.k8s.io/v1"?`, false},
		{"other.io/v1", "CustomResourceDefinitions", "kind", `no CRD found for other.io/v1 CustomResourceDefinitions: add it with --crd`, true},
		{"", "CustomResourceDefinition", "apiVersion", `a CRD needs an apiVersion: did you mean "apiextensions.k8s.io/v1"?`, false},
		{"v1", "", "kind", `apiVersion and kind are required`, false},
		{"foo/v1", "Single", "kind", `no CRD found for foo/v1 Single: add it with --crd`, true},
		{"many.com/v1", "Other", "kind", `no CRD found for many.com/v1 Other: add it with --crd (the CRDs of its group define Aa, Bb, Cc, Dd, Ee, and 2 more)`, false},
		{"many.con/v1", "Aa", "apiVersion", `no CRD found for many.con/v1 Aa: did you mean "many.com/v1"?`, false},
		{"a.many.org/v2", "Aa", "apiVersion", `no CRD found for a.many.org/v2 Aa: did you mean "a.many.com/v1"?`, false},
		{"many.a/v1", "Aa", "apiVersion", `no CRD found for many.a/v1 Aa: did you mean "many.com/v1"?`, false},
		{"a.x/v1", "Aa", "kind", `no CRD found for a.x/v1 Aa: add it with --crd`, true},
		{"b.many.com/v1", "Zz", "kind", `no CRD found for b.many.com/v1 Zz: add it with --crd`, true},
		{"broken.org/v3", "Broken", "apiVersion", `no CRD found for broken.org/v3 Broken: did you mean "broken.com/v3"?`, false},
		{"apps/v9", "Shared", "apiVersion", `no CRD found for apps/v9 Shared: did you mean "shared.com/v1"?`, false},
		{"v9", "Secret", "apiVersion", `Kubernetes has no v9 Secret: did you mean "v1"?`, false},
	} {
		_, err := x.Find(object{c.apiVersion, c.kind})
		var missing *lookup.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%s %s: %v", c.apiVersion, c.kind, err)
		}
		f := missing.Finding()
		if f.Rule != lookup.RuleMissing || f.Severity != analysis.Error || f.Message != c.want || f.Path != c.field || f.Pointer != "/"+c.field || f.Part != 0 {
			t.Errorf("%s %s: got %+v", c.apiVersion, c.kind, f)
		}
		if undefined := strings.Contains(c.want, "of its group define"); missing.Undefined != undefined {
			t.Errorf("%s %s: undefined is %t", c.apiVersion, c.kind, missing.Undefined)
		}
		if err.Error() != c.want || missing.Field != c.field || missing.Unrelated != c.unrelated {
			t.Errorf("%s %s: got %s %s %t, want %s %s %t", c.apiVersion, c.kind, missing.Field, err, missing.Unrelated, c.field, c.want, c.unrelated)
		}
	}
}

// keyed is an object with top-level fields. A value is the beginning of its JSON.
type keyed map[string]string

func (k keyed) text(name string) string {
	text, _ := strings.CutPrefix(k[name], `"`)
	if text == k[name] {
		return ""
	}
	return text
}
func (k keyed) APIVersion() string { return k.text("apiVersion") }
func (k keyed) Kind() string       { return k.text("kind") }
func (k keyed) Keys() []string     { return slices.Sorted(maps.Keys(k)) }
func (k keyed) Field(name string) byte {
	if k[name] == "" {
		return 0
	}
	return k[name][0]
}

// TestUntyped looks for the CRDs of objects without apiVersion or kind.
func TestUntyped(t *testing.T) {
	for _, c := range []struct {
		object keyed
		want   string // field, the part of it that is wrong, and the error
	}{
		{keyed{"apiVersion": "7", "kind": `"Thing`}, "apiVersion false apiVersion must be a string"},
		{keyed{"apiVersion": `"v1`, "kind": "{"}, "kind false kind must be a string"},
		{keyed{"apiVersion": "null", "kind": "null"}, "kind false apiVersion and kind are required"},
		{keyed{"apiVersion": `"`, "kind": `"Thing`}, "kind false apiVersion and kind are required"},
		{keyed{"apiVersion": `"v1`, "knd": `"Thing`, "metadata": "{"}, `knd true unknown field "knd", and kind is required: did you mean "kind"?`},
		{keyed{"apiversion": `"v1`, "kind": `"Thing`}, `apiversion true unknown field "apiversion", and apiVersion is required: did you mean "apiVersion"?`},
		{keyed{"apiVersion": "null", "kind": `"Thing`, "apiversion": `"v1`}, "kind false apiVersion and kind are required"},
		{keyed{"apiVersion": `"v1`, "data": "{", "metadata": "{", "spec": "{", "status": "{"}, "kind false apiVersion and kind are required"},
		{keyed{"apiVersion": `"v1`, "other": "7"}, "kind false apiVersion and kind are required"},
	} {
		_, err := newIndex().Find(c.object)
		var missing *lookup.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%s: %v", c.object, err)
		}
		f := missing.Finding()
		if got := fmt.Sprint(f.Path, " ", f.Part == analysis.FieldName, " ", err); got != c.want || missing.Field != f.Path || f.Message != err.Error() {
			t.Errorf("%s: got %s, want %s", c.object, got, c.want)
		}
	}
	for _, o := range []object{{"apiextensions.k8s.io/v1", "CustomResourceDefinition"}, {"apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"}, {"v1", "Pod"}} {
		if e := lookup.Misspelled(o); e != nil {
			t.Errorf("%s: %v", o, e)
		}
	}
}

// TestPrecedence finds the CRD of an object among several, in the index and in its extension.
func TestPrecedence(t *testing.T) {
	given, same, more := in("given", define(t, things)), in("same", define(t, things)), in("more", define(t, things))
	further, builtin := in("further", define(t, others)), in("builtin", define(t, deployments))
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
