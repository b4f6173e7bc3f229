package report

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/yamledit"
	"espalier.dev/internal/yamlx"
)

// findings has one finding of each severity, with all characters that formats must escape.
func findings() []Finding {
	return []Finding{{
		Finding: analysis.Finding{Rule: "rule-a", Severity: analysis.Error, Path: "spec.a", Pointer: "/spec/a", Message: `100% "wrong": <a>, b`, Detail: []string{"more"}},
		Object:  input.Identity{APIVersion: "example.com/v1", Kind: "CronTab", Namespace: "default", Name: "a"},
		File:    "dir/a,b:c.yaml", Span: yamlx.Position{Line: 3, Column: 6, EndLine: 3, EndColumn: 9}, Source: input.Excerpt{Text: "  a: bad\x1b[31m"},
	}, {
		Finding: analysis.Finding{Rule: "rule-b", Severity: analysis.Warning, Path: "spec.b", Pointer: "/spec/b", Message: "doubtful",
			Fix: &analysis.Fix{Message: "remove it", Edits: []analysis.Edit{{Op: yamledit.Remove, Pointer: "/spec/b"}}}},
		File: "b.yaml", Span: yamlx.Position{Line: 1, Column: 2}, Source: input.Excerpt{Text: "\tb: ä€x"},
	}, {
		Finding: analysis.Finding{Rule: "rule-a", Severity: analysis.Info, Message: "worth\nknowing"},
		File:    "b.yaml",
	}}
}

// write reports findings in one format and returns the output.
func write(t *testing.T, o Options, fs ...Finding) (string, error) {
	t.Helper()
	var out bytes.Buffer
	o.Stdout, o.Semantics, o.Command = &out, "kep", "espalier lint"
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fs {
		r.Add(f)
	}
	err = r.Close()
	return out.String(), err
}

