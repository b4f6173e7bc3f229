package lookup_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis"
	"espalier.dev/analysis/internal/analysistest"
	"espalier.dev/analysis/lookup"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
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
	return analysistest.Define(t, text, crd.Options{Semantics: schema.KEP})
}

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// golden completes a file: each line has fields, which are separated by |, and the result follows after >.
func golden(t *testing.T, file string, result func(fields []string) string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		fields := strings.Split(line, "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		got.WriteString(line + "> " + result(fields) + "\n")
	}
	testcase.Golden(t, file, got.String(), *update)
}

// TestFind looks for CRDs by requests, and by an apiVersion if there is one.
func TestFind(t *testing.T) {
	one := []*crd.Definition{define(t, things)}
	both := append(one, define(t, others))
	core, letter := []*crd.Definition{define(t, minimal("", "Pod", "v1"))}, []*crd.Definition{define(t, minimal("g", "Letter", "v1"))}
	unserved := []*crd.Definition{define(t, strings.ReplaceAll(things, "served: true", "served: false"))}
	none := []*crd.Definition{define(t, things[:strings.Index(things, "  versions:")]+"  versions: []")}
	definitions := map[string][]*crd.Definition{"one": one, "both": both, "twice": append(one, one...), "nothing": nil, "core": core, "letter": letter, "unserved": unserved, "none": none}
	golden(t, "testdata/find.txt", func(fields []string) string {
		v, path, err := lookup.Find(definitions[fields[0]], fields[1], fields[2])
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("group %q, version %s, path %q", v.Definition().Group(), v.Name(), path)
	})
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
	others := &lookup.Resources{CRDs: []*crd.Definition{define(t, others)}, Names: names, Builtin: builtin}
	in := map[string]*lookup.Resources{"alone": alone, "one": one, "two": two, "others": others}
	golden(t, "testdata/resources.txt", func(fields []string) string {
		r, err := in[fields[0]].Find(fields[1], fields[2])
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s %s, path %q, also %q", r.Definition().Name(), r.Name(), r.Path, r.Also)
	})
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
	golden(t, "testdata/missing.txt", func(fields []string) string {
		_, err := x.Find(object{fields[0], fields[1]})
		var missing *lookup.Missing
		if !errors.As(err, &missing) {
			t.Fatalf("%q: %v", fields, err)
		}
		f := missing.Finding()
		if f.Rule != lookup.RuleMissing || f.Severity != analysis.Error || f.Message != err.Error() || f.Path != missing.Field || f.Pointer != "/"+f.Path || f.Part != 0 {
			t.Errorf("%q: got %+v", fields, f)
		}
		return fmt.Sprintf("%s: %v (undefined: %t, unrelated: %t)", missing.Field, err, missing.Undefined, missing.Unrelated)
	})
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
