package generate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"espalier.dev/analysis/object"
	"espalier.dev/api"
	"espalier.dev/internal/testcase"
)

// TestCorpus generates the Go types of the CRDs of the corpus, and derives the schemas from
// them with controller-gen. It compares the schemas; each difference has a class.
func TestCorpus(t *testing.T) {
	t.Run("S-16 OpenAPI to Go to OpenAPI", openAPIToOpenAPI)
}

func openAPIToOpenAPI(t *testing.T) {
	dir := newModule(t)
	all := projects(t)
	for _, p := range all {
		generateGo(t, dir+"/"+p.name, p.packages)
		for _, problem := range p.problems {
			if problem.Rule != object.RuleNotStructural {
				t.Errorf("%s: %s", p.name, problem)
			}
		}
	}
	g := newControllerGen(t, dir, "./...")
	counts := classes{}
	compared, equal := 0, 0
	for _, p := range all {
		for _, pkg := range p.packages {
			for _, k := range pkg.Kinds {
				got, err := g.schema(p.name+"/"+pkg.Dir(), k.Type.Name)
				if err != nil {
					t.Errorf("%s %s: %v", p.name, k.Type.Name, err)
					continue
				}
				compared++
				if counts.compare(t, p.name+" "+k.Name+" "+pkg.Version, k.Type.Schema.ToJSONSchemaProps(), got) {
					equal++
				}
			}
		}
	}
	for _, p := range all {
		compareDefinitions(t, g, p)
	}
	for _, e := range g.errors() {
		t.Error(e)
	}
	summary := fmt.Sprintf("%d schemas, %d of them equal apart from descriptions\n", compared, equal)
	for _, class := range slices.Sorted(maps.Keys(counts)) {
		summary += fmt.Sprintf("%6d %s\n", counts[class], class)
	}
	t.Log("\n" + summary)
	if !testcase.WholeCorpus() {
		goTool(t, dir, "vet", "./cert-manager/...")
		return
	}
	golden(t, "testdata/differences.txt", summary)
	goTool(t, dir, "vet", "./...")
}

// compareDefinitions compares the CRDs of a project with those that controller-gen makes, apart
// from schemas: names, scope, annotations, and what each version has besides a schema.
func compareDefinitions(t *testing.T, g *controllerGen, p *project) {
	t.Helper()
	for _, in := range p.inputs {
		crd := in.Definition.CRD()
		if len(in.Definition.Versions()) != len(crd.Spec.Versions) {
			continue
		}
		kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
		if !token.IsExported(kind.Kind) {
			continue // controller-gen takes the kind from the name of the type
		}
		made, err := g.definition(p.name, kind)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		if got, want := describe(t, made), describe(t, crd); got != want {
			t.Errorf("%s: %s: controller-gen makes another CRD\n got %s\nwant %s", p.name, kind, got, want)
		}
	}
}

// describe returns what a CRD in JSON has besides schemas, conversion, and what tools add to it.
func describe(t *testing.T, crd any) string {
	t.Helper()
	text, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"metadata"`
		Spec struct {
			Scope    string           `json:"scope"`
			Names    map[string]any   `json:"names"`
			Versions []map[string]any `json:"versions"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	delete(d.Metadata.Annotations, "controller-gen.kubebuilder.io/version")
	for _, v := range d.Spec.Versions {
		delete(v, "schema")
		if v["deprecated"] == false {
			delete(v, "deprecated")
		}
		if none, ok := v["subresources"].(map[string]any); ok && len(none) == 0 {
			delete(v, "subresources")
		}
	}
	slices.SortFunc(d.Spec.Versions, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return marshal(d)
}

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// golden compares a text with a file.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%s: got\n%s\nwant (%v)\n%s", file, text, err, want)
	}
}

// classes counts the differences between schemas.
type classes map[string]int