// TestFilter makes sure that a filter can change and suppress findings, but not failures, and
// that unused suppressions are reported at the end of a complete run.
func TestFilter(t *testing.T) {
	t.Parallel()
	run := func(finish error, interrupted bool) (string, *Summary, error) {
		var out bytes.Buffer
		r, err := New(Options{
			Stdout: &out, Semantics: "kep", Interrupted: func() bool { return interrupted },
			Filter: func(f Finding) (Finding, bool) {
				f.Severity = analysis.Info
				return f, f.Rule != "rule-b"
			},
			End: func(int) ([]Finding, error) {
				return []Finding{{Finding: analysis.Finding{Rule: "unused", Severity: analysis.Warning, Message: "matches nothing"}}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings() {
			r.Add(f)
		}
		r.Failure(input.Problem{Rule: "rule-b", Message: "no"})
		err = r.Finish(finish)
		return out.String(), r.Summary(), err
	}
	out, sum, err := run(nil, false)
	if err != ExitError(Failed) || sum.Suppressed != 1 || sum.Infos != 2 || sum.Errors != 1 || sum.Warnings != 1 {
		t.Errorf("got %v, %+v", err, sum)
	}
	if strings.Contains(out, "doubtful") || !strings.Contains(out, "error: no [rule-b]") || !strings.Contains(out, "warning: matches nothing [unused]\n") {
		t.Errorf("got\n%s", out)
	}
	if out, _, _ := run(errors.New("aborted"), false); strings.Contains(out, "unused") {
		t.Errorf("aborted: got\n%s", out)
	}
	if out, _, err := run(nil, true); strings.Contains(out, "unused") || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v\n%s", err, out)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	out, _ := write(t, Options{}, findings()...)
	want := "dir/a,b:c.yaml:3:6: error: spec.a: 100% \"wrong\": <a>, b [rule-a] (CronTab default/a)\n" +
		" 3 |   a: bad\ufffd[31m\n" +
		"   |      ^^^\n" +
		"   = more\n" +
		"b.yaml:1:2: warning: spec.b: doubtful [rule-b]\n" +
		" 1 | \tb: ä€x\n" +
		"   | \t^\n" +
		"   = fix: remove it\n" +
		"b.yaml: info: worth [rule-a]\n" +
		"   = knowing\n" +
		"\n1 error, 1 warning, 1 info in 0 objects (semantics: kep)\n"
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if out, _ := write(t, Options{Color: true}, findings()...); !strings.Contains(out, "\x1b[1;31merror:\x1b[0m") || strings.Contains(out, "bad\x1b") {
		t.Errorf("in colour: %q", out)
	}
	if out, _ := write(t, Options{Quiet: true}); out != "" {
		t.Errorf("output without findings: %q", out)
	}
}

// TestLongLine makes sure that only the relevant part of a long line is shown.
func TestLongLine(t *testing.T) {
	t.Parallel()
	doc, err := yamlx.Parse([]byte("\xef\xbb\xbf{" + strings.Repeat("ä: 1, ", 500) + "here: HERE, " + strings.Repeat("b: 2, ", 500) + "}"))
	if err != nil {
		t.Fatal(err)
	}
	f := At(&input.Item{File: "f", Doc: doc}, analysis.Finding{Severity: analysis.Error, Message: "m", Pointer: "/here"})
	if n := utf8.RuneCountInString(f.Source.Text); n != input.MaxExcerpt {
		t.Errorf("a finding keeps %d characters of the line", n)
	}
	out, _ := write(t, Options{}, f)
	lines := strings.Split(out, "\n")
	if len(lines[1]) > 200 {
		t.Errorf("the line has %d bytes", len(lines[1]))
	}
	runes := []rune(lines[1])
	at := strings.Index(lines[2], "^")
	if at < 0 || string(runes[at:at+4]) != "HERE" || !strings.HasSuffix(lines[2], "^^^^") {
		t.Errorf("got\n%s", out)
	}
}

func TestJSONAndYAML(t *testing.T) {
	t.Parallel()
	type document struct {
		Findings []map[string]any `json:"findings"`
		Summary  map[string]any   `json:"summary"`
	}
	for _, format := range []string{"json", "yaml"} {
		for n := range 4 {
			out, _ := write(t, Options{Outputs: []string{format}}, findings()[:n]...)
			var d document
			if err := yaml.UnmarshalStrict([]byte(out), &d); err != nil {
				t.Fatalf("%s: %v\n%s", format, err, out)
			}
			if d.Findings == nil || len(d.Findings) != n || d.Summary["semantics"] != "kep" {
				t.Errorf("%s: got %v", format, d)
			}
			for i, f := range d.Findings {
				// The first has an end, details and an object, the second a fix.
				if want := []int{12, 9, 8}[i]; len(f) != want {
					t.Errorf("%s: finding %d has the fields %v", format, i, f)
				}
			}
		}
	}
	out, _ := write(t, Options{Outputs: []string{"json"}}, findings()[1])
	want := `{"findings":[
{"file":"b.yaml","line":1,"column":2,"path":"spec.b","pointer":"/spec/b","rule":"rule-b","severity":"warning","message":"doubtful","fix":{"message":"remove it","edits":[{"op":"remove","pointer":"/spec/b"}]}}
],"summary":{"semantics":"kep","files":0,"objects":0,"skipped":0,"errors":0,"warnings":1,"infos":0,"failures":0}}
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestGitHub(t *testing.T) {
	t.Parallel()
	out, _ := write(t, Options{Outputs: []string{"github"}}, findings()...)
	want := `::error file=dir/a%2Cb%3Ac.yaml,line=3,col=6,endLine=3,endColumn=9,title=CronTab default/a%3A rule-a::spec.a: 100%25 "wrong": <a>, b%0Amore
::warning file=b.yaml,line=1,col=2,title=rule-b::spec.b: doubtful%0Afix: remove it
::notice file=b.yaml,title=rule-a::worth%0Aknowing
1 error, 1 warning, 1 info in 0 objects (semantics: kep)
`
	if out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// junitReport is what the tests expect of a JUnit report.
type junitReport struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
	Suites   []struct {
		Name       string `xml:"name,attr"`
		Properties []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:"value,attr"`
		} `xml:"properties>property"`
		Cases []junitCaseXML `xml:"testcase"`
	} `xml:"testsuite"`
}

func parseJUnit(t *testing.T, text string) (r junitReport) {
	t.Helper()
	if err := xml.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	cases := 0
	for _, s := range r.Suites {
		cases += len(s.Cases)
	}
	if cases != r.Tests {
		t.Errorf("%d test cases, but the report says %d:\n%s", cases, r.Tests, text)
	}
	return r
}

// TestSARIF checks the requirements of the SARIF standard.
func TestSARIF(t *testing.T) {
	t.Parallel()
	rules := []analysis.Rule{{ID: "rule-b", Summary: "B.", Help: "Do this.", Severity: analysis.Warning}}
	for n := range 4 {
		out, _ := write(t, Options{Outputs: []string{"sarif"}, Rules: rules, Version: "v1"}, findings()[:n]...)
		var log struct {
			Schema  string `json:"$schema"`
			Version string
			Runs    []struct {
				AutomationDetails struct{ ID string }
				Results           []sarifResult
				Tool              struct {
					Driver struct {
						Name, Version string
						Rules         []sarifRule
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &log); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if log.Version != "2.1.0" || len(log.Runs) != 1 || log.Runs[0].Tool.Driver.Name != "espalier" || len(log.Runs[0].Results) != n {
			t.Fatalf("got\n%s", out)
		}
		if id := log.Runs[0].AutomationDetails.ID; id != "espalier/lint/" {
			t.Errorf("the ID of the run is %q", id)
		}
		known := log.Runs[0].Tool.Driver.Rules
		for _, r := range log.Runs[0].Results {
			if r.RuleIndex < 0 || r.RuleIndex >= len(known) || known[r.RuleIndex].ID != r.RuleID {
				t.Errorf("rule %s is not at %d", r.RuleID, r.RuleIndex)
			}
			if r.Message.Text == "" {
				t.Error("a result has no message")
			}
			for _, l := range r.Locations {
				if region := l.Physical.Region; region != nil && (region.StartLine < 1 || region.EndLine != 0 && region.EndLine < region.StartLine) {
					t.Errorf("region %+v", region)
				}
			}
		}
		if n == 3 {
			first := log.Runs[0].Results[0]
			if first.Level != "error" || first.Locations[0].Physical.Artifact.URI != "dir/a,b:c.yaml" || *first.Locations[0].Physical.Region == (sarifRegion{}) {
				t.Errorf("got %+v", first)
			}
			if log.Runs[0].Results[2].Level != "note" {
				t.Errorf("level of an info: %s", log.Runs[0].Results[2].Level)
			}
		}
	}
	for name, want := range map[string]string{"a b.yaml": "a%20b.yaml", "/abs/x": "file:///abs/x", "c:d": "./c:d", "<stdin>": "%3Cstdin%3E"} {
		if got := fileURI(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// failing is a writer that fails.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// TestWriteErrors makes sure that write errors are reported and are failures.
func TestWriteErrors(t *testing.T) {
	t.Parallel()
	for _, format := range Formats() {
		r, err := New(Options{Outputs: []string{format}, Stdout: failing{}})
		if err != nil {
			t.Fatal(err)
		}
		r.Add(findings()[0])
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("%s: got %v", format, err)
		}
	}
}

// TestFixInList makes sure that the edits of a fix are relative to the document.
func TestFixInList(t *testing.T) {
	t.Parallel()
	const text = "kind: List\nitems:\n- kind: A\n  spec: {a: 1, b: 2}\n"
	var items []*input.Item
	err := input.Read(t.Context(), strings.NewReader(text), input.Flags{Paths: []string{"-"}}, func(it *input.Item) error {
		items = append(items, it)
		return nil
	}, func(p input.Problem) { t.Error(p) })
	if err != nil || len(items) != 1 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	fix := &analysis.Fix{Edits: []analysis.Edit{
		{Op: yamledit.Move, Pointer: "/spec/a", To: "/spec/c"},
		{Op: yamledit.Rename, Pointer: "/spec/b", To: "d"},
	}}
	f := At(items[0], analysis.Finding{Pointer: "/spec/a", Fix: fix})
	got, err := yamledit.Apply(items[0].Doc, f.Fix.Edits...)
	if want := "kind: List\nitems:\n- kind: A\n  spec: {d: 2, c: 1}\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if fix.Edits[0].Pointer != "/spec/a" || fix.Edits[0].To != "/spec/c" {
		t.Errorf("the finding's own fix has changed: %v", fix.Edits)
	}
}

// TestFinish makes sure that the report of an aborted run does not look successful.
func TestFinish(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": "", "github": "::error title=not-run::no input\n", "json": `"failures":1`, "yaml": "failures: 1",
		"sarif": `"executionSuccessful":false`, "junit": `errors="1"`,
	} {
		var out bytes.Buffer
		r, err := New(Options{Outputs: []string{format + "=-"}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		reason := errors.New("no input")
		if err := r.Finish(reason); err != reason {
			t.Errorf("%s: %v", format, err)
		}
		if got := out.String(); !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, "no findings") {
			t.Errorf("%s: %s", format, got)
		}
	}
}

// TestGitHubEscapes makes sure that control characters are escaped.
func TestGitHubEscapes(t *testing.T) {
	t.Parallel()
	out, _ := write(t, Options{Outputs: []string{"github"}}, Finding{File: "a\x1bb", Finding: analysis.Finding{Message: "m\x1b[31m\nn"}})
	if strings.Contains(out, "\x1b") || !strings.Contains(out, "%0An") {
		t.Errorf("%q", out)
	}
}

// TestLocations makes sure that every format has the object, the end, the schema and the old
// location of a finding.
func TestLocations(t *testing.T) {
	t.Parallel()
	f := Finding{
		Finding: analysis.Finding{
			Rule: "rule", Severity: analysis.Error, Path: "spec.a", Pointer: "/spec/a", Message: "wrong",
			Schema: &analysis.Location{Path: ".properties[spec]", Pointer: "/spec/versions/0", File: "crd.yaml", Line: 7, Column: 3, EndLine: 7, EndColumn: 9},
			Old:    &analysis.Location{Path: "spec.b", Pointer: "/spec/b", File: "old.yaml", Line: 5, Column: 1},
		},
		Object: input.Identity{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "crontabs.example.com"},
		File:   "new.yaml", Span: yamlx.Position{Line: 2, Column: 4, EndLine: 3, EndColumn: 6},
	}
	for format, want := range map[string][]string{
		"text": {"new.yaml:2:4: error: spec.a: wrong [rule] (CRD crontabs.example.com)\n   = schema: .properties[spec] (crd.yaml:7:3)\n   = old: old.yaml:5:1\n"},
		"json": {
			`{"file":"new.yaml","line":2,"column":4,"endLine":3,"endColumn":6,"path":"spec.a","pointer":"/spec/a","rule":"rule","severity":"error",` +
				`"object":{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","name":"crontabs.example.com"},"message":"wrong",` +
				`"schema":{"file":"crd.yaml","line":7,"column":3,"endLine":7,"endColumn":9,"path":".properties[spec]","pointer":"/spec/versions/0"},` +
				`"old":{"file":"old.yaml","line":5,"column":1,"path":"spec.b","pointer":"/spec/b"}}`,
		},
		"yaml": {"\n  schema:\n    column: 3\n    endColumn: 9\n"},
		"sarif": {
			`"region":{"startLine":2,"startColumn":4,"endLine":3,"endColumn":6}`,
			`"logicalLocations":[{"name":"crontabs.example.com","fullyQualifiedName":"CRD crontabs.example.com","kind":"resource"},{"name":"spec.a","fullyQualifiedName":"CRD crontabs.example.com: spec.a","kind":"property"}]`,
			`"relatedLocations":[{"physicalLocation":{"artifactLocation":{"uri":"crd.yaml"},"region":{"startLine":7,"startColumn":3,"endLine":7,"endColumn":9}},"message":{"text":"schema: .properties[spec]"}},` +
				`{"physicalLocation":{"artifactLocation":{"uri":"old.yaml"},"region":{"startLine":5,"startColumn":1}},"message":{"text":"old: spec.b"}}]`,
			`"properties":{"semantics":"kep","files":0,"objects":0,"skipped":0,"errors":1,`,
		},
		"junit":  {`<testcase name="CRD crontabs.example.com" classname="new.yaml" file="new.yaml" line="2">`, "new.yaml:2:4: error: spec.a: wrong [rule]&#xA;schema: .properties[spec] (crd.yaml:7:3)&#xA;old: old.yaml:5:1<"},
		"github": {"::error file=new.yaml,line=2,col=4,endLine=3,endColumn=6,title=CRD crontabs.example.com%3A rule::spec.a: wrong%0Aschema: .properties[spec] (crd.yaml:7:3)%0Aold: old.yaml:5:1\n"},
	} {
		out, _ := write(t, Options{Outputs: []string{format}}, f)
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s lacks\n%s\ngot\n%s", format, part, out)
			}
		}
	}
}

// TestFolded checks that formats for people count folded findings, and that formats for
// programs list them.
func TestFolded(t *testing.T) {
	t.Parallel()
	fs := findings()
	for i := range fs[1:] {
		fs[1+i].Folded = true
	}
	o := Options{Folded: func(n int) string { return fmt.Sprintf("%d more", n) }}
	for _, format := range Formats() {
		o.Outputs = []string{format}
		out, _ := write(t, o, fs...)
		forPeople := slices.Contains([]string{"text", "github", "markdown"}, format)
		if got := strings.Contains(out, "2 more\n"); got != forPeople {
			t.Errorf("%s: counts folded findings: %t\n%s", format, got, out)
		}
		if got := strings.Contains(out, "rule-b"); got == forPeople {
			t.Errorf("%s: lists folded findings: %t\n%s", format, got, out)
		}
		// Folded findings take no space where they are not listed.
		o.MaxFindings = 1
		later := fs[0]
		later.Severity = fs[1].Severity
		limited, _ := write(t, o, fs[1], later)
		if got := strings.Contains(limited, "rule-a"); got != forPeople {
			t.Errorf("%s: the finding after a folded one is listed: %t\n%s", format, got, limited)
		}
		o.MaxFindings = 0
	}
}

// TestFiles makes sure that a file counts once, in any order of objects.
func TestFiles(t *testing.T) {
	t.Parallel()
	r, err := New(Options{Stdout: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	items := objects(t, "kind: A\n---\nkind: B\n---\nkind: C\n")
	items[1].File = "b.yaml"
	for _, it := range items {
		r.Saw(it)
	}
	if got := r.Summary().Files; got != 2 {
		t.Errorf("got %d files, want 2", got)
	}
}
