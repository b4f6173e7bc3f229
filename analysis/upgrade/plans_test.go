package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis/audit"
	"espalier.dev/analysis/upgrade"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd/cel"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected results in testdata")

// installed returns a CRD with some fields of its spec, and a status. In a version, x stands for the
// fields of the spec of objects. It returns nil if there are no fields.
func installed(t *testing.T, text string) *api.CustomResourceDefinition {
	t.Helper()
	if text == "" {
		return nil
	}
	spec := map[string]any{"group": "example.com", "scope": "Namespaced", "names": map[string]any{"kind": "Job", "plural": "jobs", "singular": "job", "listKind": "JobList"}}
	more := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	status := more["status"]
	delete(more, "status")
	maps.Copy(spec, more)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		v := v.(map[string]any)
		if x, ok := v["x"]; ok {
			delete(v, "x")
			v["schema"] = map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": x}}}}
		}
	}
	source, err := json.Marshal(map[string]any{"apiVersion": api.APIVersion, "kind": api.Kind, "metadata": map[string]any{"name": "jobs.example.com"}, "spec": spec, "status": status})
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.DecodeLenient(source)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// planned returns what the upgrade of a CRD does to objects, and its steps, in full. Each object has a
// form and a text in YAML.
func planned(t *testing.T, old, new *api.CustomResourceDefinition, objects [][2]string, sem schema.Semantics) string {
	t.Helper()
	p, err := upgrade.NewPair(t.Context(), old, new, upgrade.Options{Semantics: sem, Rules: cel.Checker{}})
	if err != nil {
		return fmt.Sprintf("> error: %v\n", err)
	}
	var b strings.Builder
	show := func(effects []upgrade.Effect) {
		for _, e := range effects {
			fmt.Fprintf(&b, ">   %s %s %s", e.Action.ID(), e.Severity, e.Rule)
			if e.Path != "" {
				fmt.Fprintf(&b, " %s (%s, %s)", e.Path, e.Pattern, e.Pointer)
			}
			fmt.Fprintf(&b, ": %s\n", e.Message)
			for _, d := range e.Detail {
				fmt.Fprintf(&b, ">     %s\n", d)
			}
		}
	}
	plan := upgrade.NewPlan(upgrade.PlanOptions{Examples: 2, ClusterFlags: " --context c", StoredFlags: " --snapshot s",
		Manifests: !slices.ContainsFunc(objects, func(o [2]string) bool { return o[0] != "manifest" }),
		Commands: func(a upgrade.Action) []string {
			if a == upgrade.Audit {
				return []string{"espalier audit"}
			}
			return nil
		}})
	if d := p.Definition(); d != nil && d.Storage().Name() != "v1" {
		fmt.Fprintf(&b, "> objects are read in version %s\n", d.Storage().Name())
	}
	fmt.Fprintf(&b, "> changed: %t\n", p.Changed)
	show(plan.AddPair(p))
	for i, o := range objects {
		src, err := yaml.YAMLToJSON([]byte(o[1]))
		if err != nil {
			t.Fatalf("%v in %s", err, o[1])
		}
		form := map[string]upgrade.Form{"stored": upgrade.Stored, "served": upgrade.Served, "manifest": upgrade.Manifest}[o[0]]
		effects, err := p.Judge(t.Context(), src, form)
		fmt.Fprintf(&b, "> object %d\n", i+1)
		if err != nil {
			fmt.Fprintf(&b, "> error: %v\n", err)
		}
		show(effects)
		object := audit.Object{Name: fmt.Sprintf("o%d", i+1), Where: func() string { return fmt.Sprintf("line %d", i+1) }}
		if i != 1 {
			object.Namespace = "default"
		}
		plan.Add(p, object, effects)
	}
	for _, s := range plan.Steps() {
		fmt.Fprintf(&b, "> %s: %s (%s)\n", s.Action.Phase().ID(), s.Title(), s.Action.ID())
		fmt.Fprintf(&b, ">   CRDs %v, %d objects\n", s.CRDs, s.Objects)
		for _, c := range s.Commands {
			fmt.Fprintf(&b, ">   %s\n", c)
		}
		for _, g := range plan.Groups(s.Action) {
			fmt.Fprintf(&b, ">   - %s %s %s %s: %s, %d objects", g.CRD, g.Severity, g.Rule, g.Pattern, g.Message, g.Objects)
			for _, x := range g.Examples {
				fmt.Fprintf(&b, ", %s/%s %s (%s)", x.Namespace, x.Name, x.Path, x.Where)
			}
			b.WriteString("\n")
		}
	}
	if plan.Checked {
		fmt.Fprintf(&b, "> %d of %d objects are affected\n", plan.Affected, plan.Objects)
	}
	return b.String()
}

// TestPlans plans the upgrades in testdata/plans.txt, and expects the results there, after >. A case
// starts with a line "# name". The lines old and new have fields of the specs of the CRDs; stored, served
// and manifest are objects in these forms. The results in the kubernetes semantics follow if they differ.
func TestPlans(t *testing.T) {
	t.Parallel()
	const file = "testdata/plans.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var old, new string
		var objects [][2]string
		for line := range strings.Lines(block + "\n") {
			if strings.HasPrefix(line, ">") {
				continue
			}
			got.WriteString(line)
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), ": "); name {
			case "old":
				old = value
			case "new":
				new = value
			case "stored", "served", "manifest":
				objects = append(objects, [2]string{name, value})
			}
		}
		kep := planned(t, installed(t, old), installed(t, new), objects, schema.KEP)
		got.WriteString(kep)
		if kubernetes := planned(t, installed(t, old), installed(t, new), objects, schema.Kubernetes); kubernetes != kep {
			got.WriteString("> in kubernetes:\n" + kubernetes)
		}
		got.WriteString("\n")
	}
	testcase.Golden(t, file, got.String(), *update)
}

// TestEdits checks that there are commands for a limited number of objects.
func TestEdits(t *testing.T) {
	t.Parallel()
	one := func(k string) *api.CustomResourceDefinition {
		return installed(t, "{versions: [{name: v1, served: true, storage: true, x: {k: "+k+"}}]}")
	}
	p, err := upgrade.NewPair(t.Context(), one("{type: integer}"), one("{type: integer, maximum: 3}"), upgrade.Options{Rules: cel.Checker{}})
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{9: 9, 10: 10, 12: 10} {
		plan := upgrade.NewPlan(upgrade.PlanOptions{Examples: 50})
		for i := range n {
			effects, err := p.Judge(t.Context(), []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","namespace":"b"},"spec":{"k":7}}`), upgrade.Stored)
			if err != nil {
				t.Fatal(err)
			}
			plan.Add(p, audit.Object{Namespace: "b", Name: fmt.Sprintf("a%d", i)}, effects)
			plan.Add(p, audit.Object{Namespace: "b", Name: fmt.Sprintf("a%d", i)}, effects)
		}
		if steps := plan.Steps(); len(steps) != 1 || len(steps[0].Commands) != want {
			t.Errorf("%d objects: got %v", n, steps)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Judge(ctx, []byte(`{"apiVersion":"example.com/v1","kind":"Job","metadata":{"name":"a","namespace":"b"},"spec":{"k":7}}`), upgrade.Stored); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}
