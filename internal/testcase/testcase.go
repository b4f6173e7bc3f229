// Package testcase generates the schemas and objects for benchmarks of the engine. They are
// the same on every run, and in JSON, so that every implementation can read them into its own
// types.
//
// An object of a Case is valid once decoded, and about a fifth of its bytes are fields that
// the schema does not specify. Its keys are in the order in which people write them, not
// sorted.
package testcase

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Case is a schema with an object.
type Case struct {
	// Name is the name in tables.
	Name string
	// APIVersion and Kind are those of the object.
	APIVersion, Kind string
	// Schema is an openAPIV3Schema.
	Schema []byte
	// Object is an instance, as a client would send it.
	Object []byte
}

const (
	apiVersion = "bench.espalier.dev/v1"
	kind       = "Workload"
)

// bigWorkloads and bigItems give the big case its 2,000 properties and 100 KB.
const (
	bigWorkloads = 32
	bigItems     = 5
)

// Medium returns a schema of about 75 properties and an object of 1.8 KB.
func Medium() Case {
	return newCase("medium", map[string]any{
		"spec":   workloadSchema(0),
		"status": statusSchema(),
	}, `"spec":`+workload(0, 1)+`,"status":`+status(1))
}

// Big returns a schema of about 2,000 properties and an object of 100 KB.
func Big() Case {
	c := Sections(bigWorkloads, bigItems)
	c.Name = "big"
	return c
}

// Sections returns a schema of n workloads, no two of them with the same bounds, and an
// object that has all of them, with the given number of items in each list.
func Sections(n, items int) Case {
	schemas := make(map[string]any, n)
	objects := make([]string, n)
	for i := range n {
		schemas[sectionName(i)] = workloadSchema(i)
		objects[i] = strconv.Quote(sectionName(i)) + ":" + workload(i, items)
	}
	return newCase(fmt.Sprintf("sections-%dx%d", n, items), map[string]any{
		"spec":   object(schemas),
		"status": statusSchema(),
	}, `"spec":{`+strings.Join(objects, ",")+`},"status":`+status(items))
}

func sectionName(i int) string { return "workload" + strconv.Itoa(i) }

// newCase adds what every schema has to properties, and what every object has to fields, the
// text of an object's fields.
func newCase(name string, properties map[string]any, fields string) Case {
	properties["apiVersion"] = str()
	properties["kind"] = str()
	properties["metadata"] = map[string]any{"type": "object"}
	return Case{
		Name:       name,
		APIVersion: apiVersion,
		Kind:       kind,
		Schema:     mustMarshal(object(properties)),
		Object:     []byte(`{"apiVersion":"` + apiVersion + `","kind":"` + kind + `",` + metadata + `,` + fields + `}`),
	}
}

const metadata = `"metadata":{"name":"storefront","namespace":"shop","labels":{"app.kubernetes.io/name":"storefront","tier":"web"},` +
	`"annotations":{"shop.example.com/owner":"team-web"},"owner":"team-web"}`

// mustMarshal writes a value of this package, which cannot fail.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

// Properties counts the properties in a schema, at all depths and inside of logical
// operators.
func Properties(schema []byte) (int, error) {
	var s any
	if err := json.Unmarshal(schema, &s); err != nil {
		return 0, fmt.Errorf("schema: %w", err)
	}
	return countProperties(s), nil
}

func countProperties(s any) int {
	n := 0
	switch s := s.(type) {
	case map[string]any:
		for k, v := range s {
			if named, ok := v.(map[string]any); ok && k == "properties" {
				n += len(named)
				for _, p := range named {
					n += countProperties(p)
				}
				continue
			}
			if k != "default" && k != "enum" && k != "example" {
				n += countProperties(v)
			}
		}
	case []any:
		for _, v := range s {
			n += countProperties(v)
		}
	}
	return n
}
