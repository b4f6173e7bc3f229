package sample

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

// The flag of the other tests of the directory has the same name and declares it.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// version returns a version with a schema.
func version(t *testing.T, text string) *crd.Version {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com,
names: {kind: Thing, plural: things}, scope: Cluster, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: ` + text + `}}]}}`))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	c, err := codec.DecodeLenient(data)
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	d, err := crd.New(c, crd.Options{Semantics: schema.KEP, Rules: cel.Checker{}})
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d.Version("v1")
}

func parse(t *testing.T, text string) schema.Object {
	t.Helper()
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v.(schema.Object)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// golden completes a file: for each line that begins with {, it writes the line and what the function returns
// for it.
func golden(t *testing.T, file string, lines func(line string) []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		got.WriteString(line)
		for _, l := range lines(strings.TrimSpace(line)) {
			fmt.Fprintf(&got, "> %s\n", l)
		}
		got.WriteString("\n")
	}
	testcase.Golden(t, file, got.String(), updating())
}

// TestValues checks the values that are generated for the schemas in testdata/values.txt: variations of the
// minimal and of the full value.
func TestValues(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/values.txt", func(line string) []string {
		s := version(t, "{type: object, properties: {v: "+line+"}}").Structural().Properties["v"]
		var all [2][]string
		for i, g := range []generator{{kep: true}, {kep: true, full: true}} {
			for variation := range 4 {
				all[i] = append(all[i], encode(t, g.make(s, variation)))
			}
		}
		if encode(t, all[0]) == encode(t, all[1]) {
			return []string{strings.Join(all[0], " ")}
		}
		return []string{strings.Join(all[0], " "), "full: " + strings.Join(all[1], " ")}
	})
}

// TestEdits checks the objects that are tried to fix the violations of objects in testdata/edits.txt, in
// order, and how many objects are validated until one is valid. After a schema and = follows the object, without
// its metadata.
func TestEdits(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/edits.txt", func(line string) (out []string) {
		text, fields, _ := strings.Cut(line, " = ")
		v := version(t, text)
		data, err := yaml.YAMLToJSON([]byte(fields))
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		obj := parse(t, string(data))
		obj["apiVersion"], obj["kind"], obj["metadata"] = "example.com/v1", "Thing", map[string]any{"name": "example"}
		// show describes an object by what a user has to write.
		show := func(obj schema.Object) string {
			rest := jsonx.CopyObject(obj)
			if encode(t, rest["metadata"]) == `{"name":"example"}` {
				delete(rest, "metadata")
			}
			delete(rest, "apiVersion")
			delete(rest, "kind")
			return encode(t, rest)
		}
		m := newRepairer(t.Context(), v, v.Structural(), &generator{kep: true})
		first := m.try(obj)
		for i := range first.violations {
			var tried []string
			for _, e := range m.edits(obj, &first.violations[i]) {
				next := jsonx.CopyObject(obj)
				if result := "-"; e(next) {
					if result = show(next); result == show(obj) {
						result = "="
					}
					tried = append(tried, result)
				} else {
					tried = append(tried, result)
				}
			}
			out = append(out, fmt.Sprintf("%s %s: %s", first.violations[i].Path, first.violations[i].Kind, strings.Join(tried, " ")))
		}
		m = newRepairer(t.Context(), v, v.Structural(), &generator{kep: true})
		found := m.repair(obj)
		return append(out, fmt.Sprintf("%d tries, valid: %t, %s", maxTrials-m.left, found.Valid(), show(found.Object)))
	})
}

// TestMatches checks the strings that are generated for the patterns in testdata/patterns.txt.
func TestMatches(t *testing.T) {
	t.Parallel()
	golden(t, "testdata/patterns.txt", func(line string) []string {
		var in struct {
			Pattern   string `json:"pattern"`
			MinLength int64  `json:"minLength"`
			Variation int    `json:"variation"`
		}
		if err := yaml.Unmarshal([]byte(line), &in); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		var all []string
		for _, s := range matching(in.Pattern, in.MinLength, in.Variation) {
			if len(s) > 80 {
				s = fmt.Sprintf("%s… of length %d", s[:10], len(s))
			}
			all = append(all, encode(t, s))
		}
		return []string{strings.Join(all, " ")}
	})
}

// TestPaths checks how values at paths are found, set and removed.
func TestPaths(t *testing.T) {
	t.Parallel()
	const document = `{"a":{"b":1},"l":["x",{"k":2}]}`
	parse := func() schema.Object { return parse(t, document) }
	for _, tt := range []struct {
		path                schema.Path
		value, put, removed string
	}{
		{nil, document, "", ""},
		{schema.Path{field("a")}, `{"b":1}`, `{"a":0,"l":["x",{"k":2}]}`, `{"l":["x",{"k":2}]}`},
		{schema.Path{field("a"), field("b")}, `1`, `{"a":{"b":0},"l":["x",{"k":2}]}`, `{"a":{},"l":["x",{"k":2}]}`},
		{schema.Path{field("a"), field("c")}, "", `{"a":{"b":1,"c":0},"l":["x",{"k":2}]}`, ""},
		{schema.Path{field("a"), index(0)}, "", "", ""},
		{schema.Path{field("a"), field("b"), field("c")}, "", "", ""},
		{schema.Path{field("c"), field("d")}, "", "", ""},
		{schema.Path{field("l"), index(0)}, `"x"`, `{"a":{"b":1},"l":[0,{"k":2}]}`, `{"a":{"b":1},"l":[{"k":2}]}`},
		{schema.Path{field("l"), index(1), field("k")}, `2`, `{"a":{"b":1},"l":["x",{"k":0}]}`, `{"a":{"b":1},"l":["x",{}]}`},
		{schema.Path{field("l"), index(2)}, "", `{"a":{"b":1},"l":["x",{"k":2},0]}`, ""},
		{schema.Path{field("l"), index(3)}, "", "", ""},
		{schema.Path{field("l"), field("")}, "", "", ""},
	} {
		got := ""
		if v, ok := at(map[string]any(parse()), tt.path); ok {
			got = encode(t, v)
		}
		if got != tt.value {
			t.Errorf("%s is %s, want %s", tt.path, got, tt.value)
		}
		for want, change := range map[*string]func(schema.Object) bool{
			&tt.put:     func(obj schema.Object) bool { return put(obj, tt.path, int64(0)) },
			&tt.removed: func(obj schema.Object) bool { return remove(obj, tt.path) },
		} {
			obj, got := parse(), ""
			if change(obj) {
				got = encode(t, obj)
			}
			if got != *want {
				t.Errorf("%s becomes %s, want %s", tt.path, got, *want)
			}
			if got == "" && encode(t, obj) != document {
				t.Errorf("%s: a change that is not possible leaves %s", tt.path, encode(t, obj))
			}
		}
	}
}

// TestStopsWithContext checks that a search ends with its context, after the first object.
func TestStopsWithContext(t *testing.T) {
	t.Parallel()
	v := version(t, `{type: object, required: [a], properties: {a: {type: string}}}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := newRepairer(ctx, v, v.Structural(), &generator{})
	if found := m.repair(schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "example"}}); found.Valid() || m.left != maxTrials-1 {
		t.Errorf("%d objects were tried: %v", maxTrials-m.left, found.Object)
	}
}
