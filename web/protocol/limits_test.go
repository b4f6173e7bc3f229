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
		"default text": {CRDs: withDefault("{type: string, default: " + strings.Repeat("x", 1<<20) + "}"), Objects: thing("{list: [" + strings.Repeat("{},", 200) + "]}")},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := try[protocol.CheckAnswer](t, e, "check", r)
			if err == nil || err.Code != protocol.TooLarge {
				t.Errorf("%+v, %d objects, %+v", err, len(a.Objects), a.CRDs)
			}
		})
	}
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
