package espalier_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/api/v1beta1"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

// crontabs is a CRD as its author writes it.
const crontabs = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: crontabs, singular: crontab, kind: CronTab, listKind: CronTabList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              schedule: {type: string, pattern: '^(\S+ ){4}\S+$'}
              replicas: {type: integer, default: 1, maximum: 10}
`

// ranges is a CRD with a CEL rule.
const ranges = `
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
        properties: {min: {type: integer}, max: {type: integer}}
        x-kubernetes-validations: [{rule: self.min <= self.max}]
`

func mustParse(text string, opts ...espalier.Option) *espalier.Admitter {
	a, err := espalier.Parse(context.Background(), []byte(text), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return a
}

func cronTab(spec map[string]any) espalier.Object {
	return espalier.Object{
		"apiVersion": "example.com/v1",
		"kind":       "CronTab",
		"metadata":   map[string]any{"name": "nightly"},
		"spec":       spec,
	}
}

func Example() {
	ctx := context.Background()

	// Once per CRD: validate and compile it.
	crontab, err := espalier.Parse(ctx, []byte(crontabs))
	if err != nil {
		log.Fatal(err)
	}

	// For each object: the stored object, the changes, and the errors.
	result, err := crontab.Create(ctx, espalier.Object{
		"apiVersion": "example.com/v1",
		"kind":       "CronTab",
		"metadata":   map[string]any{"name": "nightly"},
		"spec":       map[string]any{"schedule": "at night", "shedule": "0 3 * * *", "privileged": true},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range result.Changes {
		fmt.Printf("%s: %s (nearest: %q)\n", change.Path, change.Kind, change.Nearest())
	}
	fmt.Println(result.Err())
	fmt.Println(result.Object["spec"])
	// Output:
	// spec.privileged: pruned (nearest: "")
	// spec.replicas: defaulted (nearest: "")
	// spec.shedule: pruned (nearest: "schedule")
	// CronTab.example.com "nightly" is invalid: spec.schedule: Invalid value: "at night": spec.schedule in body should match '^(\S+ ){4}\S+$'
	// map[replicas:1 schedule:at night]
}

// Parse reads YAML or JSON, of version v1 or v1beta1.
func ExampleParse() {
	crontab, err := espalier.Parse(context.Background(), []byte(crontabs), espalier.WithSemantics(schema.Kubernetes))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(crontab.Definition().Name())

	_, err = espalier.Parse(context.Background(), []byte("{apiVersion: v1, kind: ConfigMap}"))
	fmt.Println(err)
	// Output:
	// crontabs.example.com
	// no CustomResourceDefinition found, only v1 ConfigMap
}

// FromObject accepts the CRD types of Kubernetes too.
func ExampleFromObject() {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(crontabs), &crd.Object); err != nil {
		log.Fatal(err)
	}
	crontab, err := espalier.FromObject(context.Background(), crd)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(crontab.Definition().Name())
	// Output: crontabs.example.com
}

// Load reads the CRDs of a directory or of an embed.FS.
func ExampleLoad() {
	ctx := context.Background()
	set, err := espalier.Load(ctx, os.DirFS("espaliertest/testdata/crds"))
	if err != nil {
		log.Fatal(err)
	}
	result, err := set.Create(ctx, cronTab(map[string]any{"schedule": "0 3 * * *"}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["spec"])
	// Output: map[replicas:1 schedule:0 3 * * *]
}

// A Set finds the CRD of an object by its apiVersion and kind.
func ExampleSet_Create() {
	ctx := context.Background()
	set, err := espalier.NewSet(mustParse(crontabs), mustParse(ranges, espalier.WithoutRules()))
	if err != nil {
		log.Fatal(err)
	}
	result, err := set.Create(ctx, cronTab(map[string]any{"schedule": "0 3 * * *"}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["spec"])

	_, err = set.Create(ctx, espalier.Object{"apiVersion": "example.com/v1", "kind": "Crontab"})
	fmt.Println(err)
	// Output:
	// map[replicas:1 schedule:0 3 * * *]
	// no CRD serves example.com/v1 Crontab: did you mean CronTab.example.com?
}

// New accepts the types of package api, for programs that build CRDs.
func ExampleNew() {
	crd := &api.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "notes.example.com"},
		Spec: api.CustomResourceDefinitionSpec{
			Group: "example.com",
			Scope: api.ClusterScoped,
			Names: api.CustomResourceDefinitionNames{Plural: "notes", Kind: "Note"},
			Versions: []api.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &api.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{
					Type:       api.StringOrArray{"object"},
					Properties: map[string]api.JSONSchemaProps{"text": {Type: api.StringOrArray{"string"}}},
				}},
			}},
		},
	}
	notes, err := espalier.New(context.Background(), crd)
	if err != nil {
		log.Fatal(err)
	}
	result, err := notes.CreateJSON(context.Background(), []byte(`{"apiVersion":"example.com/v1","kind":"Note","metadata":{"name":"n"},"text":"hello","txt":"?"}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["text"], result.Warnings)
	// Output: hello [unknown field "txt"]
}

