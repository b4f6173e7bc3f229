package protocol_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"espalier.dev/crd/cel"
	kindscel "espalier.dev/kinds/cel"
	"espalier.dev/web/protocol"
)

func engine() *protocol.Engine {
	return protocol.New(protocol.Options{Rules: cel.Checker{}, CEL: kindscel.New()})
}

// ask sends a request as the page does, in JSON.
func ask[Answer any](t *testing.T, e *protocol.Engine, name string, request any) Answer {
	t.Helper()
	answer, err := try[Answer](t, e, name, request)
	if err != nil {
		t.Fatalf("%s: %s: %s", name, err.Code, err.Message)
	}
	return answer
}

func try[Answer any](t *testing.T, e *protocol.Engine, name string, request any) (answer Answer, failed *protocol.Error) {
	t.Helper()
	src, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(e.Answer(context.Background(), name, src))
	if err != nil {
		t.Fatal(err)
	}
	var response struct {
		Answer Answer
		Error  *protocol.Error
	}
	if err := json.Unmarshal(text, &response); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return response.Answer, response.Error
}

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/crontab/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cut returns a range of a text as a browser does.
func cut(text string, r *protocol.Range) string {
	if r == nil {
		return ""
	}
	return string(utf16.Decode(utf16.Encode([]rune(text))[r.Start:r.End]))
}

