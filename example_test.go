package espalier_test

import (
	"context"
	"fmt"
	"log"

	"espalier.dev"
	"espalier.dev/api"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
	"sigs.k8s.io/yaml"
)

// crontabs is a definition as its author writes it.
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

func mustNew(text string, opts ...espalier.Option) *espalier.Admitter {
	var definition api.CustomResourceDefinition
	if err := yaml.UnmarshalStrict([]byte(text), &definition); err != nil {
		log.Fatal(err)
	}
	a, err := espalier.New(context.Background(), &definition, opts...)
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
	var definition api.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(crontabs), &definition); err != nil {
		log.Fatal(err)
	}

	// Once for a definition: is it valid? Then it is compiled.
	crontab, err := espalier.New(context.Background(), &definition)
	if err != nil {
		log.Fatal(err)
	}

	// For each object: what would be stored, what was done to it, what is wrong with it.
	result, err := crontab.Create(context.Background(), espalier.Object{
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

// What the definition does not know is pruned, and the reason can be told.
func ExampleAdmitter_Create_prune() {
	result, err := mustNew(crontabs).Create(context.Background(), cronTab(map[string]any{"shedule": "0 3 * * *"}))
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
	result, err := mustNew(crontabs).Create(context.Background(), cronTab(map[string]any{"schedule": "0 3 * * *"}))
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

// What is wrong comes as data, and as the error that an API server gives.
func ExampleAdmitter_Create_validate() {
	result, err := mustNew(crontabs).Create(context.Background(), cronTab(map[string]any{"schedule": "at night", "replicas": 11}))
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

// An update is not refused for what was wrong before and has not changed.
func ExampleAdmitter_Update() {
	a := mustNew(crontabs, espalier.WithSemantics(schema.Kubernetes))
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

// Rules in CEL count if they are asked for.
func ExampleWithRules() {
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
	obj := espalier.Object{"apiVersion": "example.com/v1", "kind": "Range", "metadata": map[string]any{"name": "r"}, "min": 3, "max": 2}
	for _, opt := range []espalier.Option{espalier.WithRules(cel.Checker{}), espalier.WithoutRules()} {
		result, err := mustNew(ranges, opt).Create(context.Background(), obj)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Err())
	}
	// Output:
	// Range.example.com "r" is invalid: <nil>: Invalid value: failed rule: self.min <= self.max
	// <nil>
}
