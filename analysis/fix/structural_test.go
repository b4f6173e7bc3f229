package fix

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"espalier.dev/api"
	"espalier.dev/internal/jsonx"
	"espalier.dev/schema"
)

func bothSemantics() []schema.Semantics { return []schema.Semantics{schema.KEP, schema.Kubernetes} }

// rewrite returns the structural form of s.
func rewrite(s node, sem schema.Semantics, keepAll bool) node {
	out := jsonx.CopyObject(s)
	r := &rewriter{sem: sem, keepAll: keepAll, note: func(noteKind, []string, string) {}}
	r.root(out, nil)
	return out
}

func props(t testing.TB, s node) *api.JSONSchemaProps {
	t.Helper()
	var out api.JSONSchemaProps
	if err := api.Unmarshal(marshal(t, s), &out); err != nil {
		t.Fatalf("%v\n%s", err, marshal(t, s))
	}
	return &out
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func program(t testing.TB, s node, opts ...schema.Option) *schema.Program {
	t.Helper()
	structural, err := schema.NewStructural(props(t, s))
	if err != nil {
		t.Fatalf("%v\n%s", err, marshal(t, s))
	}
	p, err := schema.Compile(structural, append(opts, schema.WithoutRules())...)
	if err != nil {
		t.Fatalf("%v\n%s", err, marshal(t, s))
	}
	return p
}

func rejected(t testing.TB, s node, sem schema.Semantics) (out []string) {
	t.Helper()
	structural, err := schema.NewStructural(props(t, s))
	if err != nil {
		return []string{err.Error()}
	}
	for _, f := range schema.Check(structural, sem) {
		if f.Refused {
			out = append(out, f.String())
		}
	}
	return out
}

func accepts(p *schema.Program, obj map[string]any) bool {
	return len(p.Validate(context.Background(), obj, nil)) == 0
}

// TestRandomSchemas rewrites non-structural schemas and compares how both versions treat
// objects.
func TestRandomSchemas(t *testing.T) {
	t.Run("K-07", func(t *testing.T) {
		accepted, kept, pruned := 0, 0, 0
		schemas, enough := int64(600), 2000
		if testing.Short() {
			schemas, enough = 150, 500
		}
		seeds := []int64{106927} // regressions
		for seed := range schemas {
			seeds = append(seeds, seed)
		}
		for _, seed := range seeds {
			r := random{rand.New(rand.NewSource(seed))}
			old := r.schema(3, false)
			old["type"] = "object"
			delete(old, "nullable")
			for _, sem := range bothSemantics() {
				a, k, p := checkRewritten(t, r, seed, old, sem)
				accepted, kept, pruned = accepted+a, kept+k, pruned+p
			}
			if t.Failed() {
				return
			}
		}
		t.Logf("%d objects accepted by the old schemas, %d of them whole under the new ones that prune, %d cut", accepted, kept, pruned)
		if accepted < 2*enough || pruned < enough {
			t.Error("too few objects to prove anything")
		}
	})
}

func checkRewritten(t *testing.T, r random, seed int64, old node, sem schema.Semantics) (accepted, whole, cut int) {
	t.Helper()
	before := program(t, old, schema.WithSemantics(sem), schema.WithPreserveUnknownFields())
	keeping := rewrite(old, sem, true)
	pruning := rewrite(old, sem, false)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d, %v: %s\nold %s\nnew %s\nnew that prunes %s", seed, sem, fmt.Sprintf(format, args...),
			marshal(t, old), marshal(t, keeping), marshal(t, pruning))
	}
	for _, s := range []node{keeping, pruning} {
		if bad := rejected(t, s, sem); len(bad) > 0 {
			fail("not structural: %v", bad)
			return
		}
	}
	for _, s := range []node{keeping, pruning} {
		if again := rewrite(s, sem, false); !reflect.DeepEqual(again, s) {
			fail("not idempotent: %s", marshal(t, again))
		}
	}
	after := program(t, keeping, schema.WithSemantics(sem))
	afterPruning := program(t, pruning, schema.WithSemantics(sem))
	skeleton := schema.Skeleton(props(t, old))
	conflicts := schema.PruneConflicts(props(t, old))
	for i := range 20 {
		obj, ok := r.of(old, 3).(map[string]any)
		if !ok || i%4 == 0 {
			obj = r.object(3)
		}
		if accepts(before, obj) {
			accepted++
			if !accepts(afterPruning, obj) {
				fail("%s is no longer accepted by the schema that prunes: %v", marshal(t, obj), afterPruning.Validate(context.Background(), obj, nil))
				return
			}
			out := jsonx.CopyObject(obj)
			if _, err := after.Normalize(out, schema.DecodeOptions{}); err != nil {
				fail("%s is no longer accepted: %v", marshal(t, obj), err)
				return
			}
			if !reflect.DeepEqual(out, obj) {
				fail("%s became %s", marshal(t, obj), marshal(t, out))
				return
			}
			if !accepts(after, out) {
				fail("%s is no longer accepted: %v", marshal(t, obj), after.Validate(context.Background(), out, nil))
				return
			}
		}
		if len(conflicts) > 0 || !accepts(afterPruning, obj) {
			continue // pruning is undefined, or the pruned object is rejected
		}
		out := jsonx.CopyObject(obj)
		if _, err := afterPruning.Normalize(out, schema.DecodeOptions{}); err != nil {
			fail("%s is rejected: %v", marshal(t, obj), err)
			return
		}
		want := pruneBySkeleton(jsonx.Copy(obj), skeleton)
		if lost := missing(want, out); lost != "" {
			fail("%s lost %s: %s", marshal(t, obj), lost, marshal(t, out))
			return
		}
		if reflect.DeepEqual(out, obj) {
			whole++
		} else {
			cut++
		}
	}
	return accepted, whole, cut
}

