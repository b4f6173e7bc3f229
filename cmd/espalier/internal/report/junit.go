package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"espalier.dev/analysis"
)

// junitFormat writes a test suite for each file: each finding is a test case that
// failed or, if it is a note, passed with a remark. A suite says first how many
// failed, so all findings have to be kept until the end.
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

func (j *junitFormat) finding(f *Finding) error {
	suite := j.byFile[f.File]
	if suite == nil {
		suite = &junitSuite{Name: f.File}
		j.byFile[f.File] = suite
		j.suites = append(j.suites, suite)
	}
	suite.Tests++
	name := f.Rule
	if f.Path != "" {
		name += " " + f.Path
	}
	if f.Span.Line > 0 {
		name += fmt.Sprintf(" (line %d)", f.Span.Line)
	}
	c := junitCase{Name: name, ClassName: f.Rule, File: f.File, Line: f.Span.Line}
	text := fmt.Sprintf("%s: %s", place(f), f.fullMessage())
	if f.Fix != nil {
		text += "\nfix: " + f.Fix.Message
	}
	if f.Severity == analysis.Info || j.options.Tolerant {
		c.Output = text
	} else {
		suite.Failures++
		c.Failure = &junitFailure{Type: string(f.Severity), Message: f.Message, Text: text}
	}
	suite.Cases = append(suite.Cases, c)
	return nil
}

func (j *junitFormat) close(s *Summary) error {
	all := junitSuites{Name: j.options.Command, Suites: j.suites}
	if len(j.suites) == 0 {
		// Some readers take a report without any case for a run that never was.
		name := strings.TrimSpace(summaryLine(s, j.options.What))
		all.Suites = []*junitSuite{{Name: j.options.Command, Tests: 1, Cases: []junitCase{{Name: name, ClassName: j.options.Command}}}}
	}
	for _, suite := range all.Suites {
		all.Tests += suite.Tests
		all.Failures += suite.Failures
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(j.w, xml.Header+string(text)+"\n")
	return err
}
