package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"espalier.dev/internal/jsonx"
)

func TestCursor(t *testing.T) {
	const (
		items  = "[]"
		values = "*"
	)
	s := mustStructural(t, `{
	  "type": "object",
	  "properties": {
	    "metadata": {"type": "object"},
	    "spec": {
	      "type": "object",
	      "properties": {
	        "plain": {"type": "object", "properties": {"a": {"type": "string"}, "metadata": {"type": "object"}}},
	        "open": {
	          "type": "object", "x-kubernetes-preserve-unknown-fields": true,
	          "properties": {
	            "fields": {"type": "object", "properties": {"a": {"type": "object"}}},
	            "bare": {"type": "object"},
	            "again": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
	            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
	            "map": {"type": "object", "additionalProperties": true},
	            "closed": {"type": "object", "additionalProperties": false}
	          }
	        },
	        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}
	      }
	    }
	  }
	}`)
	on, paused, off, meta := PruningOn, PruningPaused, PruningOff, PruningMetadata
	for _, tt := range []struct {
		path            string
		kep, kubernetes Pruning // inside of the value
		unspecified     bool
	}{
		{path: "", kep: on, kubernetes: on},
		{path: "kind", kep: meta, kubernetes: meta, unspecified: true},
		{path: "metadata", kep: meta, kubernetes: meta},
		{path: "metadata labels x", kep: meta, kubernetes: meta, unspecified: true},
		{path: "spec", kep: on, kubernetes: on},
		{path: "spec plain", kep: on, kubernetes: on},
		{path: "spec plain []", kep: on, kubernetes: on, unspecified: true},
		{path: "spec plain metadata", kep: on, kubernetes: on},
		{path: "spec open bare []", kep: off, kubernetes: on, unspecified: true},
		{path: "spec open", kep: paused, kubernetes: paused},
		{path: "spec open unknown", kep: off, kubernetes: off, unspecified: true},
		{path: "spec open unknown [] x", kep: off, kubernetes: off, unspecified: true},
		{path: "spec open fields", kep: on, kubernetes: on},
		{path: "spec open fields a", kep: on, kubernetes: on},
		{path: "spec open bare", kep: paused, kubernetes: on},
		{path: "spec open again", kep: paused, kubernetes: paused},
		{path: "spec open list", kep: paused, kubernetes: on},
		{path: "spec open list []", kep: on, kubernetes: on},
		{path: "spec open map", kep: on, kubernetes: on},
		{path: "spec open map *", kep: on, kubernetes: on, unspecified: true},
		{path: "spec open closed *", kep: on, kubernetes: on, unspecified: true},
		{path: "spec pod", kep: paused, kubernetes: paused},
		{path: "spec pod metadata", kep: meta, kubernetes: meta, unspecified: true},
		{path: "spec pod spec", kep: off, kubernetes: off, unspecified: true},
	} {
		for sem, want := range map[Semantics]Pruning{KEP: tt.kep, Kubernetes: tt.kubernetes} {
			t.Run(fmt.Sprintf("%v/%s", sem, tt.path), func(t *testing.T) {
				c := NewCursor(s, sem, PruningOn)
				all := NewCursor(s, sem, PruningOff)
				for _, step := range strings.Fields(tt.path) {
					kept := true
					switch step {
					case items:
						c, all = c.Items(), all.Items()
					case values:
						c, kept = c.MapValue()
						all, _ = all.MapValue()
					default:
						c, kept = c.Field(step)
						all, _ = all.Field(step)
					}
					if !kept {
						t.Fatalf("%s is pruned", step)
					}
				}
				if c.Pruning() != want || c.Prunes() != (want == on) || c.InMetadata() != (want == meta) {
					t.Errorf("pruning is %v, want %v", c.Pruning(), want)
				}
				if (c.Schema() == nil) != tt.unspecified {
					t.Errorf("schema is %v", c.Schema())
				}
				if c.IsResource() != (tt.path == "" || tt.path == "spec pod") {
					t.Errorf("is a resource: %v", c.IsResource())
				}
				if want != meta && all.Pruning() != off || want == meta && all.Pruning() != meta {
					t.Errorf("with preserveUnknownFields, pruning is %v", all.Pruning())
				}
			})
		}
	}
	for _, path := range []string{"unknown", "spec unknown", "spec plain b", "spec open fields b", "spec open map * a"} {
		steps := strings.Fields(path)
		c, kept := NewCursor(s, KEP, PruningOn), true
		for _, step := range steps {
			if c, kept = c.Field(step); !kept && step != steps[len(steps)-1] {
				t.Fatalf("%s: %s is pruned", path, step)
			}
		}
		if kept {
			t.Errorf("%s is not pruned", path)
		}
	}
}

