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

// definition returns a CRD with the given root schema. In v1beta1, preserveUnknownFields is
// true by default.
func definition(t *testing.T, root tree, preserve, beta bool) *api.CustomResourceDefinition {
	t.Helper()
	spec := tree{"group": "example.com", "scope": "Namespaced", "names": tree{"plural": "things", "kind": "Thing"}}
	apiVersion := "apiextensions.k8s.io/v1"
	if beta {
		apiVersion = "apiextensions.k8s.io/v1beta1"
		spec["version"], spec["validation"] = "v1", tree{"openAPIV3Schema": root}
	} else {
		spec["versions"] = []any{tree{"name": "v1", "served": true, "storage": true, "schema": tree{"openAPIV3Schema": root}}}
	}
	if preserve != beta {
		spec["preserveUnknownFields"] = preserve
	}
	text, err := json.Marshal(tree{"apiVersion": apiVersion, "kind": "CustomResourceDefinition", "metadata": tree{"name": "things.example.com"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	out, err := codec.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	if out.Spec.PreserveUnknownFields != preserve {
		t.Fatalf("preserveUnknownFields is %t", !preserve)
	}
	return out
}

// pair returns a CRD before and after a change of its schema. Many of the CRDs preserve
// unknown fields, and some of these begin to prune.
func (g *generator) pair(t *testing.T, before, after tree) (old, new *api.CustomResourceDefinition) {
	t.Helper()
	preserved := g.chance(30)
	preserves := preserved && g.chance(60) || g.chance(10)
	wasBeta := g.chance(30)
	isBeta := wasBeta && g.chance(60)
	return definition(t, before, preserved, wasBeta), definition(t, after, preserves, isBeta)
}

// accepted reports whether the API server would accept the CRD.
func accepted(ctx context.Context, d *api.CustomResourceDefinition, o crd.Options) bool {
	d = d.DeepCopy()
	d.Spec.PreserveUnknownFields = false
	crd.PrepareCreate(d)
	return len(crd.ValidateCreate(ctx, d, o).Errors) == 0
}

// root returns a schema of whole objects.
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

// TestSound checks the guarantee of the package: for every effect on an object, some change
// predicts it, at or above the place where it happens.
func TestSound(t *testing.T) {
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		for _, withRules := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/rules=%t", sem, withRules), func(t *testing.T) {
				pairs := 600
				if withRules {
					pairs = 100
				}
				few := 3
				if testing.Short() {
					pairs, few = pairs/2, 1
				}
				testSound(t, sem, withRules, pairs, few, *seed)
			})
		}
	}
}