// rendered returns the lines of a view with their marks.
func rendered(lines []protocol.Line) string {
	var b strings.Builder
	for _, l := range lines {
		mark := map[protocol.Mark]string{"": " ", protocol.Pruned: "-", protocol.Defaulted: "+", protocol.Added: "*"}[l.Mark]
		b.WriteString(mark + " " + l.Text)
		if l.Reason != "" {
			b.WriteString("  # " + l.Reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	crd, object := example(t, "crd.yaml"), example(t, "hourly.yaml")
	answer := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: crd, Objects: object})
	if len(answer.Objects) != 1 || answer.Objects[0].Verdict != protocol.Rejected {
		t.Fatalf("%+v", answer)
	}
	o := answer.Objects[0]
	var got []string
	for _, f := range o.Findings {
		got = append(got, f.Rule+" "+cut(object, f.Range)+" "+cut(crd, f.Schema.Range))
	}
	if want := []string{"validation/pattern 0 * * * schedule", "unknown-field replica spec"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if fixes := o.Findings[1].Fixes; len(fixes) == 0 || !strings.Contains(fixes[0].Message, "replicas") {
		t.Errorf("fixes: %+v", fixes)
	} else {
		a := ask[protocol.ApplyAnswer](t, engine(), "apply", protocol.ApplyRequest{Text: object, Fix: fixes[0]})
		if fixed := object[:a.Start] + a.Text + object[a.End:]; !strings.Contains(fixed, "  replicas: 3\n") {
			t.Errorf("fixed:\n%s", fixed)
		}
	}
	if got, want := rendered(o.Lines), `  apiVersion: example.com/v1
  kind: CronTab
  metadata:
    name: hourly
    namespace: default
  spec:
    schedule: 0 * * *
-   replica: 3  # pruned: not specified by the schema; did you mean "replicas"?
+   replicas: 1  # defaulted to 1
`; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if !strings.Contains(o.Stored, "replicas: 1") || strings.Contains(o.Stored, "replica: 3") {
		t.Errorf("stored:\n%s", o.Stored)
	}
}

const transitions = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
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
          spec:
            type: object
            x-kubernetes-validations:
            - rule: self.size >= oldSelf.size
              message: cannot shrink
            properties:
              size: {type: integer, maximum: 10}
              name: {type: string, maxLength: 3}
              list:
                type: array
                items:
                  type: object
                  properties:
                    a: {type: string}
                    b: {type: string, default: x}
                    c:
                      type: array
                      items: {type: array, items: {type: integer}}
          bar:
            x-kubernetes-preserve-unknown-fields: true
            type: object
            properties:
              in:
                type: object
                x-kubernetes-preserve-unknown-fields: true
`

func thing(spec string) string {
	return "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: a\nspec: " + spec + "\n"
}

func TestUpdate(t *testing.T) {
	e := engine()
	rules := func(old, object string) (protocol.CheckedObject, []string) {
		a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: object, Old: old})
		var rules []string
		for _, f := range a.Objects[0].Findings {
			rules = append(rules, f.Rule+": "+f.Message)
		}
		return a.Objects[0], rules
	}
	t.Run("ratcheting", func(t *testing.T) {
		if o, found := rules("", thing("{size: 1, name: toolong}")); o.Verdict != protocol.Rejected || o.Update {
			t.Errorf("%v %q", o.Verdict, found)
		}
		if o, found := rules(thing("{size: 1, name: toolong}"), thing("{size: 2, name: toolong}")); o.Verdict != protocol.Accepted || !o.Update ||
			!slices.Equal(found, []string{"ratcheted: Too long: may not be more than 3 bytes; tolerated in an update that does not change the value (ratcheting)"}) {
			t.Errorf("%v %q", o.Verdict, found)
		}
	})
	t.Run("transition", func(t *testing.T) {
		if o, found := rules(thing("{size: 5}"), thing("{size: 4}")); o.Verdict != protocol.Rejected || !strings.Contains(strings.Join(found, "\n"), "cannot shrink") {
			t.Errorf("%v %q", o.Verdict, found)
		}
	})
	t.Run("without rules", func(t *testing.T) {
		r := protocol.CheckRequest{CRDs: transitions, Objects: thing("{size: 4}"), Old: thing("{size: 5}")}
		o := ask[protocol.CheckAnswer](t, protocol.New(protocol.Options{}), "check", r).Objects[0]
		if o.Verdict != protocol.Accepted || !o.Unevaluated {
			t.Errorf("%v, unevaluated: %v", o.Verdict, o.Unevaluated)
		}
		r.CRDs = strings.ReplaceAll(transitions, "x-kubernetes-validations", "x-no-validations")
		if o := ask[protocol.CheckAnswer](t, protocol.New(protocol.Options{}), "check", r).Objects[0]; o.Unevaluated {
			t.Error("a CRD without rules has rules that are not evaluated")
		}
		if o, _ := rules("", thing("{size: 4}")); o.Unevaluated {
			t.Error("the complete engine evaluates no rules")
		}
	})
	t.Run("another object", func(t *testing.T) {
		if o, found := rules(strings.Replace(thing("{size: 5}"), "name: a", "name: b", 1), thing("{size: 4}")); o.Update ||
			!slices.ContainsFunc(found, func(s string) bool { return strings.HasPrefix(s, "no-old-object") }) {
			t.Errorf("%v %q", o.Update, found)
		}
	})
}

func TestView(t *testing.T) {
	object := "# ünïcödé 🌲\n" + thing(`
  size: 1
  "new\nline": x
  list:
  - a: one
    zzz: {deep: [1, 2]}
  - zzz: 1
    c: [[1, 2], [3]]
  - {}`)
	a := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: transitions, Objects: object})
	got := rendered(a.Objects[0].Lines)
	want := `  apiVersion: example.com/v1
  kind: Thing
  metadata:
    name: a
  spec:
    size: 1
-   "new\nline": x  # pruned: not specified by the schema
    list:
      - a: one
-       zzz:  # pruned: not specified by the schema
-         deep:
-           - 1
-           - 2
+       b: x  # defaulted to "x"
-     - zzz: 1  # pruned: not specified by the schema
        c:
          - - 1
            - 2
          - - 3
+       b: x  # defaulted to "x"
`
	if !strings.HasPrefix(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	for _, l := range a.Objects[0].Lines {
		if l.Mark == protocol.Pruned && l.Reason != "" && !strings.Contains(l.Text, strings.Trim(cut(object, l.Range), `"`)) {
			t.Errorf("%q is at %q", l.Text, cut(object, l.Range))
		}
	}
}

func TestBothSemantics(t *testing.T) {
	object := "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: a\nbar:\n  in:\n    x: 1\n  y: 2\n"
	crd := strings.Replace(transitions, "                x-kubernetes-preserve-unknown-fields: true\n", "", 1)
	a := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: crd, Objects: object, Both: true})
	o := a.Objects[0]
	if o.Other == nil || !strings.Contains(o.Stored, "x: 1") || strings.Contains(o.Other.Stored, "x: 1") || o.Other.Semantics.String() != "kubernetes" {
		t.Errorf("kep:\n%s\nkubernetes: %+v", o.Stored, o.Other)
	}
	if got := rendered(o.Other.Lines); !strings.Contains(got, "    in:\n-     x: 1  # pruned") {
		t.Errorf("got:\n%s", got)
	}
	same := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: transitions, Objects: thing("{size: 1}"), Both: true})
	if same.Objects[0].Other != nil {
		t.Errorf("differs: %+v", same.Objects[0].Other)
	}
}

