package espalier_test

import (
	"encoding/json"
	"errors"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
	"sigs.k8s.io/yaml"
)

// definition reads a CustomResourceDefinition from YAML.
func definition(t testing.TB, text string) *api.CustomResourceDefinition {
	t.Helper()
	var d api.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

const workers = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: workers, singular: worker, kind: Worker, listKind: WorkerList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, minLength: 3}
              replicas: {type: integer, default: 1}
              tags: {type: array, items: {type: string}}
          status:
            type: object
            properties:
              replicas: {type: integer, maximum: 5}
`

func admitter(t testing.TB, text string, opts ...espalier.Option) *espalier.Admitter {
	t.Helper()
	a, err := espalier.New(t.Context(), definition(t, text), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func worker(spec, status string) espalier.Object {
	var obj espalier.Object
	text := `{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"name":"w"},"spec":` + spec
	if status != "" {
		text += `,"status":` + status
	}
	if err := yaml.Unmarshal([]byte(text+"}"), &obj); err != nil {
		panic(err)
	}
	return obj
}

func same(t *testing.T, got espalier.Object, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var g, w any
	if err := errors.Join(json.Unmarshal(text, &g), json.Unmarshal([]byte(want), &w)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestCreate(t *testing.T) {
	a := admitter(t, workers)
	given := worker(`{"image":"nginx","imagee":"x","tags":["a"]}`, `{"replicas":3}`)
	given["spec"].(map[string]any)["replicas"] = 2 // an int, as Go programs write it
	result, err := a.Create(t.Context(), given)
	if err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	same(t, result.Object, `{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"name":"w","namespace":"default","generation":1},"spec":{"image":"nginx","replicas":2,"tags":["a"]}}`)
	if pruned := result.Pruned(); len(pruned) != 1 || pruned[0].Path.String() != "spec.imagee" || pruned[0].Nearest() != "image" {
		t.Errorf("pruned %v", pruned)
	}
	if want := []string{`unknown field "spec.imagee"`}; !reflect.DeepEqual(result.Warnings, want) {
		t.Errorf("warnings %q, want %q", result.Warnings, want)
	}
	if _, there := given["spec"].(map[string]any)["imagee"]; !there {
		t.Error("the given object has changed")
	}

	result, err = a.Create(t.Context(), worker(`{"image":"ng","replicas":-1}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	got := result.Err()
	for _, want := range []string{`Worker.example.com "w" is invalid`, "spec.image in body should be at least 3 chars long", "should be a non-negative integer"} {
		if got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	var invalid *espalier.InvalidError
	if !errors.As(got, &invalid) || len(invalid.Errors) != 2 {
		t.Errorf("errors %v", invalid)
	}
	result, err = a.Create(t.Context(), worker(`{"image":"nginx"}`, ""))
	if err != nil || len(result.Defaulted()) != 1 || result.Defaulted()[0].Path.String() != "spec.replicas" {
		t.Errorf("defaulted %v, error %v", result.Defaulted(), err)
	}
}

