package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSpecsFile checks the form of the file: it is what the driver would write, all classes have a
// description and a spec, and no spec waits for a class.
func TestSpecsFile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(specsFile)
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseSpecs(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(s.format(), data) {
		t.Errorf("%s is not as the driver writes it: sorted by name, in columns", specsFile)
	}
	count := map[string]int{}
	name := regexp.MustCompile(`^\[sig-[a-z-]+\] .*(` + selection + `)`)
	for spec, class := range s.class {
		count[class]++
		if !name.MatchString(spec) {
			t.Errorf("%q is not in the selection", spec)
		}
	}
	for _, class := range []string{classFails, classUntried} {
		if count[class] > 0 {
			t.Errorf("%d specs have the class %q: give them one with a reason", count[class], class)
		}
	}
	for class := range s.classes {
		if count[class] == 0 {
			t.Errorf("no spec has the class %q", class)
		}
	}
	// A run compares the list with the suite. A list that was cut off is found here, too.
	if len(s.class) < 400 {
		t.Errorf("there are only %d specs", len(s.class))
	}
	if count[classPasses]+count[classSteady] < 150 {
		t.Errorf("only %d specs can pass", count[classPasses]+count[classSteady])
	}
}

const someSpecs = `# Specs.
#   passes     passes with the real one
#   steady     passes unless the server is killed
#   container  needs a container
passes    a [Conformance]
container b [Conformance]
steady    c [Conformance]
`

func parsed(t *testing.T, text string) *specs {
	t.Helper()
	s, err := parseSpecs([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseSpecs(t *testing.T) {
	t.Parallel()
	if got := string(parsed(t, someSpecs).format()); got != someSpecs {
		t.Errorf("got\n%s", got)
	}
	for text, want := range map[string]string{
		someSpecs + "other d\n":                     `does not describe the class "other"`,
		someSpecs + "passes a [Conformance]\n":      "listed twice",
		someSpecs + "passes\n":                      "want a class and a name",
		someSpecs + "# more\n":                      "a comment between specs",
		someSpecs + "passes  \n":                    "want a class and a name",
		strings.Replace(someSpecs, "#   ", "# ", 3): `does not describe the class "passes"`,
	} {
		if _, err := parseSpecs([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	s := parsed(t, someSpecs)
	if _, err := s.reconcile([]string{"a [Conformance]", "b [Conformance]", "c [Conformance]"}, false); err != nil {
		t.Error(err)
	}
	listed := []string{"a [Conformance]", "b [Conformance]", "d [Conformance]"}
	_, err := s.reconcile(listed, false)
	for _, want := range []string{"not in testdata/specs.txt: d", "not in the suite: c"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	got, err := s.reconcile(listed, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.class["d [Conformance]"] != classUntried || got.class["a [Conformance]"] != classPasses || len(got.class) != 3 {
		t.Errorf("got %v", got.class)
	}
}

func TestSelected(t *testing.T) {
	t.Parallel()
	s := parsed(t, someSpecs)
	for args, want := range map[string][]string{
		"":                                    {"a [Conformance]", "c [Conformance]"},
		"-kill 1s":                            {"a [Conformance]"},
		"-skip ^a":                            {"c [Conformance]"},
		"-classes passes,container -focus ^b": {"b [Conformance]"},
		"-focus ^b":                           nil,
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.selected(o); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	s := parsed(t, someSpecs)
	failed := result{state: "failed", failure: "not equal"}
	for _, c := range []struct {
		results results
		want    string
	}{
		{results{"a [Conformance]": {state: "passed"}, "b [Conformance]": failed}, ""},
		{results{"a [Conformance]": failed}, "failed: a [Conformance]\nnot equal"},
		{results{"c [Conformance]": {state: "not run"}}, "not run: c [Conformance]"},
		{results{"a [Conformance]": {state: "skipped", failure: "needs x"}}, "skipped: a [Conformance]\nneeds x"},
	} {
		err := c.results.verdict(s)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.results, err, c.want)
		}
	}
}