// compare compares two schemas and counts their differences. It reports whether they are equal,
// apart from descriptions.
func (c classes) compare(t *testing.T, name string, want, got *api.JSONSchemaProps) bool {
	before := c.total()
	c.value(t, name, "", tree(want), tree(got))
	return c.total() == before
}

func (c classes) total() (n int) {
	for class, count := range c {
		if class != descriptions {
			n += count
		}
	}
	return n
}

// tree returns a schema as JSON values.
func tree(s *api.JSONSchemaProps) map[string]any {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

// value compares two schemas at a path.
func (c classes) value(t *testing.T, name, path string, want, got map[string]any) {
	keys := map[string]bool{}
	for k := range want {
		keys[k] = true
	}
	for k := range got {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		w, g := want[k], got[k]
		if k == "required" {
			w, g = sorted(w), sorted(g)
		}
		if reflect.DeepEqual(w, g) {
			continue
		}
		switch k {
		case "properties":
			wp, _ := w.(map[string]any)
			gp, _ := g.(map[string]any)
			for _, p := range slices.Sorted(maps.Keys(union(wp, gp))) {
				ws, inWant := wp[p].(map[string]any)
				gs, inGot := gp[p].(map[string]any)
				if inWant && inGot {
					c.value(t, name, path+"."+p, ws, gs)
				} else {
					c.add(t, name, path+"."+p, class(path, k, p, want, inWant, inGot), wp[p], gp[p])
				}
			}
			continue
		case "items", "additionalProperties":
			ws, ok1 := w.(map[string]any)
			gs, ok2 := g.(map[string]any)
			if ok1 && ok2 {
				step := "[]"
				if k != "items" {
					step = "{}"
				}
				c.value(t, name, path+step, ws, gs)
				continue
			}
		}
		c.add(t, name, path, class(path, k, "", want, w != nil, g != nil), w, g)
	}
}

// sorted returns a list of strings in order: that of required means nothing.
func sorted(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	return slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
}

func union(a, b map[string]any) map[string]bool {
	all := map[string]bool{}
	for k := range a {
		all[k] = true
	}
	for k := range b {
		all[k] = true
	}
	return all
}

func (c classes) add(t *testing.T, name, path, class string, want, got any) {
	c[class]++
	if class == unexplained {
		t.Errorf("%s%s:\n  want %.900s\n  got  %.900s", name, path, marshal(want), marshal(got))
	}
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// The classes of differences.
const (
	descriptions     = "descriptions"
	logicalOperators = "allOf, anyOf, oneOf and not have no markers"
	rootFields       = "the root always specifies apiVersion, kind and metadata"
	rootMetadata     = "restrictions of the metadata of the root have no markers"
	noProperty       = "a required field that is not specified has no place for a marker"
	otherType        = "controller-gen rejects keywords of other types"
	nullableItems    = "nullable items and map values have no marker"
	unexplained      = "unexplained"
)

// class returns the class of a difference: a keyword of the schema at a path, or one of its
// properties.
func class(path, keyword, property string, want map[string]any, inWant, inGot bool) string {
	elem := strings.HasSuffix(path, "]") || strings.HasSuffix(path, "}")
	switch {
	case keyword == "description":
		return descriptions
	case path == "" && keyword == "properties" && slices.Contains([]string{"apiVersion", "kind", "metadata"}, property):
		return rootFields
	case path == ".metadata" && inWant && !inGot:
		return rootMetadata
	case !inWant || inGot && keyword != "required":
		return unexplained
	case slices.Contains([]string{"allOf", "anyOf", "oneOf", "not"}, keyword):
		return logicalOperators
	case keyword == "nullable" && elem:
		return nullableItems
	case keyword == "required":
		specified, _ := want["properties"].(map[string]any)
		for _, name := range want["required"].([]any) {
			if specified[name.(string)] == nil {
				return noProperty
			}
		}
	case keyword == "items" && want["type"] != "array", strings.HasSuffix(keyword, "Length") && want["type"] != "string", keyword == "pattern" && want["type"] != "string":
		return otherType
	}
	return unexplained
}
