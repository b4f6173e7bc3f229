package object_test

import (
	"context"
	"fmt"

	"espalier.dev/analysis"
	"espalier.dev/analysis/object"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
)

const crontabs = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": {"name": "crontabs.example.com"},
  "spec": {
    "group": "example.com", "scope": "Namespaced",
    "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
      "type": "object",
      "properties": {"spec": {
        "type": "object",
        "required": ["image"],
        "properties": {
          "image": {"type": "string"},
          "replicas": {"type": "integer", "maximum": 10, "default": 1}
        }
      }}
    }}}]
  }
}`

func ExampleChecker_Check() {
	decoded, err := codec.DecodeLenient([]byte(crontabs))
	if err != nil {
		fmt.Println(err)
		return
	}
	definition, err := crd.New(decoded, crd.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	checker := object.New(definition, object.Options{})
	source := []byte(`{
	  "apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "nightly"},
	  "spec": {"imgae": "backup", "replicas": 12}
	}`)
	findings := checker.Check(context.Background(), source, nil, object.Warn)
	analysis.Sort(findings)
	for _, f := range findings {
		fmt.Printf("%s %s (%s)\n", f.Pointer, f.Message, f.Rule)
	}
	// Output:
	// /spec/image Required value: spec.image in body is required (validation/required)
	// /spec/imgae unknown field "spec.imgae": the API server drops it; did you mean "image"? (unknown-field)
	// /spec/replicas Invalid value: 12: spec.replicas in body should be less than or equal to 10 (validation/maximum)
}

func ExampleChecker_Prune() {
	decoded, err := codec.DecodeLenient([]byte(crontabs))
	if err != nil {
		fmt.Println(err)
		return
	}
	definition, err := crd.New(decoded, crd.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	stored := object.New(definition, object.Options{}).Prune([]byte(`{
	  "apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "nightly"},
	  "spec": {"image": "backup", "schedule": "@daily"}
	}`))
	fmt.Println(stored.Object["spec"])
	reasons := stored.Reasons()
	analysis.Sort(reasons)
	for _, f := range reasons {
		fmt.Printf("%s %s (%s)\n", f.Pointer, f.Message, f.Schema.Path)
	}
	// Output:
	// map[image:backup replicas:1]
	// /spec/replicas defaulted to 1 (.properties[spec].properties[replicas])
	// /spec/schedule pruned: not specified by the schema (.properties[spec])
}