// NewV1beta1 accepts schemas that are not structural.
func ExampleNewV1beta1() {
	crd := &v1beta1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "notes.example.com"},
		Spec: v1beta1.CustomResourceDefinitionSpec{
			Group: "example.com", Version: "v1", Scope: api.ClusterScoped,
			Names: api.CustomResourceDefinitionNames{Plural: "notes", Kind: "Note"},
			Validation: &v1beta1.CustomResourceValidation{OpenAPIV3Schema: &api.JSONSchemaProps{
				Required: []string{"text"},
			}},
		},
	}
	notes, err := espalier.NewV1beta1(context.Background(), crd)
	if err != nil {
		log.Fatal(err)
	}
	result, err := notes.Create(context.Background(), espalier.Object{"apiVersion": "example.com/v1", "kind": "Note", "metadata": map[string]any{"name": "n"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Err())
	// Output: Note.example.com "n" is invalid: text: Required value
}

// A program with many CRDs and few objects can validate CRDs elsewhere, and compile
// only those that it needs.
func ExampleForDefinition() {
	decoded, err := codec.Decode([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"notes.example.com"},"spec":{
		"group":"example.com","scope":"Namespaced","names":{"plural":"notes","kind":"Note"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`))
	if err != nil {
		log.Fatal(err)
	}
	definition, err := crd.New(decoded, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		log.Fatal(err)
	}
	notes := espalier.ForDefinition(definition, "production")
	result, err := notes.CreateJSON(context.Background(), []byte(`{"apiVersion":"example.com/v1","kind":"Note","metadata":{"name":"n"}}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["metadata"])
	// Output: map[generation:1 name:n namespace:production]
}

// CronTab is the Go type of a custom resource, as a controller has it.
type CronTab struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Schedule string `json:"schedule"`
		Replicas *int32 `json:"replicas,omitempty"`
	} `json:"spec"`
}

// ToObject accepts structs, and Into fills them.
func ExampleToObject() {
	crontab := CronTab{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "CronTab"}}
	crontab.Name = "nightly"
	crontab.Spec.Schedule = "0 3 * * *"
	obj, err := espalier.ToObject(&crontab)
	if err != nil {
		log.Fatal(err)
	}
	result, err := mustParse(crontabs).Create(context.Background(), obj)
	if err != nil {
		log.Fatal(err)
	}
	var stored CronTab
	if err := result.Into(&stored); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored.Name, *stored.Spec.Replicas)
	// Output: nightly 1
}

// Into returns an error for an object that the API server would not store.
func ExampleResult_Into() {
	result, err := mustParse(crontabs).Create(context.Background(), cronTab(map[string]any{"schedule": "0 3 * * *", "replicas": 11}))
	if err != nil {
		log.Fatal(err)
	}
	var stored CronTab
	fmt.Println(result.Into(&stored))
	// Output: CronTab.example.com "nightly" is invalid: spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10
}

