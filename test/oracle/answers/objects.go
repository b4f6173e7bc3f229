package answers

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed testdata/objects.yaml
var objectsFile []byte

//go:embed testdata/setup.yaml
var setupFile []byte

// subject is an object that requests are made for.
type subject struct {
	Resource string         `json:"resource"`
	Object   map[string]any `json:"object"`
}

func subjects() ([]subject, error) {
	var all []subject
	if err := yaml.UnmarshalStrict(objectsFile, &all); err != nil {
		return nil, fmt.Errorf("testdata/objects.yaml: %w", err)
	}
	return all, nil
}

func (s subject) apiVersion() string { return s.Object["apiVersion"].(string) }
func (s subject) kind() string       { return s.Object["kind"].(string) }

func (s subject) metadata() map[string]any { return s.Object["metadata"].(map[string]any) }
func (s subject) name() string             { return s.metadata()["name"].(string) }

// prefix is the path of the group and version.
func (s subject) prefix() string {
	if s.apiVersion() == "v1" {
		return "/api/v1"
	}
	return "/apis/" + s.apiVersion()
}

// collection is the path of the collection.
func (s subject) collection() string {
	if namespace, ok := s.metadata()["namespace"].(string); ok {
		return s.prefix() + "/namespaces/" + namespace + "/" + s.Resource
	}
	return s.prefix() + "/" + s.Resource
}

// with returns the object with other fields: the value nil removes one. A path has dots.
func (s subject) with(changes map[string]any) map[string]any {
	data, err := json.Marshal(s.Object)
	if err != nil {
		panic(err) // it is from YAML
	}
	object := map[string]any{}
	if err := json.Unmarshal(data, &object); err != nil {
		panic(err)
	}
	for path, value := range changes {
		at, fields := object, strings.Split(path, ".")
		for _, field := range fields[:len(fields)-1] {
			next, ok := at[field].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[field] = next
			}
			at = next
		}
		if last := fields[len(fields)-1]; value == nil {
			delete(at, last)
		} else {
			at[last] = value
		}
	}
	return object
}

// text returns a value as JSON.
func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // it is from JSON
	}
	return string(data)
}

// initial returns the requests that create what exists before the first one, as JSON.
func initial() (all []Request, err error) {
	for i, doc := range bytes.Split(setupFile, []byte("\n---\n")) {
		data, err := yaml.YAMLToJSON(doc)
		if err != nil {
			return nil, fmt.Errorf("testdata/setup.yaml: %w", err)
		}
		path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		if bytes.Contains(data, []byte(`"kind":"Namespace"`)) {
			path = "/api/v1/namespaces"
		}
		all = append(all, Request{ID: fmt.Sprintf("setup/%d", i), Method: "POST", Path: path, ContentType: jsonType, Body: string(data)})
	}
	return all, nil
}
