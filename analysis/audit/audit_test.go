package audit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"espalier.dev/analysis/audit"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

func definition(t *testing.T) *crd.Definition {
	t.Helper()
	hub, err := codec.DecodeLenient([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"jobs.example.com"},"spec":{"group":"example.com",
		"names":{"kind":"Job","listKind":"JobList","plural":"jobs","singular":"job"},"scope":"Cluster","versions":[
		{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
			"need":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}},
			"steps":{"type":"array","items":{"type":"object","properties":{"n":{"type":"integer","maximum":5}}}},
			"byName":{"type":"object","additionalProperties":{"type":"object","properties":{"s":{"type":"string"}}}},
			"text":{"type":"string","x-kubernetes-validations":[{"rule":"self.size() < 5","message":"too long"},{"rule":"self.startsWith('a')","messageExpression":"'not ' + self"}]}}}}}}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	api.SetDefaults(hub)
	d, err := crd.New(hub, crd.Options{Semantics: schema.KEP, Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type object struct{ name, json string }

func run(t *testing.T, o audit.Options, objects []object) *audit.Audit {
	t.Helper()
	inspector := compliance.New(definition(t))
	a := audit.New(o)
	for _, o := range objects {
		r, err := inspector.Inspect(t.Context(), []byte(o.json))
		if err != nil {
			t.Fatal(err)
		}
		a.Add(inspector.Definition(), audit.Object{Name: o.name, Where: func() string { return "at " + o.name }}, &r)
	}
	return a
}

func job(name, spec string) object {
	return object{name, fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":%q},"spec":{%s}}`, name, spec)}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	objects := []object{
		job("fine", `"steps":[{"n":1}]`),
		job("b", `"steps":[{"n":1,"x":1},{"x":2}],"byName":{"k":{"x":1}}`),
		job("a", `"steps":[{},{},{"x":1,"n":9}]`),
		job("c", `"steps":[{"n":7},{"n":8}],"byName":{"k":{"s":1},"l":{"s":2}}`),
		job("d", `"text":"bbbbbbb"`),
		job("e", `"text":"cccc"`),
		job("g", `"need":[{"name":"x"},{}]`),
		{"f", `{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"f"},"spec":`},
	}
	want := `stored-unreadable : the stored value cannot be read: 1 objects, 1 values: f
v1 stored-unspecified spec.byName.*.x: version v1 does not specify this field: 1 objects, 1 values: b
v1 stored-unspecified spec.steps[*].x: version v1 does not specify this field: 2 objects, 3 values: a b
v1 stored-contradiction spec.byName.*.s: Invalid value: spec.byName.*.s in body must be of type string: "integer": 1 objects, 2 values: c
v1 stored-invalid spec.need[*].name: Required value: spec.need[*].name in body is required: 1 objects, 1 values: g
v1 stored-invalid spec.steps[*].n: Invalid value: spec.steps[*].n in body should be less than or equal to 5: 2 objects, 3 values: a c
v1 stored-invalid spec.text: Invalid value: too long: 1 objects, 1 values: d
v1 stored-invalid spec.text: Invalid value: not bbbbbbb: 2 objects, 2 values: d e`
	for range 20 {
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		a := run(t, audit.Options{Examples: 2}, objects)
		var lines []string
		for _, g := range a.Groups() {
			var names []string
			for _, e := range g.Examples {
				names = append(names, e.Name)
			}
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s: %s: %d objects, %d values: %s", g.Version, audit.RuleID(g.Kind), g.Path, g.Message, g.Objects, g.Values, strings.Join(names, " "))))
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
		if total := a.Total(); total.Objects != 8 || total.Failing != 7 || total.Of[compliance.Unspecified] != 2 || a.Counts("jobs.example.com") != total {
			t.Fatalf("got %+v", total)
		}
	}
}

// TestManyPaths checks that the number of groups is limited, and that their content does not
// depend on the order of objects.
func TestManyPaths(t *testing.T) {
	t.Parallel()
	var objects []object
	for i := range 300 {
		objects = append(objects, job(fmt.Sprintf("o%03d", i), fmt.Sprintf(`"x%03d":1,"x%03d":1`, i, (i+1)%300)))
	}
	first := ""
	for range 5 {
		rand.Shuffle(len(objects), func(i, j int) { objects[i], objects[j] = objects[j], objects[i] })
		groups := run(t, audit.Options{Examples: 3, Paths: 10}, objects).Groups()
		if len(groups) != 11 || groups[9].Path != "spec.x009" || groups[10].Path != audit.Other || groups[10].Objects != 600-20 {
			t.Fatalf("got %d groups, the last is %+v", len(groups), groups[len(groups)-1])
		}
		text, err := json.Marshal(groups[10].Examples)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		}
		if string(text) != first || len(groups[10].Examples) != 3 {
			t.Fatalf("got %s, before %s", text, first)
		}
	}
}

func TestParsePath(t *testing.T) {
	t.Parallel()
	s := definition(t).Version("v1").Structural()
	for text, want := range map[string]string{
		"":                  "",
		"spec.steps[12].x":  "spec.steps[*].x",
		"spec.byName.k.s":   "spec.byName.*.s",
		"spec.none.below.x": "spec.none.below.x",
		"x[0][1]":           "x[*][*]",
	} {
		p := audit.ParsePath(text, s)
		if got := p.Pattern(); got != want || p.String() != text {
			t.Errorf("%s: got %s (%s), want %s", text, got, p, want)
		}
	}
	if p := audit.ParsePath("a.b", nil); p.String() != "a.b" {
		t.Errorf("without a schema: got %v", p)
	}
	// No schema describes the values of this map.
	open := &schema.Structural{AdditionalProperties: &schema.StructuralOrBool{Bool: true}}
	if p := audit.ParsePath("a.b", open); p.Pattern() != "a.b" {
		t.Errorf("a map without a schema of its values: got %s", p.Pattern())
	}
}
