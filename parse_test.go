package espalier_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/schema"
)

// noxus is a CRD that only v1beta1 allows.
const noxus = `
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: noxus.example.com}
spec:
  group: example.com
  version: v1
  scope: Namespaced
  names: {plural: noxus, singular: noxu, kind: Noxu, listKind: NoxuList}
  validation: {openAPIV3Schema: {properties: {beta: {type: number, minimum: 10}}}}
`

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"

func toJSON(t *testing.T, text string) string {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// accepts fails the test unless a accepts a valid object of workers and rejects an
// invalid one.
func accepts(t *testing.T, a *espalier.Admitter) {
	t.Helper()
	for spec, valid := range map[string]bool{`{"image":"nginx"}`: true, `{"image":"x"}`: false} {
		result, err := a.Create(t.Context(), worker(spec, ""))
		if err != nil || (result.Err() == nil) != valid {
			t.Errorf("%s: got %v, %v; want valid: %v", spec, result, err, valid)
		}
	}
}

func TestParse(t *testing.T) {
	for name, text := range map[string]string{
		"YAML":            workers,
		"JSON":            toJSON(t, workers),
		"other documents": "---\n# nothing\n---\n" + configMap + "---" + workers + "---\n",
		"list":            `{"apiVersion":"v1","kind":"List","items":[` + toJSON(t, configMap) + "," + toJSON(t, workers) + "]}",
		"typed list":      `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinitionList","items":[` + strings.Replace(toJSON(t, workers), `"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",`, "", 1) + "]}",
	} {
		t.Run(name, func(t *testing.T) {
			a, err := espalier.Parse(t.Context(), []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			accepts(t, a)
		})
	}
	t.Run("v1beta1", func(t *testing.T) {
		a, err := espalier.Parse(t.Context(), []byte(noxus))
		if err != nil {
			t.Fatal(err)
		}
		result, err := a.Create(t.Context(), espalier.Object{"apiVersion": "example.com/v1", "kind": "Noxu", "metadata": map[string]any{"name": "n"}, "beta": 9})
		if err != nil || result.Err() == nil {
			t.Errorf("got %v, %v; want a violation", result, err)
		}
	})
	t.Run("namespace", func(t *testing.T) {
		a, err := espalier.Parse(t.Context(), []byte(workers), espalier.WithNamespace("prod"))
		if err != nil {
			t.Fatal(err)
		}
		result, err := a.Create(t.Context(), worker(`{"image":"nginx"}`, ""))
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Object["metadata"].(map[string]any)["namespace"]; got != "prod" {
			t.Errorf("got namespace %v, want prod", got)
		}
	})
}

func TestParseErrors(t *testing.T) {
	other := strings.NewReplacer("workers", "others", "Worker", "Other", "worker", "other").Replace(workers)
	for name, tc := range map[string]struct {
		text  string
		want  string
		noCRD bool
	}{
		"empty":           {"", "no CustomResourceDefinition found", true},
		"others":          {configMap, "no CustomResourceDefinition found, only v1 ConfigMap", true},
		"no kind":         {"spec: {}", "only an object without apiVersion and kind", true},
		"several":         {workers + "---" + other, "expected one CRD, found 2: workers.example.com in line 1, others.example.com in line", false},
		"YAML":            {"a: b\n c: [", "line 2:", false},
		"another version": {strings.Replace(workers, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v2", 1), `apiVersion: expected apiextensions.k8s.io/v1 or apiextensions.k8s.io/v1beta1, got "apiextensions.k8s.io/v2"`, false},
		"a wrong type":    {strings.Replace(workers, "served: true", "served: 3", 1), "spec.versions[0].served", false},
		"a superseded name": {strings.Replace(noxus, "version: v1\n", "version: v1\n  prune: true\n", 1),
			"spec.prune: Forbidden: has been superseded", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := espalier.Parse(t.Context(), []byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if errors.Is(err, espalier.ErrNoCRD) != tc.noCRD {
				t.Errorf("errors.Is(%v, ErrNoCRD) is %v", err, !tc.noCRD)
			}
		})
	}
	t.Run("invalid", func(t *testing.T) {
		_, err := espalier.Parse(t.Context(), []byte(strings.Replace(workers, "scope: Namespaced", "scope: Global", 1)))
		invalid, ok := errors.AsType[*espalier.InvalidError](err)
		if !ok || invalid.Name != "workers.example.com" || len(invalid.Errors) != 1 || invalid.Errors[0].Field != "spec.scope" {
			t.Errorf("got %v", err)
		}
	})
	// kube-apiserver does not support unions, so it ignores their type.
	t.Run("foreign", func(t *testing.T) {
		text := strings.Replace(workers, "required: [image]", "x-kubernetes-unions: 7", 1)
		if _, err := espalier.Parse(t.Context(), []byte(text)); err == nil {
			t.Error("kep accepts unions of a number")
		}
		if _, err := espalier.Parse(t.Context(), []byte(text), espalier.WithSemantics(schema.Kubernetes)); err != nil {
			t.Errorf("kubernetes: %v", err)
		}
	})
}

func TestFromObject(t *testing.T) {
	tree := map[string]any{}
	if err := yaml.Unmarshal([]byte(workers), &tree); err != nil {
		t.Fatal(err)
	}
	untyped := definition(t, workers)
	untyped.APIVersion, untyped.Kind = "", ""
	for name, crd := range map[string]any{
		"pointer":              definition(t, workers),
		"value":                *definition(t, workers),
		"without TypeMeta":     untyped,
		"map":                  tree,
		"unstructured":         &unstructured.Unstructured{Object: tree},
		"unstructured value":   unstructured.Unstructured{Object: tree},
		"unstructured list":    &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}, Items: []unstructured.Unstructured{{Object: tree}}},
		"pointer to a pointer": &untyped,
	} {
		t.Run(name, func(t *testing.T) {
			a, err := espalier.FromObject(t.Context(), crd)
			if err != nil {
				t.Fatal(err)
			}
			accepts(t, a)
		})
	}
	t.Run("v1beta1", func(t *testing.T) {
		var d v1beta1.CustomResourceDefinition
		if err := yaml.Unmarshal([]byte(noxus), &d); err != nil {
			t.Fatal(err)
		}
		d.APIVersion, d.Kind = "", ""
		if _, err := espalier.FromObject(t.Context(), &d); err != nil {
			t.Error(err)
		}
	})
	for name, tc := range map[string]struct {
		crd  any
		want string
	}{
		"nil":         {nil, "the CRD is nil"},
		"nil pointer": {(*api.CustomResourceDefinition)(nil), "the *api.CustomResourceDefinition is nil"},
		"text":        {[]byte(workers), "a []uint8 is not an object"},
		"a struct":    {struct{}{}, "a struct {} is not a CRD: no CustomResourceDefinition found"},
		"a channel":   {make(chan int), "marshal a chan int"},
		"another":     {map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, "only v1 ConfigMap"},
		"two":         {map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{tree, tree}}, "is a list of 2 CRDs"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := espalier.FromObject(t.Context(), tc.crd); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// files returns a file system of texts.
func files(texts map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range texts {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	set, err := espalier.Load(t.Context(), files(map[string]string{
		"workers.yaml":         workers + "---\n" + configMap,
		"deep/er/crontabs.YML": crontabs,
		"noxus.json":           toJSON(t, noxus),
		"README.md":            "not [YAML",
		".hidden/workers.yaml": workers,
	}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range set.Admitters() {
		names = append(names, a.Definition().Name())
	}
	if want := []string{"crontabs.example.com", "noxus.example.com", "workers.example.com"}; !reflect.DeepEqual(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	a, err := set.Admitter("example.com/v1", "Worker")
	if err != nil {
		t.Fatal(err)
	}
	accepts(t, a)

	// Each method of a Set returns the same result as that of the Admitter.
	for name, call := range map[string]func(m methods) (*espalier.Result, error){
		"Create":     func(m methods) (*espalier.Result, error) { return m.Create(t.Context(), worker(`{"image":"x"}`, "")) },
		"CreateJSON": func(m methods) (*espalier.Result, error) { return m.CreateJSON(t.Context(), workerJSON(`"x"`)) },
		"Update": func(m methods) (*espalier.Result, error) {
			return m.Update(t.Context(), worker(`{"image":"y"}`, ""), worker(`{"image":"x"}`, ""))
		},
		"UpdateJSON": func(m methods) (*espalier.Result, error) {
			return m.UpdateJSON(t.Context(), workerJSON(`"y"`), worker(`{"image":"x"}`, ""))
		},
		"UpdateStatus": func(m methods) (*espalier.Result, error) {
			return m.UpdateStatus(t.Context(), worker(`{}`, `{"replicas":7}`), worker(`{"image":"x"}`, ""))
		},
		"UpdateStatusJSON": func(m methods) (*espalier.Result, error) {
			return m.UpdateStatusJSON(t.Context(), workerJSON(`"y"`), worker(`{"image":"x"}`, ""))
		},
	} {
		want, err := call(a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := call(set)
		if err != nil || !reflect.DeepEqual(got.Object, want.Object) || fmt.Sprint(got.Err()) != fmt.Sprint(want.Err()) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, want)
		}
	}
}

// methods are the methods that Admitter and Set have in common.
type methods interface {
	Create(context.Context, espalier.Object) (*espalier.Result, error)
	CreateJSON(context.Context, []byte) (*espalier.Result, error)
	Update(context.Context, espalier.Object, espalier.Object) (*espalier.Result, error)
	UpdateJSON(context.Context, []byte, espalier.Object) (*espalier.Result, error)
	UpdateStatus(context.Context, espalier.Object, espalier.Object) (*espalier.Result, error)
	UpdateStatusJSON(context.Context, []byte, espalier.Object) (*espalier.Result, error)
}

func workerJSON(image string) []byte {
	return []byte(`{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"name":"w"},"spec":{"image":` + image + `},"status":{"replicas":7}}`)
}

func TestLoadErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none":    {map[string]string{"a.yaml": configMap, "b.txt": workers}, "no CustomResourceDefinition found, only v1 ConfigMap"},
		"empty":   {nil, "no CustomResourceDefinition found"},
		"YAML":    {map[string]string{"sub/a.yaml": "a: ["}, "sub/a.yaml:1:"},
		"invalid": {map[string]string{"a.yaml": "---\n" + strings.Replace(workers, "scope: Namespaced", "scope: Global", 1)}, `a.yaml:1: CustomResourceDefinition.apiextensions.k8s.io "workers.example.com" is invalid: spec.scope`},
		"twice":   {map[string]string{"a.yaml": workers, "b.yaml": workers}, "b.yaml:1: a.yaml:1 defines workers.example.com too"},
		"the same kind": {map[string]string{"a.yaml": workers, "b.yaml": strings.ReplaceAll(workers, "workers", "others")},
			"others.example.com and workers.example.com both define the kind Worker.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := espalier.Load(t.Context(), files(tc.files)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	a := admitter(t, workers)
	if _, err := espalier.NewSet(a, a); err == nil || !strings.Contains(err.Error(), "there are two CRDs workers.example.com") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownKind(t *testing.T) {
	set, err := espalier.NewSet(admitter(t, workers), admitter(t, crontabs),
		admitter(t, strings.NewReplacer("workers.example.com", "workers.example.org", "group: example.com", "group: example.org").Replace(workers)),
		admitter(t, strings.NewReplacer("workers", "machines", "Worker", "Machine", "worker", "machine").Replace(workers)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ apiVersion, kind, want string }{
		{"example.com/v1", "Wroker", "no CRD serves example.com/v1 Wroker: did you mean Worker.example.com?"},
		{"exampel.org/v1", "Worker", "no CRD serves exampel.org/v1 Worker: did you mean Worker.example.org?"},
		{"example.com/v3", "CronTab", "no CRD serves example.com/v3 CronTab: the kind is served as example.com/v1"},
		{"v1", "Gadget", "no CRD serves v1 Gadget"},
		{"", "CronTab", "apiVersion and kind are required"},
		{"example.com/v1", "", "apiVersion and kind are required"},
	} {
		_, err := set.Create(t.Context(), espalier.Object{"apiVersion": tc.apiVersion, "kind": tc.kind})
		unknown, ok := errors.AsType[*espalier.UnknownKindError](err)
		if !ok || err.Error() != tc.want || unknown.APIVersion != tc.apiVersion || unknown.Kind != tc.kind || len(unknown.Known) != 4 {
			t.Errorf("%s %s: got %v, want %s", tc.apiVersion, tc.kind, err, tc.want)
		}
		if _, err := set.Admitter(tc.apiVersion, tc.kind); err == nil || err.Error() != tc.want {
			t.Errorf("%s %s: got %v, want %s", tc.apiVersion, tc.kind, err, tc.want)
		}
	}
	_, err = set.Admitter("example.com/v1", "Wroker")
	if unknown, _ := errors.AsType[*espalier.UnknownKindError](err); unknown.Nearest != (runtimeschema.GroupKind{Group: "example.com", Kind: "Worker"}) {
		t.Errorf("got %v", unknown.Nearest)
	}
}

// Worker is the Go type of a custom resource.
type Worker struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Metadata   struct {
		Name              string  `json:"name"`
		CreationTimestamp *string `json:"creationTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Image    string         `json:"image"`
		Replicas *int32         `json:"replicas,omitempty"`
		Extra    map[string]any `json:"extra,omitempty"`
	} `json:"spec"`
}

func TestTypedObjects(t *testing.T) {
	in := Worker{APIVersion: "example.com/v1", Kind: "Worker"}
	in.Metadata.Name, in.Spec.Image = "w", "nginx"
	obj, err := espalier.ToObject(&in)
	if err != nil {
		t.Fatal(err)
	}
	result, err := admitter(t, strings.Replace(workers, "tags:", "extra: {type: object, x-kubernetes-preserve-unknown-fields: true, default: {count: 1}}\n              tags:", 1)).Create(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	out := Worker{}
	out.Spec.Extra = map[string]any{"old": true}
	if err := result.Into(&out); err != nil {
		t.Fatal(err)
	}
	if out.Spec.Replicas == nil || *out.Spec.Replicas != 1 || out.Spec.Image != "nginx" || out.Metadata.Name != "w" {
		t.Errorf("got %+v", out)
	}
	if want := map[string]any{"count": int64(1)}; !reflect.DeepEqual(out.Spec.Extra, want) {
		t.Errorf("got extra %#v, want %#v: integers stay integers, what was there before does not stay", out.Spec.Extra, want)
	}
	var u unstructured.Unstructured
	if err := result.Into(&u); err != nil || !reflect.DeepEqual(u.Object, result.Object) {
		t.Errorf("got %v, %v; want %v", u.Object, err, result.Object)
	}

	t.Run("invalid", func(t *testing.T) {
		result, err := admitter(t, workers).Create(t.Context(), worker(`{"image":"x"}`, ""))
		if err != nil {
			t.Fatal(err)
		}
		before := out
		if _, ok := errors.AsType[*espalier.InvalidError](result.Into(&out)); !ok || !reflect.DeepEqual(out, before) {
			t.Errorf("got %+v, want it unchanged", out)
		}
	})
	t.Run("targets", func(t *testing.T) {
		for _, v := range []any{nil, Worker{}, (*Worker)(nil), result.Object} {
			if err := result.Into(v); err == nil || !strings.Contains(err.Error(), "non-nil pointer is required") {
				t.Errorf("%T: got %v", v, err)
			}
		}
		var misfit struct {
			Spec string `json:"spec"`
		}
		if err := result.Into(&misfit); err == nil {
			t.Errorf("got %+v", misfit)
		}
	})
}

func TestToObject(t *testing.T) {
	given := espalier.Object{"spec": map[string]any{"n": 3, "list": []string{"a"}}}
	want := espalier.Object{"spec": map[string]any{"n": int64(3), "list": []any{"a"}}}
	for name, v := range map[string]any{
		"map":                given,
		"unstructured":       &unstructured.Unstructured{Object: given},
		"unstructured value": unstructured.Unstructured{Object: given},
		"struct": struct {
			Spec any `json:"spec"`
		}{given["spec"]},
	} {
		got, err := espalier.ToObject(v)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v", name, got, err)
			continue
		}
		got["spec"].(map[string]any)["n"] = "changed"
		if given["spec"].(map[string]any)["n"] != 3 {
			t.Errorf("%s: the object shares memory with the argument", name)
		}
	}
	for want, v := range map[string]any{
		"a <nil> is not a JSON object but null":                   nil,
		"a *espalier_test.Worker is not a JSON object but null":   (*Worker)(nil),
		"a map[string]interface {} is not a JSON object but null": espalier.Object(nil),
		"a []int is not a JSON object but a list":                 []int{1},
		"a string is not a JSON object but a string":              "x",
		"a bool is not a JSON object but a boolean":               true,
		"a int is not a JSON object but a number":                 1,
		"marshal a func()": func() {},
	} {
		if _, err := espalier.ToObject(v); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