func testSound(t *testing.T, sem schema.Semantics, withRules bool, pairs, few int, seed uint64) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2)), rules: withRules, unions: sem == schema.KEP}
	o := impact.Options{Semantics: sem}
	if withRules {
		o.Rules = cel.Checker{}
	}
	co := crd.Options{Semantics: sem, Rules: o.Rules, IgnoreRules: !withRules}
	ctx := t.Context()
	seen := map[impact.Class]int{}
	kinds := map[string]int{}
	tried, rejected, switched := 0, 0, 0
	for compared := 0; compared < pairs; {
		before := g.root()
		after := clone(before)
		for range 1 + g.IntN(3) {
			g.mutate(after)
		}
		before = clone(before)
		old, new := g.pair(t, before, after)
		if !accepted(ctx, old, co) || !accepted(ctx, new, co) {
			continue
		}
		compared++
		comparison, err := impact.Compare(ctx, old, new, o)
		if err != nil {
			t.Fatal(err)
		}
		was, is := program(t, old, co), program(t, new, co)
		for i := range comparison.Changes {
			kinds[comparison.Changes[i].Kind]++
		}
		switched += switches(old, new)
		if x := impossible(comparison, new); x != nil {
			report(t, before, after, old, new, nil, comparison, *x)
			return
		}
		g.preserve = old.Spec.PreserveUnknownFields
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
			for _, x := range written(t, was, is, text) {
				rejected++
				if len(comparison.Announcing(x)) == 0 && !arrayForString(comparison.Changes, x) {
					report(t, before, after, old, new, text, comparison, x)
					return
				}
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
	t.Logf("%d objects, observations: %v, %d of writers, changes: %v", tried, seen, rejected, kinds)
	if switched < few {
		t.Errorf("only %d CRDs begin to prune: the generator proves nothing", switched)
	}
	if rejected < few {
		t.Errorf("only %d observations of writers: the generator proves nothing", rejected)
	}
	for _, class := range []impact.Class{impact.Loses, impact.Invalid, impact.Defaulted, impact.Clients} {
		if seen[class] < few && !withRules {
			t.Errorf("only %d observations of %q: the generator proves nothing", seen[class], class)
		}
	}
}

// switches returns 1 if objects are pruned that were not, else 0.
func switches(old, new *api.CustomResourceDefinition) int {
	if old.Spec.PreserveUnknownFields && !new.Spec.PreserveUnknownFields {
		return 1
	}
	return 0
}

// impossible returns an effect that cannot happen: a CRD that preserves unknown fields keeps
// the nulls, too. It prunes only the metadata of embedded resources.
func impossible(c *impact.Comparison, new *api.CustomResourceDefinition) *impact.Observation {
	if !new.Spec.PreserveUnknownFields {
		return nil
	}
	for i := range c.Changes {
		ch := &c.Changes[i]
		for _, e := range ch.Effects {
			if e.Class == impact.Loses && ch.Kind != "embedded-resource" {
				return &impact.Observation{Class: impact.Loses, Detail: "false verdict on " + ch.Kind + " at " + impact.FieldPath(ch.Path)}
			}
		}
	}
	return nil
}

func program(t *testing.T, d *api.CustomResourceDefinition, o crd.Options) *crd.Version {
	t.Helper()
	definition, err := crd.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return definition.Version("v1")
}

// written returns the effects on clients that write an object as it is, including its nulls,
// and got no error before: it is rejected now, or a null that became a default is kept. It
// ignores fields that are unknown to the old CRD.
func written(t *testing.T, was, is *crd.Version, text []byte) (seen []impact.Observation) {
	t.Helper()
	read := func(v *crd.Version) (schema.Object, *schema.Report, schema.Violations) {
		p, err := v.Program()
		if err != nil {
			t.Fatal(err)
		}
		obj, report, err := p.Decode(text, schema.DecodeOptions{Report: true})
		if err != nil {
			return nil, nil, nil
		}
		vs, err := v.Validate(t.Context(), obj, nil)
		if err != nil {
			t.Fatal(err)
		}
		return obj, report, vs
	}
	before, done, vs := read(was)
	if before == nil || len(vs) > 0 || slices.ContainsFunc(done.Changes, func(c schema.Change) bool { return c.Kind == schema.Pruned }) {
		return nil
	}
	after, _, vs := read(is)
	if after == nil {
		return nil
	}
	for i := range vs {
		if vs[i].Kind != schema.RulesSkipped {
			seen = append(seen, impact.Observation{Class: impact.Clients, Path: vs[i].Path, Detail: vs[i].String(), Broken: vs[i].Kind})
		}
	}
	for _, c := range done.Changes {
		if v, found := value(after, c.Path); c.Kind == schema.Defaulted && found && v == nil {
			if v, _ := value(before, c.Path); v != nil {
				seen = append(seen, impact.Observation{Class: impact.Clients, Path: c.Path, Detail: "null no longer becomes the default"})
			}
		}
	}
	return seen
}

// value returns the value at a path.
func value(v any, p schema.Path) (any, bool) {
	for _, s := range p {
		switch x := v.(type) {
		case map[string]any:
			var found bool
			if v, found = x[s.Key]; !found {
				return nil, false
			}
		case []any:
			if s.Index >= len(x) {
				return nil, false
			}
			v = x[s.Index]
		default:
			return nil, false
		}
	}
	return v, true
}

// arrayForString reports whether an observation is the one case that the package ignores.
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
	t.Errorf("wrong verdict on %q at %q (%s)\nold (preserveUnknownFields %t): %s\nnew (preserveUnknownFields %t): %s\nobject: %s",
		x.Class, x.Path, x.Detail, old.Spec.PreserveUnknownFields, text(before), new.Spec.PreserveUnknownFields, text(after), object)
	for _, ch := range c.Changes {
		t.Logf("%s %s: %s", ch.Kind, ch.Place(), ch.Message)
		for _, e := range ch.Effects {
			t.Logf("  %s at %q: %s", e.Class, impact.FieldPath(e.Path), e.Reason)
		}
	}
}
