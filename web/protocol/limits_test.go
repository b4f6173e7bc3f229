package protocol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"espalier.dev/web/protocol"
)

// TestLimits shows that small texts do not make large answers.
func TestLimits(t *testing.T) {
	e := engine()
	withDefault := func(value string) string {
		return strings.Replace(transitions, "b: {type: string, default: x}", "b: "+value, 1)
	}
	for name, r := range map[string]protocol.CheckRequest{
		"indentation": {CRDs: transitions, Objects: thing("{}") + "bar: {x: " + strings.Repeat("[", 8000) + strings.Repeat("1,", 20000) + strings.Repeat("]", 8000) + "}\n"},
		"default values": {CRDs: withDefault("{type: array, items: {type: integer}, default: [" + strings.Repeat("1,", 30000) + "]}"),
			Objects: thing("{list: [" + strings.Repeat("{},", 200) + "]}")},
		"empty containers": {Objects: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [" + strings.Repeat("{},", 1<<20) + "]}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := try[protocol.CheckAnswer](t, e, "check", r)
			if err == nil || err.Code != protocol.TooLarge {
				t.Errorf("%+v, %d objects, %+v", err, len(a.Objects), a.CRDs)
			}
		})
	}
	t.Run("default text", func(t *testing.T) {
		a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: withDefault("{type: string, default: " + strings.Repeat("x", 1<<20) + "}"),
			Objects: thing("{list: [" + strings.Repeat("{},", 200) + "]}")})
		if o := a.Objects[0]; o.Verdict != protocol.Rejected || len(o.Findings) != 1 || !strings.Contains(o.Findings[0].Message, "the defaults of the object have more than") {
			t.Errorf("%+.300v", o)
		}
	})
	t.Run("view", func(t *testing.T) {
		object := thing("{}") + "bar: {in: " + strings.Repeat("[", 5000) + strings.Repeat("1,", 500) + strings.Repeat("]", 5000) + "}\n"
		a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: strings.ReplaceAll(transitions, "type: object\n                x-kubernetes", "x-kubernetes"), Objects: object})
		size := 0
		for _, l := range a.Objects[0].Lines {
			size += len(l.Text)
		}
		if len(a.Objects[0].Lines) < 500 || size > 1<<19 {
			t.Errorf("%d lines, %d bytes", len(a.Objects[0].Lines), size)
		}
	})
	t.Run("lines", func(t *testing.T) {
		a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: thing("{}") + "bar: {x: [" + strings.Repeat("1,", 30000) + "]}\n"})
		if o := a.Objects[0]; len(o.Lines) != 20000 || len(o.General) != 1 || o.General[0].Rule != "too-large" {
			t.Errorf("%d lines, %+v", len(o.Lines), o.General)
		}
	})
}

func TestManyCRDs(t *testing.T) {
	e := engine()
	var crds strings.Builder
	for i := range 250 {
		crds.WriteString(strings.NewReplacer("things", fmt.Sprintf("things%d", i), "Thing", fmt.Sprintf("Thing%d", i)).Replace(transitions) + "---\n")
	}
	a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: crds.String(), Objects: strings.Replace(thing("{size: 1}"), "Thing", "Thing249", 1)})
	if len(a.CRDs) > 0 || a.Objects[0].Verdict != protocol.Accepted {
		t.Errorf("%+v", a)
	}
	many := strings.Repeat("apiVersion: v1\nkind: A\n---\n", 5001)
	for _, request := range []string{"check", "lint"} {
		a := ask[struct{ CRDs, Problems []protocol.Finding }](t, e, request, map[string]any{"crds": many})
		if !slices.ContainsFunc(append(a.CRDs, a.Problems...), func(f protocol.Finding) bool { return f.Rule == "too-many" }) {
			t.Errorf("%s says nothing about the CRDs that are left out", request)
		}
	}
	t.Run("exactly as many objects as are read", func(t *testing.T) {
		if a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{Objects: strings.Repeat("apiVersion: v1\nkind: A\n---\n", 200)}); a.More || len(a.Objects) != 200 {
			t.Errorf("%d objects, more: %v", len(a.Objects), a.More)
		}
		if a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{Objects: strings.Repeat("apiVersion: v1\nkind: A\n---\n", 201)}); !a.More || len(a.Objects) != 200 {
			t.Errorf("%d objects, more: %v", len(a.Objects), a.More)
		}
	})
}