func TestBuiltIn(t *testing.T) {
	object := "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec:\n  ports: [{port: 70000}]\n  tpye: ClusterIP\n"
	a := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{Objects: object})
	o := a.Objects[0]
	if !o.BuiltIn || o.Verdict != protocol.Rejected || !strings.Contains(rendered(o.Lines), "-   tpye: ClusterIP") {
		t.Errorf("%+v\n%s", o.Findings, rendered(o.Lines))
	}
	if i := slices.IndexFunc(o.Findings, func(f protocol.Finding) bool { return f.Rule == "unknown-field" }); i < 0 || len(o.Findings[i].Fixes) == 0 {
		t.Errorf("no fix: %+v", o.Findings)
	}
}

// TestMissing checks what the page says about objects without a CRD, which it has no flags for.
func TestMissing(t *testing.T) {
	for object, want := range map[string]string{
		thing("{}"): "no CRD found for example.com/v1 Thing: add it to the CRDs (the CRDs of its group define CronTab)",
		"apiVersion: other.example.com/v1\nkind: Other\nmetadata: {name: a}\n": "no CRD found for other.example.com/v1 Other: add it to the CRDs",
		"apiVersion: example.com/v9\nkind: CronTab\nmetadata: {name: a}\n":     `version "v9" of CronTab is not served: its CRD serves v1`,
	} {
		a := ask[protocol.CheckAnswer](t, engine(), "check", protocol.CheckRequest{CRDs: example(t, "crd.yaml"), Objects: object})
		o := a.Objects[0]
		if o.Verdict != protocol.Unknown || len(o.Findings) != 1 || o.Findings[0].Message != want {
			t.Errorf("%s: %+v", o.Verdict, o.Findings)
		}
	}
}

// TestLedger shows that the page has the skeleton of any CRD.
func TestLedger(t *testing.T) {
	t.Run("K-06", func(t *testing.T) {
		e := engine()
		for _, file := range []string{"crd.yaml", "crd-v1beta1.yaml"} {
			for _, sem := range []string{"kep", "kubernetes"} {
				r := map[string]any{"crds": example(t, file), "form": "skeleton", "semantics": sem}
				if a := ask[protocol.TextAnswer](t, e, "form", r); !strings.Contains(a.Text, "schedule:") || strings.Contains(a.Text, "pattern:") {
					t.Errorf("%s %s:\n%s", file, sem, a.Text)
				}
			}
		}
	})
}

// fieldsAnswer is a part of a FieldsAnswer, which is not made to be read in Go.
type fieldsAnswer struct {
	Field struct {
		Type   string
		Fields []struct{ Name string }
	}
	Costs []protocol.RuleCost
	Range *protocol.Range
}

func TestExplore(t *testing.T) {
	e, crd := engine(), example(t, "crd.yaml")
	in := protocol.VersionRequest{CRDs: crd}
	resources := ask[protocol.ResourcesAnswer](t, e, "resources", protocol.ResourcesRequest{CRDs: crd})
	if r := resources.Resources; len(r) != 1 || r[0].Kind != "CronTab" || !r[0].Versions[0].Storage || cut(crd, r[0].Range) != "name" {
		t.Errorf("%+v", resources)
	}
	f := ask[fieldsAnswer](t, e, "fields", protocol.FieldsRequest{VersionRequest: in, Path: "spec"})
	if len(f.Field.Fields) != 2 || cut(crd, f.Range) != "spec" {
		t.Errorf("%+v at %q", f.Field, cut(crd, f.Range))
	}
	costs := ask[fieldsAnswer](t, e, "fields", protocol.FieldsRequest{VersionRequest: protocol.VersionRequest{CRDs: transitions}})
	if len(costs.Costs) != 1 || costs.Costs[0].Cost == 0 || costs.Costs[0].Path != "spec" {
		t.Errorf("%+v", costs.Costs)
	}
	s := ask[protocol.SearchAnswer](t, e, "search", protocol.SearchRequest{VersionRequest: in, Query: "Cron schedule"})
	if len(s.Matches) != 1 || s.Matches[0].Path != "spec.schedule" {
		t.Errorf("%+v", s)
	}
	for _, form := range []string{"core", "skeleton", "structural", "openapi-v2", "openapi-v3", "json-schema"} {
		a := ask[protocol.TextAnswer](t, e, "form", protocol.FormRequest{VersionRequest: in, Form: form})
		if !strings.Contains(a.Text, "schedule") {
			t.Errorf("%s:\n%s", form, a.Text)
		}
	}
	built := ask[fieldsAnswer](t, e, "fields", protocol.FieldsRequest{VersionRequest: protocol.VersionRequest{CRD: "deployments.apps"}, Path: "spec.replicas"})
	if built.Field.Type != "integer" {
		t.Errorf("%+v", built.Field)
	}
	for full, want := range map[bool]string{false: "schedule:", true: "replicas:"} {
		a := ask[protocol.TextAnswer](t, e, "sample", protocol.SampleRequest{VersionRequest: in, Full: full})
		if !strings.Contains(a.Text, want) || len(a.Findings) > 0 {
			t.Errorf("%+v", a)
		}
		if c := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: crd, Objects: a.Text}); c.Objects[0].Verdict != protocol.Accepted {
			t.Errorf("the sample is not valid: %+v", c.Objects[0].Findings)
		}
	}
	for target, want := range map[string]string{"go": "type CronTabSpec struct", "proto": "message CronTab", "typescript": "interface CronTab"} {
		a := ask[protocol.GenerateAnswer](t, e, "generate", protocol.GenerateRequest{CRDs: crd, Target: target})
		if !slices.ContainsFunc(a.Files, func(f protocol.File) bool { return strings.Contains(f.Text, want) }) {
			t.Errorf("%s: %+v", target, a)
		}
	}
}

