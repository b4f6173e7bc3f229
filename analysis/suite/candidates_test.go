package suite_test

import (
	"strings"
	"testing"

	"espalier.dev/analysis/suite"
)

// TestChoose chooses the CRD of a suite: the command line takes precedence over the suite, and the
// configuration file is the last.
func TestChoose(t *testing.T) {
	crds := func(all ...string) (list []suite.Candidate) {
		for _, c := range all {
			name, file, _ := strings.Cut(c, "@")
			list = append(list, suite.Candidate{Name: name, File: file})
		}
		return list
	}
	unnamed, named, files := &suite.Suite{}, &suite.Suite{Definition: "b"}, &suite.Suite{Files: []string{"x.yaml", "y.yaml"}}
	for _, c := range []struct {
		suite         *suite.Suite
		from          suite.Candidates
		want, pointer string
	}{
		{unnamed, suite.Candidates{Given: crds("a@flag"), Around: crds("a@suite"), Configured: crds("a@config")}, "a@flag", ""},
		{unnamed, suite.Candidates{Around: crds("a@other", "a@suite"), Configured: crds("a@config")}, "a@suite", ""},
		{unnamed, suite.Candidates{Around: crds("a@other"), Configured: crds("a@config")}, "a@other", ""},
		{unnamed, suite.Candidates{Configured: crds("a@config")}, "a@config", ""},
		{unnamed, suite.Candidates{}, "no CRD found: name its file with crd in the suite, or with --crd", ""},
		{unnamed, suite.Candidates{Around: crds("a@x", "b@y")}, "more than one CRD found: select one with crd in the suite, or with --crd\na in x\nb in y", ""},
		{unnamed, suite.Candidates{Given: crds("a@x", "b@y")}, "more than one CRD found: --crd takes precedence over the suite, so pass only one of these\na in x\nb in y", ""},
		{named, suite.Candidates{Given: crds("a@x", "b@y")}, "b@y", ""},
		{named, suite.Candidates{Given: crds("a@x"), Configured: crds("b@config")}, "b@config", ""},
		{named, suite.Candidates{Given: crds("a@x")}, "CRD b not found: name its file with --crd", "/crdName"},
		{files, suite.Candidates{Named: crds("a@x.yaml"), Around: crds("a@suite"), Configured: crds("a@config")}, "a@x.yaml", "/crd"},
		{files, suite.Candidates{Given: crds("a@flag"), Named: crds("a@x.yaml")}, "a@flag", "/crd"},
		{&suite.Suite{Files: []string{"x.yaml"}}, suite.Candidates{Around: crds("a@suite")}, "no CRD found in x.yaml", "/crd"},
		{files, suite.Candidates{Named: crds("a@x.yaml", "b@y.yaml")}, "more than one CRD found: select one with crd in the suite, or with --crd\na in x.yaml\nb in y.yaml", "/crd"},
		{files, suite.Candidates{Given: crds("a@flag")}, "no CRD found in x.yaml, y.yaml", "/crd"},
	} {
		c.from.File = "suite"
		chosen, pointer, err := c.suite.Choose(c.from)
		got := chosen.Name + "@" + chosen.File
		if err != nil {
			got = err.Error()
		}
		if got != c.want || pointer != c.pointer {
			t.Errorf("%+v of %+v: got %q at %q, want %q at %q", *c.suite, c.from, got, pointer, c.want, c.pointer)
		}
	}
}
