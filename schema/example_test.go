package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"espalier.dev/api"
	"espalier.dev/schema"
)

func Example() {
	var props api.JSONSchemaProps
	err := json.Unmarshal([]byte(`{
	  "type": "object",
	  "properties": {
	    "spec": {
	      "type": "object",
	      "required": ["schedule"],
	      "properties": {
	        "schedule": {"type": "string", "pattern": "^\\d+:\\d\\d$"},
	        "retries":  {"type": "integer", "maximum": 5, "default": 3}
	      }
	    }
	  }
	}`), &props)
	if err != nil {
		log.Fatal(err)
	}

	// Once for a schema: is it structural? Then compile it.
	structural, err := schema.NewStructural(&props)
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range schema.Check(structural, schema.KEP) {
		fmt.Println("schema:", finding)
	}
	program, err := schema.Compile(structural)
	if err != nil {
		log.Fatal(err)
	}

	// For each object: parse, prune and default in one pass, then validate.
	object, report, err := program.Decode([]byte(`{
	  "apiVersion": "example.com/v1",
	  "kind": "NightlyJob",
	  "metadata": {"name": "cleanup"},
	  "spec": {"schedule": "at noon", "retires": 1, "privileged": true}
	}`), schema.DecodeOptions{Report: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range report.Changes {
		fmt.Printf("%s: %s (nearest: %q)\n", change.Path, change.Kind, change.Nearest())
	}
	for _, err := range program.Validate(context.Background(), object, nil).FieldErrors() {
		fmt.Println(err)
	}
	fmt.Println(object["spec"])

	// Output:
	// spec.privileged: pruned (nearest: "")
	// spec.retires: pruned (nearest: "retries")
	// spec.retries: defaulted (nearest: "")
	// spec.schedule: Invalid value: "at noon": spec.schedule in body should match '^\d+:\d\d$'
	// map[retries:3 schedule:at noon]
}

// A Cursor follows the fields of an object through a schema, and knows where unknown
// fields are pruned.
func ExampleCursor() {
	var props api.JSONSchemaProps
	err := json.Unmarshal([]byte(`{
	  "type": "object",
	  "properties": {
	    "spec": {
	      "type": "object",
	      "properties": {
	        "values": {
	          "type": "object",
	          "x-kubernetes-preserve-unknown-fields": true,
	          "properties": {"image": {"type": "object", "properties": {"tag": {"type": "string"}}}}
	        }
	      }
	    }
	  }
	}`), &props)
	if err != nil {
		log.Fatal(err)
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range []string{"metadata", "spec", "spec.replicas", "spec.values", "spec.values.anything", "spec.values.image", "spec.values.image.digest"} {
		at, kept := schema.NewCursor(structural, schema.Kubernetes, schema.PruningOn), true
		for _, name := range strings.Split(path, ".") {
			at, kept = at.Field(name)
		}
		if !kept {
			fmt.Printf("%s: pruned\n", path)
			continue
		}
		fmt.Printf("%s: specified %v, unknown fields pruned %v, metadata %v\n", path, at.Schema() != nil, at.Prunes(), at.InMetadata())
	}

	// Output:
	// metadata: specified false, unknown fields pruned false, metadata true
	// spec: specified true, unknown fields pruned true, metadata false
	// spec.replicas: pruned
	// spec.values: specified true, unknown fields pruned false, metadata false
	// spec.values.anything: specified false, unknown fields pruned false, metadata false
	// spec.values.image: specified true, unknown fields pruned true, metadata false
	// spec.values.image.digest: pruned
}

// All visits every schema in a schema, here to find the fields that have no description.
func ExampleStructural_All() {
	metadata := schema.ObjectMeta()
	metadata.Properties["labels"].Description = ""
	for path, s := range metadata.All() {
		if len(path) == 1 && s.Description == "" {
			fmt.Println(path)
		}
	}

	// Output:
	// .properties[labels]
}
