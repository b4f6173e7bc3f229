package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"espalier.dev/analysis"
)

// junitFormat writes a test suite for each file. Each finding is a failed test case or, if it
// does not affect the exit code, a passed test case with output. An input that could not be
// processed is an error. The number of failures comes first, so findings are kept until the
// end.
type junitFormat struct {
	w       io.Writer
	options *Options
	suites  []*junitSuite
	byFile  map[string]*junitSuite
}

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Suites   []*junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	File      string        `xml:"file,attr,omitempty"`
	Line      int           `xml:"line,attr,omitempty"`
	Failure   *junitFailure `xml:"failure"`
	Error     *junitFailure `xml:"error"`
	Output    string        `xml:"system-out,omitempty"`
}

type junitFailure struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func newJUnit(w io.Writer, o *Options) format {
	return &junitFormat{w: w, options: o, byFile: map[string]*junitSuite{}}
}

// suite returns the suite of a file.
func (j *junitFormat) suite(f *Finding) *junitSuite {
	suite := j.byFile[f.File]
	if suite == nil {
		suite = &junitSuite{Name: cmp.Or(f.File, j.options.Command)}
		j.byFile[f.File] = suite
		j.suites = append(j.suites, suite)
	}
	return suite
}

// passed adds a passed test case.
func (j *junitFormat) passed(f *Finding) {
	suite := j.suite(f)
	suite.Tests++
	suite.Cases = append(suite.Cases, junitCase{Name: f.Case, ClassName: f.File, File: f.File, Line: f.Span.Line})
}

func (j *junitFormat) finding(f *Finding) error {
	suite := j.suite(f)
	name := f.Rule
	if f.Path != "" {
		name += " " + f.Path
	}
	if f.Span.Line > 0 {
		name += fmt.Sprintf(" (line %d)", f.Span.Line)
	}
	class := f.Rule
	text := fmt.Sprintf("%s: %s", place(f), f.fullMessage())
	if f.Case != "" {
		// Use the same name as when it passes.
		name, class = f.Case, f.File
		if n := len(suite.Cases); n > 0 && suite.Cases[n-1].Name == name && suite.Cases[n-1].Failure != nil {
			suite.Cases[n-1].Failure.Text += "\n" + text
			return nil
		}
	}
	suite.Tests++
	c := junitCase{Name: name, ClassName: class, File: f.File, Line: f.Span.Line}
	if f.Fix != nil {
		text += "\nfix: " + f.Fix.Message
	}
	switch {
	case f.Failed:
		suite.Errors++
		c.Error = &junitFailure{Type: string(f.Severity), Message: f.Message, Text: text}
	case !j.fails(f):
		c.Output = text
	default:
		suite.Failures++
		c.Failure = &junitFailure{Type: string(f.Severity), Message: f.Message, Text: text}
	}
	suite.Cases = append(suite.Cases, c)
	return nil
}

// fails reports whether a finding is a failure. Errors are failures even if they do not affect
// the exit code: a failed test case must not look like a passed one.
func (j *junitFormat) fails(f *Finding) bool {
	return f.Severity == analysis.Error || j.options.FailOn.Fails(f.Severity)
}

func (j *junitFormat) close(s *Summary) error {
	all := junitSuites{Name: j.options.Command, Suites: j.suites}
	if len(j.suites) == 0 {
		// Some tools treat a report without test cases as missing.
		name := strings.TrimSpace(summaryLine(s, j.options.What))
		all.Suites = []*junitSuite{{Name: j.options.Command, Tests: 1, Cases: []junitCase{{Name: name, ClassName: j.options.Command}}}}
	}
	for _, suite := range all.Suites {
		all.Tests += suite.Tests
		all.Failures += suite.Failures
		all.Errors += suite.Errors
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(j.w, xml.Header+string(text)+"\n")
	return err
}