func TestAssist(t *testing.T) {
	e, crd := engine(), example(t, "crd.yaml")
	object := "# 🌲\napiVersion: example.com/v1\nkind: CronTab\nspec:\n  rep"
	end := len(utf16.Encode([]rune(object)))
	c := ask[protocol.CompleteAnswer](t, e, "complete", protocol.CursorRequest{CRDs: crd, Text: object, Offset: end})
	i := slices.IndexFunc(c.Items, func(i protocol.Item) bool { return i.Label == "replicas" })
	if i < 0 || c.Items[i].Start != end-3 || c.Items[i].End != end {
		t.Errorf("%+v", c.Items)
	}
	if kinds := ask[protocol.CompleteAnswer](t, e, "complete", protocol.CursorRequest{CRDs: crd, Text: "kind: ", Offset: 6}); len(kinds.Items) < 50 {
		t.Errorf("%d kinds", len(kinds.Items))
	}
	h := ask[protocol.HoverAnswer](t, e, "hover", protocol.CursorRequest{CRDs: crd, Text: object + "licas: 1", Offset: end - 1})
	if !strings.Contains(h.Markdown, "Number of concurrent runs") || cut(object+"licas: 1", h.Range) != "replicas" {
		t.Errorf("%+v", h)
	}
}

// TestHoverCRD checks the documentation of the keywords of a CRD, also while its text is broken, and for
// another text than that of the CRDs.
func TestHoverCRD(t *testing.T) {
	crd := example(t, "crd.yaml")
	for keyword, want := range map[string]string{
		"pattern:": "A regular expression (RE2)", "schedule]": "The fields that the object must have", "replicas:": "Number of concurrent runs",
	} {
		for name, r := range map[string]protocol.CursorRequest{
			"the text":      {CRDs: crd, Text: crd},
			"another text":  {CRDs: "", Text: crd},
			"a broken text": {CRDs: crd + "    broken: [\n", Text: crd + "    broken: [\n"},
			"broken CRDs":   {CRDs: "a: [\n", Text: crd},
		} {
			at := strings.Index(crd, keyword)
			if at < 0 {
				t.Fatalf("no %q", keyword)
			}
			r.Offset = at + 1
			h := ask[protocol.HoverAnswer](t, engine(), "hover", r)
			if !strings.Contains(h.Markdown, want) || h.Range == nil || !strings.HasPrefix(cut(crd, h.Range), strings.TrimRight(keyword, ":]{} ")) {
				t.Errorf("%s in %s: %+v", keyword, name, h)
			}
		}
	}
}

