package schema_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

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