// TestLists shows that lists have the objects that they have for validate.
func TestLists(t *testing.T) {
	e := engine()
	typed := "apiVersion: example.com/v1\nkind: ThingList\nitems:\n- metadata: {name: a}\n  spec: {size: 1}\n"
	nested := func(depth int) string {
		return strings.Repeat(`{"apiVersion": "v1", "kind": "List", "items": [`, depth) + `{"apiVersion": "v1", "kind": "ConfigMap"}` + strings.Repeat("]}", depth)
	}
	for name, c := range map[string]struct {
		objects string
		kinds   []string
		problem string
	}{
		"items without a kind": {objects: typed, kinds: []string{"Thing"}},
		"no items":             {objects: "apiVersion: v1\nkind: List\n"},
		"a kind that ends so":  {objects: "apiVersion: example.com/v1\nkind: ThingList\nspec: {}\n", kinds: []string{"ThingList"}},
		"nested":               {objects: nested(16), kinds: []string{"ConfigMap"}},
		"nested too deeply":    {objects: nested(17), problem: "lists are nested more than 16 levels deep"},
	} {
		t.Run(name, func(t *testing.T) {
			a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: c.objects})
			var kinds, problems []string
			for _, o := range a.Objects {
				kinds = append(kinds, o.Kind)
			}
			for _, f := range a.Text {
				problems = append(problems, f.Message)
			}
			if !slices.Equal(kinds, c.kinds) || strings.Join(problems, " ") != c.problem {
				t.Errorf("%q, problems %q", kinds, problems)
			}
		})
	}
	many := ask[protocol.CompareAnswer](t, e, "compare", protocol.CompareRequest{Old: transitions, New: transitions, Objects: strings.Repeat(thing("{}")+"---\n", 201)})
	if many.Tried != 200 || !slices.ContainsFunc(many.Problems, func(f protocol.Finding) bool { return f.Message == "only the first 200 objects are tried: use fewer" }) {
		t.Errorf("tried %d, %+v", many.Tried, many.Problems)
	}
}

// TestTimeout shows that the page can tell a request that took too long from one that it has canceled.
func TestTimeout(t *testing.T) {
	e := engine()
	ended, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	request, err := json.Marshal(map[string]any{"crds": transitions})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"resources", "lint"} {
		if r := e.Answer(ended, name, request); r.Error == nil || r.Error.Code != protocol.Timeout {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCompareLimits compares CRDs with an object that their defaults make large.
func TestCompareLimits(t *testing.T) {
	large := strings.Replace(transitions, "b: {type: string, default: x}", "b: {type: array, items: {type: integer}, default: ["+strings.Repeat("1,", 30000)+"]}", 1)
	a := ask[protocol.CompareAnswer](t, engine(), "compare", protocol.CompareRequest{Old: transitions, New: large, Objects: thing("{list: [" + strings.Repeat("{},", 200) + "]}")})
	if a.Tried != 0 || !slices.ContainsFunc(a.Problems, func(f protocol.Finding) bool { return strings.Contains(f.Message, "values with its defaults") }) {
		t.Errorf("tried %d, %+v", a.Tried, a.Problems)
	}
}

// slowRules returns a CRD with rules that cost nearly as much as is allowed, and an object that makes
// them run.
func slowRules() (crd, object string) {
	rules := strings.Repeat("- {rule: 'self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + 1)))'}\n              ", 8)
	crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          list:
            type: array
            maxItems: 30
            items:
              type: object
              x-kubernetes-validations:
              ` + rules + `
              properties:
                a: {type: array, maxItems: 30, items: {type: integer, maximum: 0}}
`
	object = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nlist: [" + strings.Repeat("{a: ["+strings.Repeat("0,", 30)+"]},", 30) + "]\n---\n"
	return crd, object
}

// TestCanceled shows that requests that take long end soon after the page has canceled them.
func TestCanceled(t *testing.T) {
	e := engine()
	crd, object := slowRules()
	objects := strings.Repeat(object, 100)
	edits := make([]map[string]any, 3000)
	for i := range edits {
		edits[i] = map[string]any{"op": "set", "pointer": fmt.Sprintf("/spec/a%d", i), "value": i}
	}
	for name, request := range map[string]any{
		"check":   map[string]any{"crds": crd, "objects": objects},
		"compare": map[string]any{"old": crd, "new": strings.Replace(crd, "maximum: 0", "maximum: 1", 1), "objects": objects},
		"apply":   map[string]any{"text": "spec:\n" + strings.Repeat("  # a comment\n", 20000) + "  a: 1\n", "fix": map[string]any{"message": "x", "object": 0, "edits": edits}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan protocol.Response, 1)
			go func() { done <- e.Answer(ctx, name, text) }()
			select {
			case r := <-done:
				t.Fatalf("it does not take long: %+v", r.Error)
			case <-time.After(300 * time.Millisecond):
			}
			start := time.Now()
			cancel()
			if r := <-done; r.Error == nil || r.Error.Code != protocol.Canceled {
				t.Errorf("%+v", r.Error)
			}
			if took := time.Since(start); took > time.Second {
				t.Errorf("it ends %v after it was canceled", took)
			}
		})
	}
}

// TestApplyLimits shows that copies cannot double a text again and again.
func TestApplyLimits(t *testing.T) {
	var edits []map[string]any
	text := "apiVersion: v1\nkind: A\nl0:\n  v: " + strings.Repeat("x", 1000) + "\n"
	for i := range 25 {
		text += fmt.Sprintf("l%d:\n  v: 1\n", i+1)
		for _, name := range []string{"a", "b"} {
			edits = append(edits, map[string]any{"op": "copy", "pointer": fmt.Sprintf("/l%d", i), "to": fmt.Sprintf("/l%d/%s", i+1, name)})
		}
	}
	_, err := try[protocol.ApplyAnswer](t, engine(), "apply", map[string]any{"text": text, "fix": map[string]any{"message": "x", "object": 0, "edits": edits}})
	if err == nil {
		t.Error("the copies are made")
	} else if !strings.Contains(err.Message, "bytes") {
		t.Errorf("%+v", err)
	}
}