// TestRandomDraft4 does the same with draft-4 schemas.
func TestRandomDraft4(t *testing.T) {
	t.Run("K-07", func(t *testing.T) {
		accepted, seeds, enough := 0, int64(600), 2000
		if testing.Short() {
			seeds, enough = 150, 500
		}
		for seed := range seeds {
			r := random{rand.New(rand.NewSource(seed))}
			old := r.draft4(3)
			before, err := schema.CompileJSONSchema(props(t, old))
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, marshal(t, old))
			}
			whole := inlined(old)
			for _, sem := range bothSemantics() {
				new := rewrite(whole, sem, true)
				if bad := rejected(t, new, sem); len(bad) > 0 {
					t.Fatalf("seed %d, %v: not structural: %v\n%s", seed, sem, bad, marshal(t, new))
				}
				after := program(t, new, schema.WithSemantics(sem))
				for i := range 10 {
					obj, ok := r.of(whole, 3).(map[string]any)
					if !ok || i%4 == 0 {
						obj = r.object(3)
					}
					if !accepts(before, obj) {
						continue
					}
					accepted++
					out := jsonx.CopyObject(obj)
					if _, err := after.Normalize(out, schema.DecodeOptions{}); err != nil || !reflect.DeepEqual(out, obj) || !accepts(after, out) {
						t.Fatalf("seed %d, %v: %s became %s: %v, %v\nold %s\nnew %s", seed, sem, marshal(t, obj), marshal(t, out), err,
							after.Validate(context.Background(), out, nil), marshal(t, old), marshal(t, new))
					}
				}
			}
		}
		if accepted < enough {
			t.Errorf("%d objects are too few to prove anything", accepted)
		}
	})
}

// pruneBySkeleton removes unspecified fields, as the pruning proposal of 2018 does.
func pruneBySkeleton(v any, s *api.JSONSchemaProps) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			f, ok := s.Properties[name]
			switch {
			case ok:
				v[name] = pruneBySkeleton(value, &f)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				v[name] = pruneBySkeleton(value, s.AdditionalProperties.Schema)
			case s.AdditionalProperties != nil:
				v[name] = pruneBySkeleton(value, &api.JSONSchemaProps{})
			default:
				delete(v, name)
			}
		}
	case []any:
		items := &api.JSONSchemaProps{}
		if s.Items != nil && s.Items.Schema != nil {
			items = s.Items.Schema
		}
		for i := range v {
			v[i] = pruneBySkeleton(v[i], items)
		}
	}
	return v
}

// missing returns the path of a value that want has and got lacks. Nulls may be missing:
// fields that are not nullable drop them.
func missing(want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for name, v := range want {
			if v == nil {
				continue
			}
			if _, ok := got[name]; !ok {
				return name
			}
			if lost := missing(v, got[name]); lost != "" {
				return name + "." + lost
			}
		}
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			return "[]"
		}
		for i := range want {
			if lost := missing(want[i], got[i]); lost != "" {
				return "[]." + lost
			}
		}
	}
	return ""
}

func parseSchema(t testing.TB, text string) node {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var s node
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