// TestCursorAgrees compares what a Cursor predicts with what Normalize, Decode and
// IsNormal do, for schemas and objects in which pruning stops and starts at random.
func TestCursorAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		s := genPruned(r, 4)
		s.Type = "object"
		obj := genFilled(r, s, 4).(map[string]any)
		for _, sem := range []Semantics{KEP, Kubernetes} {
			for _, pruning := range []Pruning{PruningOn, PruningOff} {
				opts := []Option{WithSemantics(sem)}
				if pruning == PruningOff {
					opts = append(opts, WithPreserveUnknownFields())
				}
				p := mustCompile(t, s, opts...)
				var want []string
				predict(NewCursor(s, sem, pruning), obj, nil, &want)
				slices.Sort(want)
				text, err := json.Marshal(obj)
				if err != nil {
					t.Fatal(err)
				}
				_, report, err := p.Decode(text, DecodeOptions{Report: true, FromStorage: true})
				if err != nil {
					t.Fatal(err)
				}
				decoded := prunedPaths(report)
				if report, err = p.Normalize(jsonx.Copy(obj).(map[string]any), DecodeOptions{Report: true, FromStorage: true}); err != nil {
					t.Fatal(err)
				}
				if normalized := prunedPaths(report); !slices.Equal(normalized, want) || !slices.Equal(decoded, want) {
					t.Fatalf("%v, %v\nschema %s\nobject %s\ncursor    %v\nnormalize %v\ndecode    %v",
						sem, pruning, writeSchema(t, s.ToJSONSchemaProps()), text, want, normalized, decoded)
				}
				if p.IsNormal(text) && len(want) > 0 {
					t.Fatalf("%v: IsNormal for %s, but %v is pruned", sem, text, want)
				}
			}
		}
	}
}

// predict appends the paths that are pruned from v.
func predict(c Cursor, v any, path Path, pruned *[]string) {
	if c.InMetadata() {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			sub := append(path.clone(), Step{Key: k})
			if at, kept := c.Field(k); kept {
				predict(at, x, sub, pruned)
			} else {
				*pruned = append(*pruned, sub.String())
			}
		}
	case []any:
		for i, x := range v {
			predict(c.Items(), x, append(path.clone(), Step{Index: i, Kind: Index}), pruned)
		}
	}
}

func prunedPaths(r *Report) (paths []string) {
	for _, c := range r.Changes {
		if c.Kind == Pruned {
			// A map key is written in another way than a field.
			path := c.Path.clone()
			for i := range path {
				if path[i].Kind == MapKey {
					path[i].Kind = Step{}.Kind
				}
			}
			paths = append(paths, path.String())
		}
	}
	slices.Sort(paths)
	return paths
}

var prunedNames = []string{"a", "b", "kind", "metadata"}

// genPruned makes a schema that is about nothing but pruning.
func genPruned(r *rand.Rand, depth int) *Structural {
	s := &Structural{}
	s.XPreserveUnknownFields = r.IntN(3) == 0
	if depth == 0 {
		return s
	}
	if r.IntN(3) == 0 {
		s.Items = genPruned(r, depth-1)
	}
	switch r.IntN(6) {
	case 0:
	case 1:
		s.AdditionalProperties = &StructuralOrBool{Bool: true, Structural: genPruned(r, depth-1)}
	case 2:
		s.AdditionalProperties = &StructuralOrBool{Bool: r.IntN(2) == 0}
	default:
		s.XEmbeddedResource = r.IntN(4) == 0
		s.Properties = map[string]*Structural{}
		for _, name := range prunedNames {
			if r.IntN(2) == 0 {
				s.Properties[name] = genPruned(r, depth-1)
			}
		}
	}
	return s
}

// genFilled makes an object or a list, whether s has such values or not.
func genFilled(r *rand.Rand, s *Structural, depth int) any {
	if depth == 0 {
		return "x"
	}
	if s.Type != "object" && r.IntN(3) == 0 {
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = genFilled(r, &Structural{}, depth-1)
		}
		return list
	}
	obj := map[string]any{"kind": "K"}
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(3) > 0 {
			obj[name] = genFilled(r, &Structural{}, depth-1)
		}
	}
	if r.IntN(3) == 0 {
		obj["metadata"] = map[string]any{"name": "n"}
	}
	return obj
}
