package impact_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/impact"
	"espalier.dev/api"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/cel"
	"espalier.dev/schema"
)

var seed = flag.Uint64("seed", 1, "seed of the random schemas and objects")

// definition makes a definition of the schema of spec-like fields at the root.
func definition(t *testing.T, root tree, preserve bool) *api.CustomResourceDefinition {
	t.Helper()
	text, err := json.Marshal(tree{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": tree{"name": "things.example.com"},
		"spec": tree{
			"group": "example.com", "scope": "Namespaced", "names": tree{"plural": "things", "kind": "Thing"},
			"preserveUnknownFields": preserve,
			"versions":              []any{tree{"name": "v1", "served": true, "storage": true, "schema": tree{"openAPIV3Schema": root}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := codec.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// accepted says whether a server would take the definition.
func accepted(ctx context.Context, d *api.CustomResourceDefinition, o crd.Options) bool {
	d = d.DeepCopy()
	d.Spec.PreserveUnknownFields = false
	crd.PrepareCreate(d)
	return len(crd.ValidateCreate(ctx, d, o).Errors) == 0
}

// root is a schema of whole objects.
func (g *generator) root() tree {
	for {
		s := g.schema(3)
		if s["type"] != "object" || s["additionalProperties"] != nil || s["x-kubernetes-embedded-resource"] != nil {
			continue
		}
		delete(s, "nullable")
		delete(s, "default")
		delete(s, "enum")
		return s
	}
}

// TestSound is the promise of the package: whatever the programs show to happen to an
// object, some change says so, at or above the place where it happens.
func TestSound(t *testing.T) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		for _, withRules := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/rules=%t", sem, withRules), func(t *testing.T) {
				pairs := 600
				if withRules {
					pairs = 100
				}
				testSound(t, sem, withRules, pairs, *seed)
			})
		}
	}
}

func testSound(t *testing.T, sem schema.Semantics, withRules bool, pairs int, seed uint64) {
	g := &generator{rand.New(rand.NewPCG(seed, 2)), withRules, sem == schema.KEP}
	o := impact.Options{Semantics: sem}
	if withRules {
		o.Rules = cel.Checker{}
	}
	co := crd.Options{Semantics: sem, Rules: o.Rules, IgnoreRules: !withRules}
	ctx := t.Context()
	seen := map[impact.Class]int{}
	kinds := map[string]int{}
	tried := 0
	for compared := 0; compared < pairs; {
		before := g.root()
		after := clone(before)
		for range 1 + g.IntN(3) {
			g.mutate(after)
		}
		before = clone(before)
		old, new := definition(t, before, g.chance(10)), definition(t, after, g.chance(10))
		if !accepted(ctx, old, co) || !accepted(ctx, new, co) {
			continue
		}
		compared++
		comparison, err := impact.Compare(ctx, old, new, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range comparison.Changes {
			kinds[comparison.Changes[i].Kind]++
		}
		for range 40 {
			obj, ok := g.object(before).(tree)
			if !ok {
				continue
			}
			obj["apiVersion"], obj["kind"], obj["metadata"] = "example.com/v1", "Thing", tree{"name": "x", "namespace": "y"}
			text, err := json.Marshal(obj)
			if err != nil {
				t.Fatal(err)
			}
			outcome, err := comparison.Try(ctx, text)
			if err != nil || outcome.WasInvalid {
				continue
			}
			tried++
			for _, x := range outcome.Observations {
				seen[x.Class]++
				if len(comparison.Announcing(x)) == 0 && !arrayForString(comparison.Changes, x) {
					report(t, before, after, old, new, text, comparison, x)
					return
				}
			}
		}
	}
	t.Logf("%d objects, observations: %v, changes: %v", tried, seen, kinds)
	for _, class := range []impact.Class{impact.Loses, impact.Invalid, impact.Defaulted, impact.Clients} {
		if seen[class] < 3 && !withRules {
			t.Errorf("only %d observations of %q: the generator proves nothing", seen[class], class)
		}
	}
}

// arrayForString is the one thing that the package passes over on purpose.
func arrayForString(changes []impact.Change, x impact.Observation) bool {
	return x.Class == impact.Invalid && strings.HasSuffix(x.Detail, `must be of type string: "array"`) &&
		slices.ContainsFunc(changes, func(c impact.Change) bool {
			return c.Kind == "format" && (&impact.Effect{Path: c.Path}).Covers(x.Path)
		})
}

func report(t *testing.T, before, after tree, old, new *api.CustomResourceDefinition, object []byte, c *impact.Comparison, x impact.Observation) {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	t.Errorf("nothing announces %q at %q (%s)\nold (preserveUnknownFields %t): %s\nnew (preserveUnknownFields %t): %s\nobject: %s",
		x.Class, x.Path, x.Detail, old.Spec.PreserveUnknownFields, text(before), new.Spec.PreserveUnknownFields, text(after), object)
	for _, ch := range c.Changes {
		t.Logf("%s %s: %s", ch.Kind, ch.Place(), ch.Message)
		for _, e := range ch.Effects {
			t.Logf("  %s at %q: %s", e.Class, impact.FieldPath(e.Path), e.Reason)
		}
	}
}
