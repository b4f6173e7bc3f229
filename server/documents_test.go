package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// TestDocuments sends the examples of the design documents to a server: their schemas as
// CRDs, and their objects. The engine is tested with the same files.
func TestDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../schema/testdata/documents/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no documents", err)
	}
	servers := map[string]*servertest.Running{}
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		servers[sem.String()] = servertest.Serve(t, sem)
	}
	for _, f := range files {
		cases := map[string][]serverCase{}
		for sem := range servers {
			cases[sem] = serverCases(t, f, sem)
		}
		if len(cases["kep"])+len(cases["kubernetes"]) == 0 {
			continue // about schemas alone
		}
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			for sem, s := range servers {
				for _, c := range cases[sem] {
					t.Run(sem+"/"+c.name, func(t *testing.T) { c.run(t, s) })
				}
			}
		})
	}
}

// serverCase is an object of a document with the expected result.
type serverCase struct {
	name       string
	schema     []byte
	jsonSchema bool
	object     map[string]any
	pruned     map[string]any // nil: not looked at
	verdict    []string
	// sem is the schema semantics of the case.
	sem string
}

// serverCases reads the cases of a document that have an object.
func serverCases(t *testing.T, file, sem string) (cases []serverCase) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]map[string][]byte{}
	for _, f := range archive.Files {
		dir := path.Dir(f.Name)
		if sections[dir] == nil {
			sections[dir] = map[string][]byte{}
		}
		sections[dir][path.Base(f.Name)] = f.Data
	}
	document := strings.TrimSuffix(filepath.Base(file), ".txtar")
	for _, dir := range slices.Sorted(maps.Keys(sections)) {
		s := sections[dir]
		find := func(name, ext string) []byte {
			if data, ok := s[name+"."+sem+ext]; ok {
				return data
			}
			return s[name+ext]
		}
		if s["object.json"] == nil {
			continue
		}
		c := serverCase{name: path.Join(document, dir), sem: sem}
		if err := json.Unmarshal(s["object.json"], &c.object); err != nil {
			continue // some documents prune things that are no objects
		}
		for _, from := range []map[string][]byte{s, sections["."]} {
			for name, data := range from {
				switch name {
				case "schema.yaml", "schema.json", "jsonschema.json":
					if c.schema == nil {
						c.schema, c.jsonSchema = data, name == "jsonschema.json"
					}
				}
			}
		}
		for _, name := range []string{"pruned", "defaulted"} {
			if data := find(name, ".json"); data != nil {
				if err := json.Unmarshal(data, &c.pruned); err != nil {
					t.Fatal(file, err)
				}
			}
		}
		if data := find("verdict", ".txt"); data != nil {
			c.verdict = strings.Fields(string(data))
		}
		// Examples of pruning need not be valid objects. The test adds the missing fields, so that
		// the objects are pruned and stored.
		for _, obj := range []map[string]any{c.object, c.pruned} {
			for name, rest := range completions()[document] {
				if child, ok := obj[name].(map[string]any); ok {
					maps.Copy(child, rest)
				}
			}
		}
		if c.name == "V-10/root-map" {
			continue // no definition may have that schema
		}
		if c.schema != nil && (c.pruned != nil || c.verdict != nil) && !(c.jsonSchema && sem == "kubernetes") {
			cases = append(cases, c)
		}
	}
	return cases
}

// mapKeys are keys of maps in the paths of fields. Documents write them like names of properties.
var mapKeys = regexp.MustCompile(`\[([a-z]\w*)\]`)

// completions returns the fields that objects of documents lack to be valid, by their parent
// field.
func completions() map[string]map[string]map[string]any {
	return map[string]map[string]map[string]any{
		"P-09": {"json": {"def": map[string]any{}}},
		"P-10": {"object": {"apiVersion": "v1", "kind": "Example"}},
	}
}

const (
	betaDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition", "metadata": {"name": "examples.mygroup.example.com"},
	"spec": {"group": "mygroup.example.com", "version": "v1alpha1", "scope": "Namespaced", "names": {"plural": "examples", "kind": %q}, "validation": {"jsonSchema": %s}}}`
	plainDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "examples.mygroup.example.com"},
	"spec": {"group": "mygroup.example.com", "scope": "Namespaced", "names": {"plural": "examples", "kind": %q},
		"versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": %s}}]}}`
)

func (c serverCase) run(t *testing.T, server *servertest.Running) {
	s := servertest.NewScript(t, server)
	text, err := yaml.YAMLToJSON(c.schema)
	if err != nil {
		t.Fatal(err)
	}
	kind := "Example"
	if k, ok := c.object["kind"].(string); ok {
		kind = k
	}
	format := plainDefinition
	if c.jsonSchema {
		format = betaDefinition
	}
	if err := s.Write("create", fmt.Appendf(nil, format, kind, text), ""); err != nil {
		t.Fatal(err)
	}
	if s.Last.Code != http.StatusCreated {
		t.Fatalf("the definition is rejected: %s", s.Last.Body)
	}
	obj := maps.Clone(c.object)
	obj["apiVersion"], obj["kind"] = "mygroup.example.com/v1alpha1", kind
	meta, _ := obj["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = "example"
	obj["metadata"] = meta
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write("create", body, ""); err != nil {
		t.Fatal(err)
	}
	if len(c.verdict) > 0 && c.verdict[0] == "rejected" {
		// An object that contradicts a type cannot be decoded.
		if s.Last.Code != http.StatusUnprocessableEntity && s.Last.Code != http.StatusBadRequest {
			t.Errorf("it is not rejected: %d %s", s.Last.Code, s.Last.Body)
		}
		named := mapKeys.ReplaceAll(s.Last.Body, []byte(".$1"))
		for _, field := range c.verdict[1:] {
			if !bytes.Contains(s.Last.Body, []byte(field)) && !bytes.Contains(named, []byte(field)) {
				t.Errorf("%s is not named: %s", field, s.Last.Body)
			}
		}
		return
	}
	if s.Last.Code != http.StatusCreated {
		t.Fatalf("it is rejected: %s", s.Last.Body)
	}
	if c.pruned == nil {
		return
	}
	// The response shows the stored object.
	created := servertest.Plain(s.Last.Object)
	s.Last = s.Do(http.MethodGet, "/apis/mygroup.example.com/v1alpha1/namespaces/default/examples/example", nil, "")
	if got := servertest.Plain(s.Last.Object); !reflect.DeepEqual(got, created) {
		t.Errorf("created: %v, then read: %v", created, got)
	}
	got, want := withoutIdentity(created), withoutIdentity(c.pruned)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// withoutIdentity returns an object without the fields that the test added to identify it.
func withoutIdentity(obj map[string]any) map[string]any {
	obj = maps.Clone(obj)
	delete(obj, "apiVersion")
	delete(obj, "kind")
	if meta, ok := obj["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		delete(meta, "name")
		obj["metadata"] = meta
		if len(meta) == 0 {
			delete(obj, "metadata")
		}
	}
	return obj
}
