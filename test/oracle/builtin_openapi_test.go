package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/handler"

	"espalier.dev/kinds"
	"espalier.dev/openapi"
	serverbuiltin "espalier.dev/server/builtin"
	oraclebuiltin "espalier.dev/test/oracle/builtin"
)

// leftOut are the endings of the paths that only Kubernetes has, with the reason.
var leftOut = map[string]string{
	"/attach":                   "the server has no kubelet",
	"/exec":                     "the server has no kubelet",
	"/log":                      "the server has no kubelet",
	"/portforward":              "the server has no kubelet",
	"/proxy":                    "the server has no kubelet",
	"/proxy/{path}":             "the server has no kubelet",
	"/componentstatuses":        "deprecated",
	"/componentstatuses/{name}": "deprecated",
}

// TestOpenAPIOfBuiltins compares the documents of Kubernetes' own kinds with those that
// Kubernetes 1.36 publishes. Types and fields that have changed since are not compared: those
// whose source code is another one.
func TestOpenAPIOfBuiltins(t *testing.T) {
	b := openapi.New(openapi.Options{Scheme: oraclebuiltin.Scheme})
	published := filepath.Join(moduleDir(t, "k8s.io/kubernetes", "v1.36.3"), "api", "openapi-spec")
	changes := newSourceChanges(t)
	var swagger map[string]any
	readJSON(t, filepath.Join(published, "swagger.json"), &swagger)
	normalize(swagger)
	documents := map[string]map[string]any{}
	ours := map[string]bool{} // paths
	c := &builtinComparison{T: t, changes: changes, definitions: map[string]bool{}, changedFields: map[string]bool{}, changedTypes: map[string]bool{}}
	for _, r := range kinds.Resources() {
		k, err := serverbuiltin.OpenAPI(r, oraclebuiltin.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		file := "api__v1_openapi.json"
		if r.Group != "" {
			file = fmt.Sprintf("apis__%s__%s_openapi.json", r.Group, r.Version)
		}
		if documents[file] == nil {
			var doc map[string]any
			readJSON(t, filepath.Join(published, "v3", file), &doc)
			normalize(doc)
			documents[file] = doc
		}
		v3, err := asTree(b.KindV3(k))
		if err != nil {
			t.Fatal(err)
		}
		normalize(v3)
		c.compare("v3", at(v3, "paths"), at(documents[file], "paths"), at(v3, "components", "schemas"), at(documents[file], "components", "schemas"))
		for path := range at(v3, "paths") {
			ours[path] = true
		}
		doc, err := b.KindV2(k)
		if err != nil {
			t.Fatal(err)
		}
		doc.Definitions = handler.PruneDefaults(doc.Definitions) // as it is published
		v2, err := asTree(doc, nil)
		if err != nil {
			t.Fatal(err)
		}
		normalize(v2)
		c.compare("v2", at(v2, "paths"), at(swagger, "paths"), at(v2, "definitions"), at(swagger, "definitions"))
	}
	c.paths(documents, ours)
	t.Logf("%d definitions, %d paths; %d fields and %d types have changed since 1.36", len(c.definitions), len(ours), len(c.changedFields), len(c.changedTypes))
	if len(c.definitions) < 1000 || len(c.changedFields) > 300 || len(c.changedTypes) > 50 {
		t.Error("too little was compared")
	}
}

// builtinComparison compares definitions and paths.
type builtinComparison struct {
	*testing.T
	changes                     *sourceChanges
	definitions                 map[string]bool // compared ones
	changedFields, changedTypes map[string]bool
}

func (c *builtinComparison) compare(version string, paths, wantPaths, definitions, wantDefinitions map[string]any) {
	c.Helper()
	for path, got := range paths {
		c.differ(version, path, got, wantPaths[path])
	}
	for name, got := range definitions {
		if c.definitions[version+" "+name] {
			continue
		}
		c.definitions[version+" "+name] = true
		want, ok := wantDefinitions[name].(map[string]any)
		if !ok {
			if c.changes.isOld(name) {
				c.Errorf("%s: Kubernetes has no definition of %s", version, name)
			}
			c.changedTypes[name] = true
			continue
		}
		got := got.(map[string]any)
		for _, s := range []map[string]any{got, want} {
			c.dropChanges(name, s)
		}
		if name == "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions" {
			// It lists the groups and versions that are known, which differ.
			delete(got, "x-kubernetes-group-version-kind")
			delete(want, "x-kubernetes-group-version-kind")
		}
		c.differ(version, name, got, want)
	}
}

func (c *builtinComparison) differ(version, name string, got, want any) {
	c.Helper()
	compareTrees(name, got, want, func(d string) { c.Errorf("%s: %s", version, d) })
}

// dropChanges removes from a definition what has changed since Kubernetes 1.36.
func (c *builtinComparison) dropChanges(name string, s map[string]any) {
	if c.changes.changed(name, "") {
		for _, key := range []string{"description", "x-kubernetes-map-type", "x-kubernetes-unions"} {
			delete(s, key)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	dropped := func(field string) bool { return c.changes.changed(name, field) }
	for field := range properties {
		if dropped(field) {
			delete(properties, field)
			c.changedFields[name+"."+field] = true
		}
	}
	if required = slices.DeleteFunc(required, func(field any) bool { return dropped(field.(string)) }); len(required) == 0 {
		delete(s, "required")
	} else {
		s["required"] = required
	}
	if len(properties) == 0 {
		delete(s, "properties")
	}
}

// paths reports the paths of Kubernetes that are not ours.
func (c *builtinComparison) paths(documents map[string]map[string]any, ours map[string]bool) {
	c.Helper()
	for _, doc := range documents {
		for path := range at(doc, "paths") {
			if ours[path] || strings.Contains(path, "/watch/") || strings.HasSuffix(path, "/") {
				continue // deprecated, or of a group
			}
			if !slices.ContainsFunc(slices.Collect(maps.Keys(leftOut)), func(end string) bool { return strings.HasSuffix(path, end) }) {
				c.Errorf("%s is missing", path)
			}
		}
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// at returns the object at a path.
func at(tree any, path ...string) map[string]any {
	for _, name := range path {
		tree = tree.(map[string]any)[name]
	}
	return tree.(map[string]any)
}

// normalize removes what Kubernetes 1.37 writes differently than 1.36 (items and values of maps
// have no default), and what depends on feature gates, which the published documents were
// written with: CBOR is on there and enums are off.
func normalize(v any) {
	switch v := v.(type) {
	case map[string]any:
		if list, ok := v["enum"].([]any); ok && len(list) > 0 {
			delete(v, "enum")
		}
		if d, ok := v["description"].(string); ok {
			v["description"], _, _ = strings.Cut(d, "\n\nPossible enum values:")
		}
		for _, name := range []string{"items", "additionalProperties"} {
			child, ok := v[name].(map[string]any)
			if !ok {
				continue
			}
			delete(child, "default")
			if all, ok := child["allOf"].([]any); ok && len(child) == 1 && len(all) == 1 {
				v[name] = all[0]
			}
		}
		for _, name := range []string{"consumes", "produces"} {
			if list, ok := v[name].([]any); ok {
				v[name] = slices.DeleteFunc(list, func(t any) bool { return strings.Contains(t.(string), "cbor") })
			}
		}
		maps.DeleteFunc(v, func(name string, _ any) bool {
			return strings.HasPrefix(name, "application/") && strings.Contains(name, "cbor")
		})
		for _, child := range v {
			normalize(child)
		}
	case []any:
		for _, child := range v {
			normalize(child)
		}
	}
}