func TestLint(t *testing.T) {
	crd := strings.Replace(example(t, "crd.yaml"), "format: date-time", "format: date-tim", 1)
	a := ask[protocol.LintAnswer](t, engine(), "lint", protocol.LintRequest{CRDs: crd})
	i := slices.IndexFunc(a.Findings, func(f protocol.Finding) bool { return f.Rule == "unknown-format" })
	if i < 0 || cut(crd, a.Findings[i].Range) != "date-tim" || a.Checked != 1 {
		t.Fatalf("%+v", a)
	}
	page := ask[protocol.RuleAnswer](t, engine(), "rule", protocol.RuleRequest{Rule: "unknown-format"})
	if page.Title == "" || page.Markdown == "" {
		t.Errorf("%+v", page)
	}
	for _, f := range a.Findings {
		for _, fix := range f.Fixes {
			b := ask[protocol.ApplyAnswer](t, engine(), "apply", protocol.ApplyRequest{Text: crd, Fix: fix})
			fixed := crd[:b.Start] + b.Text + crd[b.End:]
			after := ask[protocol.LintAnswer](t, engine(), "lint", protocol.LintRequest{CRDs: fixed})
			if len(after.Findings) >= len(a.Findings) {
				t.Errorf("%s is not fixed:\n%s", f.Rule, fixed)
			}
		}
	}
}

func TestCompare(t *testing.T) {
	old, new := example(t, "crd.yaml"), example(t, "crd-next.yaml")
	a := ask[protocol.CompareAnswer](t, engine(), "compare", protocol.CompareRequest{Old: old, New: new, Objects: example(t, "nightly.yaml")})
	if len(a.Changes) == 0 || a.Tried != 1 || a.Changes[0].Range == nil || a.Changes[0].Title == "" || len(a.Problems) > 0 {
		t.Errorf("%+v", a)
	}
	same := ask[protocol.CompareAnswer](t, engine(), "compare", protocol.CompareRequest{Old: old, New: old})
	if len(same.Changes) > 0 {
		t.Errorf("%+v", same.Changes)
	}
}

func TestErrors(t *testing.T) {
	e := engine()
	for name, c := range map[string]struct {
		request string
		value   any
		code    protocol.Code
	}{
		"unknown request":   {"nothing", nil, protocol.UnknownRequest},
		"unknown parameter": {"check", map[string]any{"crd": ""}, protocol.BadRequest},
		"unknown semantics": {"check", map[string]any{"semantics": "x"}, protocol.BadRequest},
		"unknown form":      {"form", map[string]any{"form": "x"}, protocol.BadRequest},
		"no CRD":            {"form", map[string]any{"form": "core"}, protocol.Failed},
		"unknown field":     {"fields", map[string]any{"crds": example(t, "crd.yaml"), "path": "x"}, protocol.Failed},
		"no such object":    {"apply", map[string]any{"text": "a: 1", "fix": map[string]any{"object": 7}}, protocol.BadRequest},
		"large CRDs":        {"check", protocol.CheckRequest{CRDs: strings.Repeat("#", protocol.MaxText+1)}, protocol.TooLarge},
		"large object":      {"check", protocol.CheckRequest{Objects: strings.Repeat("#", 20<<20)}, protocol.TooLarge},
		"large text":        {"hover", protocol.CursorRequest{Text: strings.Repeat("#", 20<<20)}, protocol.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := try[any](t, e, c.request, c.value); err == nil || err.Code != c.code {
				t.Errorf("got %+v", err)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		request, _ := json.Marshal(protocol.CheckRequest{CRDs: example(t, "crd.yaml"), Objects: example(t, "hourly.yaml")})
		if r := e.Answer(ctx, "check", request); r.Error == nil || r.Error.Code != protocol.Canceled {
			t.Errorf("%+v", r)
		}
	})
	t.Run("syntax", func(t *testing.T) {
		object := thing("{size: 1}") + "---\na: [\n"
		a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: object})
		if len(a.Text) != 1 || len(a.Objects) != 1 || a.Text[0].Range == nil || a.Text[0].Range.Line < 6 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("deep", func(t *testing.T) {
		object := thing(strings.Repeat("[", 20000) + strings.Repeat("]", 20000))
		if a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: object}); len(a.Text) != 1 {
			t.Errorf("%+v", a.Text)
		}
	})
	t.Run("aliases", func(t *testing.T) {
		object := "a: &a [" + strings.Repeat("xxxxxxxxxx,", 100) + "]\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: &c [" + strings.Repeat("*b,", 100) + "]\nd: [" + strings.Repeat("*c,", 100) + "]\n"
		if a := ask[protocol.CheckAnswer](t, e, "check", protocol.CheckRequest{CRDs: transitions, Objects: object}); len(a.Text) != 1 {
			t.Errorf("%+v", a.Text)
		}
	})
}
