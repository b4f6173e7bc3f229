package sample

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/internal/analysistest"
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
	c := analysistest.CRD(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {group: example.com,
names: {kind: Thing, plural: things}, scope: Cluster, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: `+text+`}}]}}`)
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
			if !regexp.MustCompile(in.Pattern).MatchString(s) {
				t.Errorf("%q does not match %s", s, in.Pattern)
			}
			if len(s) > 80 {
				s = fmt.Sprintf("%s… of length %d", s[:10], len(s))
			}
			all = append(all, encode(t, s))
		}
		return []string{strings.Join(all, " ")}
	})
}

// TestManyValues checks that no more values are generated than the limit, in lists and in maps.
func TestManyValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{type: array, minItems: 1000000, items: {type: array, minItems: 1000000, items: {type: boolean}}}`,
		`{type: object, minProperties: 1000000, additionalProperties: {type: object, minProperties: 1000000, additionalProperties: {type: boolean}}}`,
	} {
		s := version(t, "{type: object, properties: {v: "+text+"}}").Structural().Properties["v"]
		var g generator
		if g.value(s, nil, 0); g.made != maxValues {
			t.Errorf("%s: got %d values", text, g.made)
		}
	}
	n := needs(&schema.ValueValidation{MinLength: new(int64(2 * maxText))}, nil)
	if s := n.fit("example"); len(s) != maxText || !strings.HasPrefix(s, "examplehij") {
		t.Errorf("got %d bytes", len(s))
	}
	for variation, want := range map[int]string{0: "192.0.2.1", 199: "192.0.2.200", 200: "192.0.2.1"} {
		if got, ok := ofFormat("ipv4", variation); !ok || got != want {
			t.Errorf("%d: got %s, want %s", variation, got, want)
		}
	}
}

// TestEqual checks which values are equal: a number is, in whatever form.
func TestEqual(t *testing.T) {
	t.Parallel()
	const exact = 1 << 53
	for _, tt := range []struct {
		a, b any
		want bool
	}{
		{int64(1), int64(1), true}, {1.0, int64(1), true}, {int64(1), 1.0, true}, {1.0, 1.0, true}, {1.5, 1.5, true}, {1.5, int64(1), false}, {int64(1), 1.5, false},
		{float64(exact - 1), int64(exact - 1), true}, {int64(exact - 1), float64(exact - 1), true}, {float64(exact), int64(exact), false}, {int64(exact), float64(exact), false},
		{float64(-exact + 1), int64(-exact + 1), true}, {int64(-exact), float64(-exact), false}, {float64(exact), float64(exact), true},
		{"1", int64(1), false}, {nil, nil, true}, {[]any{"a"}, []any{"a"}, true}, {[]any{"a"}, []any{"b"}, false},
	} {
		if got := equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%v (%T) and %v (%T): got %t", tt.a, tt.a, tt.b, tt.b, got)
		}
	}
}

// TestLastTrial checks that nothing is tried when no trials are left.
func TestLastTrial(t *testing.T) {
	t.Parallel()
	v := version(t, `{type: object, required: [a], properties: {a: {type: string}}}`)
	obj := schema.Object{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "example"}}
	for _, left := range []int{0, 1} {
		m := newRepairer(t.Context(), v, v.Structural(), &generator{})
		first := m.try(obj)
		m.left = left
		if got := m.improve(first, map[string]int{}); (got != nil) != (left == 1) || m.left != 0 {
			t.Errorf("%d left: got %v, and %d are left", left, got, m.left)
		}
		m.left = left
		if got := m.detour(first); (got != nil) != (left == 1) || m.left != 0 {
			t.Errorf("detour, %d left: got %v, and %d are left", left, got, m.left)
		}
		m.left = left + 1
		if found := m.repair(obj); found.Valid() != (left == 1) || m.left != 0 {
			t.Errorf("repair, %d left: got %v, and %d are left", left, found, m.left)
		}
	}
}