// CreateJSON warns of fields that occur twice.
func ExampleAdmitter_CreateJSON() {
	result, err := mustParse(crontabs).CreateJSON(context.Background(), []byte(`{
		"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "nightly"},
		"spec": {"replicas": 2, "replicas": 3}}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["spec"], result.Warnings)
	// Output: map[replicas:3] [duplicate field "spec.replicas"]
}

// Fields that the schema does not specify are pruned.
func ExampleAdmitter_Create_prune() {
	result, err := mustParse(crontabs).Create(context.Background(), cronTab(map[string]any{"shedule": "0 3 * * *"}))
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range result.Pruned() {
		fmt.Printf("%s is not specified by %s; did you mean %s?\n", c.Path, c.Schema, c.Nearest())
	}
	// Output: spec.shedule is not specified by .properties[spec]; did you mean schedule?
}

// Defaults are filled in.
func ExampleAdmitter_Create_default() {
	result, err := mustParse(crontabs).Create(context.Background(), cronTab(map[string]any{"schedule": "0 3 * * *"}))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["spec"])
	for _, c := range result.Defaulted() {
		fmt.Println("defaulted:", c.Path)
	}
	// Output:
	// map[replicas:1 schedule:0 3 * * *]
	// defaulted: spec.replicas
}

// Violations are data; Err returns the error of the API server.
func ExampleAdmitter_Create_validate() {
	result, err := mustParse(crontabs).Create(context.Background(), cronTab(map[string]any{"schedule": "at night", "replicas": 11}))
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range result.Violations {
		fmt.Println(v.Path, "breaks", v.Schema)
	}
	fmt.Println(result.Err())
	// Output:
	// spec.replicas breaks .properties[spec].properties[replicas]
	// spec.schedule breaks .properties[spec].properties[schedule]
	// CronTab.example.com "nightly" is invalid: [spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10, spec.schedule: Invalid value: "at night": spec.schedule in body should match '^(\S+ ){4}\S+$']
}

// An update does not reject invalid values that have not changed.
func ExampleAdmitter_Update() {
	a := mustParse(crontabs, espalier.WithSemantics(schema.Kubernetes))
	stored := cronTab(map[string]any{"schedule": "from older times", "replicas": 1})

	result, err := a.Update(context.Background(), cronTab(map[string]any{"schedule": "from older times", "replicas": 2}), stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("unchanged:", result.Err())

	result, err = a.Update(context.Background(), cronTab(map[string]any{"schedule": "changed", "replicas": 2}), stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("changed:", result.Err())
	// Output:
	// unchanged: <nil>
	// changed: CronTab.example.com "nightly" is invalid: spec.schedule: Invalid value: "changed": spec.schedule in body should match '^(\S+ ){4}\S+$'
}

// UpdateStatus writes the status only.
func ExampleAdmitter_UpdateStatus() {
	crontab := mustParse(strings.Replace(crontabs, "    schema:", "    subresources: {status: {}}\n    schema:", 1) +
		"          status: {type: object, properties: {active: {type: integer}}}\n")
	stored := cronTab(map[string]any{"schedule": "0 3 * * *"})
	obj := cronTab(map[string]any{"schedule": "0 4 * * *"})
	obj["status"] = map[string]any{"active": 2}

	result, err := crontab.UpdateStatus(context.Background(), obj, stored)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["spec"], result.Object["status"])
	// Output: map[replicas:1 schedule:0 3 * * *] map[active:2]
}

// Objects without a namespace get that of the Admitter.
func ExampleWithNamespace() {
	result, err := mustParse(crontabs, espalier.WithNamespace("jobs")).Create(context.Background(), cronTab(nil))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Object["metadata"])
	// Output: map[generation:1 name:nightly namespace:jobs]
}

// CEL rules are enforced by package crd/cel.
func ExampleWithRules() {
	obj := espalier.Object{"apiVersion": "example.com/v1", "kind": "Range", "metadata": map[string]any{"name": "r"}, "min": 3, "max": 2}
	for _, opt := range []espalier.Option{espalier.WithRules(cel.Checker{}), espalier.WithoutRules()} {
		result, err := mustParse(ranges, opt).Create(context.Background(), obj)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Err())
	}
	// Output:
	// Range.example.com "r" is invalid: <nil>: Invalid value: failed rule: self.min <= self.max
	// <nil>
}