func TestCreateRefusesWhatCannotBeRead(t *testing.T) {
	a := admitter(t, workers)
	for name, tc := range map[string]struct {
		obj  espalier.Object
		want string
	}{
		"another kind":      {espalier.Object{"apiVersion": "example.com/v1", "kind": "Boss"}, `no CRD serves example.com/v1 Boss: the CRDs define Worker.example.com`},
		"another version":   {espalier.Object{"apiVersion": "example.com/v2", "kind": "Worker"}, `no CRD serves example.com/v2 Worker: the kind is served as example.com/v1`},
		"nothing":           {nil, `apiVersion and kind are required`},
		"metadata":          {espalier.Object{"apiVersion": "example.com/v1", "kind": "Worker", "metadata": 5}, "metadata: "},
		"contradiction":     {worker(`{"image":5}`, ""), `spec.image in body must be of type string: "integer"`},
		"no JSON":           {espalier.Object{"apiVersion": "example.com/v1", "kind": "Worker", "spec": map[string]any{"image": []any{make(chan int)}}}, "spec.image[0]: a chan int is not a JSON value"},
		"no JSON, a number": {espalier.Object{"apiVersion": "example.com/v1", "kind": "Worker", "spec": json.Number("x")}, `spec: "x" is not a JSON number`},
	} {
		if _, err := a.Create(t.Context(), tc.obj); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

func TestUpdate(t *testing.T) {
	a := admitter(t, workers)
	old := worker(`{"image":"ng","replicas":1}`, `{"replicas":9}`)
	old["metadata"].(map[string]any)["generation"] = int64(4)

	// The image was already too short: tolerated as long as it does not change. This
	// endpoint does not write the status.
	result, err := a.Update(t.Context(), worker(`{"image":"ng","replicas":2}`, `{"replicas":1}`), old)
	if err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	same(t, result.Object, `{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"name":"w","namespace":"default","generation":5},"spec":{"image":"ng","replicas":2},"status":{"replicas":9}}`)
	if result, err = a.Update(t.Context(), worker(`{"image":"nx","replicas":2}`, ""), old); err != nil || result.Err() == nil {
		t.Errorf("a changed image that is too short passes, error %v", err)
	}
	if result, err = a.Update(t.Context(), worker(`{"image":"ng","replicas":1}`, ""), old); err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	if meta := result.Object["metadata"].(map[string]any); meta["generation"] != int64(4) {
		t.Errorf("nothing has changed, but the generation is %v", meta["generation"])
	}

	result, err = a.UpdateStatus(t.Context(), worker(`{"image":"other"}`, `{"replicas":7}`), old)
	if err != nil {
		t.Fatal(err)
	}
	if err := result.Err(); err == nil || !strings.Contains(err.Error(), "status.replicas: Invalid value: 7: replicas in body should be less than or equal to 5") {
		t.Errorf("got %v", err)
	}
	if result, err = a.UpdateStatus(t.Context(), worker(`{"image":"other"}`, `{"replicas":5}`), old); err != nil || result.Err() != nil {
		t.Fatal(err, result.Err())
	}
	same(t, result.Object, `{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"name":"w","namespace":"default","generation":4},"spec":{"image":"ng","replicas":1},"status":{"replicas":5}}`)
}

const ruled = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ranges.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: ranges, singular: range, kind: Range, listKind: RangeList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          min: {type: integer}
          max: {type: integer}
        x-kubernetes-validations:
        - {rule: "self.min <= self.max", message: "min must not be above max"}
`

func TestRules(t *testing.T) {
	if _, err := espalier.New(t.Context(), definition(t, ruled)); err == nil || !strings.Contains(err.Error(), "x-kubernetes-validations") {
		t.Errorf("rules are skipped in silence: %v", err)
	}
	obj := espalier.Object{"apiVersion": "example.com/v1", "kind": "Range", "metadata": map[string]any{"name": "r"}, "min": 3, "max": 2}
	result, err := admitter(t, ruled, espalier.WithRules(cel.Checker{})).Create(t.Context(), obj)
	if err != nil || result.Err() == nil || !strings.Contains(result.Err().Error(), "min must not be above max") {
		t.Errorf("got %v, %v", result.Err(), err)
	}
	result, err = admitter(t, ruled, espalier.WithoutRules()).Create(t.Context(), obj)
	if err != nil || result.Err() != nil {
		t.Errorf("rules that are left out count: %v, %v", result.Err(), err)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := espalier.New(t.Context(), definition(t, strings.Replace(workers, "type: object\n        properties:", "properties:", 1)))
	var invalid *espalier.InvalidError
	if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "type") {
		t.Errorf("got %v", err)
	}
	if _, err := espalier.New(t.Context(), &api.CustomResourceDefinition{}, espalier.WithSemantics(schema.Kubernetes)); err == nil {
		t.Error("an empty definition is taken")
	}
}

// The root package must not link a server, nor a CEL runtime in programs without rules.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "espalier.dev").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		for _, heavy := range []string{"github.com/google/cel-go", "go.etcd.io/", "google.golang.org/grpc", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver"} {
			if strings.HasPrefix(name, heavy) {
				t.Errorf("it depends on %s", name)
			}
		}
	}
}

func TestCreateLikeAServer(t *testing.T) {
	a := admitter(t, workers)
	obj := worker(`{"image":"nginx"}`, `{"zz":1}`)
	meta := obj["metadata"].(map[string]any)
	delete(meta, "name")
	meta["generateName"], meta["uid"], meta["deletionTimestamp"] = "w-", "u", "2026-01-01T00:00:00Z"
	result, err := a.Create(t.Context(), obj)
	if err != nil || result.Err() != nil {
		t.Fatal(err)
	}
	same(t, result.Object, `{"apiVersion":"example.com/v1","kind":"Worker","metadata":{"generateName":"w-","namespace":"default","generation":1},"spec":{"image":"nginx","replicas":1}}`)
	for _, c := range result.Changes {
		if c.Path[0].Key == "status" {
			t.Errorf("%s is told of, but there is no status", c.Path)
		}
	}
	if len(result.IgnoredChanges) != 1 || result.IgnoredChanges[0].Path.String() != "status.zz" {
		t.Errorf("ignored changes: %v", result.IgnoredChanges)
	}
	meta["resourceVersion"] = "7"
	if _, err := a.Create(t.Context(), obj); err == nil || !strings.Contains(err.Error(), "resourceVersion") {
		t.Errorf("an object with a resourceVersion is created: %v", err)
	}
}

func TestUpdateLikeAServer(t *testing.T) {
	a := admitter(t, workers)
	old, obj := worker(`{"image":"nginx"}`, ""), worker(`{"image":"nginx"}`, "")
	oldMeta, meta := old["metadata"].(map[string]any), obj["metadata"].(map[string]any)
	oldMeta["namespace"], oldMeta["resourceVersion"] = "prod", "5"
	result, err := a.Update(t.Context(), obj, old)
	if err != nil || result.Err() != nil {
		t.Fatal(err)
	}
	if got := result.Object["metadata"].(map[string]any); got["namespace"] != "prod" || got["resourceVersion"] != "5" {
		t.Errorf("metadata %v", got)
	}
	meta["resourceVersion"] = "3"
	if _, err := a.Update(t.Context(), obj, old); err == nil || !strings.Contains(err.Error(), "has been modified") {
		t.Errorf("a conflict passes: %v", err)
	}
	if _, err := admitter(t, ruled, espalier.WithoutRules()).UpdateStatus(t.Context(),
		espalier.Object{"apiVersion": "example.com/v1", "kind": "Range"}, espalier.Object{"apiVersion": "example.com/v1", "kind": "Range"},
	); err == nil || !strings.Contains(err.Error(), "no status subresource") {
		t.Errorf("a status is written that has no endpoint: %v", err)
	}
	// Violations in the spec do not prevent an update of the status.
	closed := strings.Replace(workers, "tags: {type: array, items: {type: string}}", "tags: {type: object, additionalProperties: false}", 1)
	stored := worker(`{"image":"nginx","tags":{"a":1}}`, "")
	result, err = admitter(t, closed).UpdateStatus(t.Context(), worker(`{}`, `{"replicas":1}`), stored)
	if err != nil || result.Err() != nil {
		t.Errorf("got %v, %v", result.Err(), err)
	}
}

func TestValues(t *testing.T) {
	a := admitter(t, strings.Replace(workers, "image: {type: string, minLength: 3}", "image: {x-kubernetes-preserve-unknown-fields: true, nullable: true}", 1))
	for name, tc := range map[string]struct {
		value any
		want  any
	}{
		"int":                {3, int64(3)},
		"uint64":             {uint64(1 << 63), float64(1 << 63)},
		"float32":            {float32(0.1), 0.1},
		"float":              {2.0, int64(2)},
		"large float":        {1e30, 1e30},
		"number":             {json.Number("12"), int64(12)},
		"strings":            {[]string{"a"}, []any{"a"}},
		"map of strings":     {map[string]string{"a": "b"}, map[string]any{"a": "b"}},
		"nil map":            {map[string]any(nil), nil},
		"nil slice":          {[]string(nil), nil},
		"fraction in number": {json.Number("1.5"), 1.5},
	} {
		obj := worker(`{}`, "")
		obj["spec"].(map[string]any)["image"] = tc.value
		result, err := a.Create(t.Context(), obj)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := result.Object["spec"].(map[string]any)["image"]; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %#v, want %#v", name, got, tc.want)
		}
	}
	for name, value := range map[string]any{"NaN": math.NaN(), "Inf": math.Inf(1), "number NaN": json.Number("NaN"), "plus": json.Number("+5"), "text": json.Number(`"5"`), "struct": struct{}{}} {
		obj := worker(`{}`, "")
		obj["spec"].(map[string]any)["image"] = value
		if _, err := a.Create(t.Context(), obj); err == nil || !strings.HasPrefix(err.Error(), "spec.image: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNewV1beta1(t *testing.T) {
	var d v1beta1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(`
metadata: {name: noxus.example.com}
spec:
  group: example.com
  version: v1
  scope: Namespaced
  names: {plural: noxus, singular: noxu, kind: Noxu, listKind: NoxuList}
  validation:
    jsonSchema:
      required: [alpha]
      properties:
        alpha: {type: string, default: foo_123}
        beta: {type: number, minimum: 10}
`), &d); err != nil {
		t.Fatal(err)
	}
	a, err := espalier.NewV1beta1(t.Context(), &d)
	if err != nil {
		t.Fatal(err)
	}
	obj := espalier.Object{"apiVersion": "example.com/v1", "kind": "Noxu", "metadata": map[string]any{"name": "n"}, "beta": 9, "unknown": true}
	result, err := a.Create(t.Context(), obj)
	if err != nil || result.Err() == nil || !strings.Contains(result.Err().Error(), "beta in body should be greater than or equal to 10") {
		t.Fatalf("got %v, %v", result, err)
	}
	same(t, result.Object, `{"apiVersion":"example.com/v1","kind":"Noxu","metadata":{"name":"n","namespace":"default","generation":1},"alpha":"foo_123","beta":9,"unknown":true}`)
}
