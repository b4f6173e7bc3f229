package audit_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"espalier.dev/analysis/audit"
	"espalier.dev/api/codec"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/internal/testcase"
	"espalier.dev/schema"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// things returns a CRD with two versions.
func things(t *testing.T, group string) *crd.Definition {
	t.Helper()
	version := `{"name":%q,"served":true,"storage":%t,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}}}}}}`
	hub, err := codec.DecodeLenient([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.` + group + `"},"spec":{"group":"` + group + `",
		"names":{"kind":"Thing","plural":"things"},"scope":"Cluster","versions":[` +
		fmt.Sprintf(version, "v1", false, `"n":{"type":"integer"},"m":{"type":"object","additionalProperties":{"type":"string"},"required":["k"]}`) + "," +
		fmt.Sprintf(version, "v2", true, `"n":{"type":"integer","maximum":5,"enum":[1,2,3]}`) + `]}}`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := crd.New(hub, crd.Options{Semantics: schema.Kubernetes})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSummary compares all that is known about the objects of two CRDs, in several versions.
func TestSummary(t *testing.T) {
	t.Parallel()
	a := audit.New(audit.Options{Examples: 2})
	calls := 0
	add := func(d *crd.Definition, namespace, name, version, more string) {
		t.Helper()
		text := fmt.Sprintf(`{"apiVersion":"%s/%s","kind":"Thing","metadata":{"name":%q%s`, d.Group(), version, name, more)
		r, err := compliance.New(d).Inspect(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := audit.Object{Namespace: namespace, Name: name}
		if namespace != "" {
			o.Where = func() string { calls++; return namespace + ".db" }
		}
		a.Add(d, o, &r)
	}
	com, org := things(t, "example.com"), things(t, "example.org")
	add(org, "b", "x", "v2", `},"spec":{"n":9}}`)
	add(org, "a", "z", "v2", `},"spec":{"n":8,"o":1}}`)
	add(org, "a", "y", "v2", `},"spec":{"n":null,"o":1}}`)
	add(org, "", "y", "v1", `},"spec":{"n":7,"o":1}}`)
	add(org, "c", "y", "v2", `},"spec":{"n":7}}`)
	add(com, "", "m", "v1", `},"spec":{"m":{"l":1}}}`)
	add(com, "", "u", "v1", `}`)
	add(com, "", "t", "v2", `},"spec":{"n":"x","o":1}}`)
	a.AddCompliant("things.example.com", 5)
	a.AddCompliant("others.example.com", 2)
	var got strings.Builder
	for _, g := range a.Groups() {
		f := g.Finding()
		fmt.Fprintf(&got, "%s %s %s %s %d/%d %s\n", g.Definition.Name(), g.Version, g.Kind, g.Path, g.Objects, g.Values, g.Message)
		for _, e := range g.Examples {
			fmt.Fprintf(&got, "  %s | %s | %s | %s\n", e.FullName(), e.Where, e.Path, e.Message)
		}
		fmt.Fprintf(&got, "  = %s %s %s: %s\n", f.Severity, f.Rule, f.Path, f.Message)
		for _, line := range f.Detail {
			fmt.Fprintf(&got, "    %s\n", line)
		}
	}
	for _, name := range []string{"things.example.com", "things.example.org", "others.example.com", "none"} {
		fmt.Fprintf(&got, "%s %+v\n", name, a.Counts(name))
	}
	fmt.Fprintf(&got, "total %+v\n", a.Total())
	testcase.Golden(t, "testdata/summary.txt", got.String(), *update)
	if calls != 7 {
		t.Errorf("the place of objects is asked for %d times", calls)
	}
}

// TestLimits checks the limits of the numbers of groups and examples.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := things(t, "example.com")
	for _, c := range []struct {
		options audit.Options
		fields  string // of objects, which are named after them
		want    string // groups, with the numbers of objects and values, and their examples
	}{
		{audit.Options{Examples: 3, Paths: 1}, "b a c a", "a 2/2 a a … 2/2 b c"},
		{audit.Options{Examples: 1, Paths: 2}, "c b a d", "a 1/1 a b 1/1 b … 2/2 c"},
		{audit.Options{Examples: 1, Paths: 2}, "a b", "a 1/1 a b 1/1 b"},
		{audit.Options{Examples: 1, Paths: 2}, "a b c b a", "a 2/2 a b 2/2 b … 1/1 c"},
		{audit.Options{Paths: 1}, "b a", "a 1/1 … 1/1"},
		{audit.Options{}, "b a", "a 1/1 b 1/1"},
	} {
		a := audit.New(c.options)
		asked := 0
		for _, field := range strings.Fields(c.fields) {
			r, err := compliance.New(d).Inspect(t.Context(), []byte(`{"apiVersion":"example.com/v2","kind":"Thing","metadata":{"name":"x"},"spec":{"`+field+`":1}}`))
			if err != nil {
				t.Fatal(err)
			}
			a.Add(d, audit.Object{Name: field, Where: func() string { asked++; return "" }}, &r)
		}
		var got []string
		for _, g := range a.Groups() {
			got = append(got, strings.TrimPrefix(g.Path, "spec."), fmt.Sprintf("%d/%d", g.Objects, g.Values))
			for _, e := range g.Examples {
				got = append(got, e.Name)
			}
			if f := g.Finding(); (c.options.Examples == 0) != (len(f.Detail) == 0) || g.Path == audit.Other && g.Message != "further paths have problems of the same kind" {
				t.Errorf("%s: got %+v", c.fields, f)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v %s: got %s, want %s", c.options, c.fields, strings.Join(got, " "), c.want)
		}
		if c.options.Examples == 0 && asked != 0 {
			t.Errorf("%s: the place of objects is asked for %d times", c.fields, asked)
		}
	}
}

// TestRuleTexts checks the IDs, severities and texts of the rules.
func TestRuleTexts(t *testing.T) {
	t.Parallel()
	var got []string
	for _, r := range audit.Rules() {
		got = append(got, fmt.Sprintf("%s %s", r.ID, r.Severity))
		if r.Help == "" || r.Summary == r.Help || !strings.Contains(strings.ToLower(r.Summary), "stored") {
			t.Errorf("%s: the summary is %q", r.ID, r.Summary)
		}
	}
	if want := []string{"stored-unspecified warning", "stored-contradiction error", "stored-invalid error", "stored-malformed warning", "stored-version info", "stored-unreadable error"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPattern checks the patterns of paths: a required key of a map has its name.
func TestPattern(t *testing.T) {
	t.Parallel()
	field, key := schema.Step{Key: "m"}, schema.Step{Key: "k", Kind: schema.MapKey}
	for _, c := range []struct {
		problem compliance.Problem
		want    string
	}{
		{compliance.Problem{Kind: compliance.Invalid, Violation: schema.Required, Path: schema.Path{field, key}}, "m.k"},
		{compliance.Problem{Kind: compliance.Invalid, Violation: schema.Required, Path: schema.Path{key, key}}, "*.k"},
		{compliance.Problem{Kind: compliance.Invalid, Violation: schema.Required, Path: schema.Path{key}}, "k"},
		{compliance.Problem{Kind: compliance.Invalid, Violation: schema.Required}, ""},
		{compliance.Problem{Kind: compliance.Invalid, Violation: schema.Maximum, Path: schema.Path{field, key}}, "m.*"},
		{compliance.Problem{Kind: compliance.Unspecified, Violation: schema.Required, Path: schema.Path{field, key}}, "m.*"},
	} {
		if got := audit.Pattern(&c.problem); got != c.want {
			t.Errorf("%v: got %s, want %s", c.problem.Path, got, c.want)
		}
	}
}
