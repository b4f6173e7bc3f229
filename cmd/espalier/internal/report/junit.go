package report

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/spool"
)

// junitFormat writes a test suite for each file and a test case for each object. A test case
// fails if it has findings that affect the exit code; other findings are its output. An input
// that could not be processed is an error. The numbers come before the test cases, so the test
// cases are kept in a spool until the end.
type junitFormat struct {
	w       io.Writer
	options *Options
	spool   spool.Spool
	suites  []*junitSuite
	byFile  map[string]*junitSuite
	// current is the object or test case whose findings follow. other is the test case for
	// findings about something else in between, for example about a CRD. Both may be nil.
	current, other *junitCase
	// open has all test cases if findings about them may come in any order.
	open   map[junitKey]*junitCase
	opened []*junitCase
	// limits has the texts to insert in the spool at the end, unless they are omitted.
	limits []*limitedText
}

// junitKey identifies a test case.
type junitKey struct {
	file   string
	object input.Identity
	name   string
}

// limitedText is the text of a finding that may be omitted in the end.
type limitedText struct {
	text    string
	omitted bool
	// at is the position in the spool at which it is inserted.
	at int64
}

func (t *limitedText) omit() { t.text, t.omitted = "", true }

// junitSuite counts the test cases of a file.
type junitSuite struct {
	name                             string
	tests, failures, errors, skipped int
	severities                       map[analysis.Severity]int
	// parts are the test cases in the spool, as offsets and lengths.
	parts [][2]int64
}

// junitCase is an object, a test case, or a problem that concerns neither.
type junitCase struct {
	suite *junitSuite
	// file, object and name identify the test case.
	file   string
	object input.Identity
	name   string

	line int
	// skipped is the reason why the object was skipped.
	skipped string
	// failed has findings that affect the exit code, rest all others.
	failed, rest junitFindings
	// broken reports whether an input could not be processed.
	broken bool
}

// junitFindings are findings of a test case as text.
type junitFindings struct {
	count int
	worst analysis.Severity
	// message is that of the first finding, text has all of them except those in limited.
	message string
	text    strings.Builder
	limited []*limitedText
}

// add adds a finding. It returns its text if that is limited.
func (fs *junitFindings) add(f *Finding, limit bool) *limitedText {
	fs.count++
	if fs.count == 1 {
		fs.message = f.Message
	}
	if fs.worst == "" || f.Severity.Compare(fs.worst) < 0 {
		fs.worst = f.Severity
	}
	text := &fs.text
	if limit {
		text = &strings.Builder{}
	}
	fmt.Fprintf(text, "\n%s: %s: ", f.Location().Position(), f.Severity)
	if f.Path != "" {
		fmt.Fprintf(text, "%s: ", f.Path)
	}
	first, rest, _ := strings.Cut(f.fullMessage(), "\n")
	fmt.Fprintf(text, "%s [%s]", first, f.Rule)
	if rest != "" {
		text.WriteString("\n" + rest)
	}
	if !limit {
		return nil
	}
	t := &limitedText{text: text.String()}
	if n := len(fs.limited); n > 0 && fs.limited[n-1].omitted {
		fs.limited[n-1] = t // an object may have any number of findings
	} else {
		fs.limited = append(fs.limited, t)
	}
	return t
}

func newJUnit(w io.Writer, o *Options) format {
	return &junitFormat{w: w, options: o, byFile: map[string]*junitSuite{}, open: map[junitKey]*junitCase{}}
}

// newCase returns a test case for a finding.
func (j *junitFormat) newCase(f *Finding) *junitCase {
	suite := j.byFile[f.File]
	if suite == nil {
		suite = &junitSuite{name: cmp.Or(f.File, j.options.Command), severities: map[analysis.Severity]int{}}
		j.byFile[f.File] = suite
		j.suites = append(j.suites, suite)
	}
	return &junitCase{suite: suite, file: f.File, object: f.Object, name: caseName(f), line: f.Span.Line}
}

// caseName returns the name of the test case for a finding.
func caseName(f *Finding) string { return cmp.Or(f.Case, f.Object.String(), f.Rule, anonymous) }

// anonymous is the name of an object without kind and name.
const anonymous = "object"

// has reports whether a finding belongs to the test case.
func (c *junitCase) has(f *Finding) bool {
	return c != nil && c.file == f.File && c.object == f.Object && (c.name == caseName(f) || c.name == anonymous)
}

func (j *junitFormat) object(f *Finding) error {
	if j.options.Unordered {
		j.current = j.openCase(f)
		return nil
	}
	if err := j.endAll(); err != nil {
		return err
	}
	j.current = j.newCase(f)
	return nil
}

func (j *junitFormat) passed(f *Finding) error { return j.object(f) }

func (j *junitFormat) skipped(f *Finding) error {
	err := j.object(f)
	if err == nil {
		j.current.skipped = f.Message
	}
	return err
}

func (j *junitFormat) finding(f *Finding) error {
	_, err := j.add(f, false)
	return err
}

func (j *junitFormat) limited(f *Finding) (*limitedText, error) { return j.add(f, true) }

func (j *junitFormat) add(f *Finding, limit bool) (*limitedText, error) {
	c, err := j.caseOf(f)
	if err != nil {
		return nil, err
	}
	c.suite.severities[f.Severity]++
	c.broken = c.broken || f.Failed
	if f.Failed || j.fails(f) {
		return c.failed.add(f, limit), nil
	}
	return c.rest.add(f, limit), nil
}

// caseOf returns the test case that a finding belongs to.
func (j *junitFormat) caseOf(f *Finding) (*junitCase, error) {
	switch {
	case j.options.Unordered:
		return j.openCase(f), nil
	case j.current.has(f):
		return j.current, nil
	case !j.other.has(f):
		if err := j.end(j.other); err != nil {
			return nil, err
		}
		j.other = j.newCase(f)
	}
	return j.other, nil
}

// openCase returns the test case that a finding belongs to, where all of them stay open.
func (j *junitFormat) openCase(f *Finding) *junitCase {
	key := junitKey{f.File, f.Object, caseName(f)}
	c := j.open[key]
	if c == nil {
		c = j.newCase(f)
		j.open[key] = c
		j.opened = append(j.opened, c)
	}
	return c
}

// fails reports whether a finding is a failure. Errors are failures even if they do not affect
// the exit code: a failed test case must not look like a passed one.
func (j *junitFormat) fails(f *Finding) bool {
	return f.Severity == analysis.Error || j.options.FailOn.Fails(f.Severity)
}

// The elements of a report.
type (
	junitCaseXML struct {
		XMLName   xml.Name         `xml:"testcase"`
		Name      string           `xml:"name,attr"`
		ClassName string           `xml:"classname,attr"`
		File      string           `xml:"file,attr,omitempty"`
		Line      int              `xml:"line,attr,omitempty"`
		Skipped   *junitSkippedXML `xml:"skipped"`
		Failure   *junitFailureXML `xml:"failure"`
		Error     *junitFailureXML `xml:"error"`
		Output    *string          `xml:"system-out"`
	}
	junitSkippedXML struct {
		Message string `xml:"message,attr,omitempty"`
	}
	junitFailureXML struct {
		Type    string `xml:"type,attr"`
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// endAll completes the test cases that are under way.
func (j *junitFormat) endAll() (err error) {
	if j.options.Unordered {
		for _, c := range j.opened {
			err = errors.Join(err, j.end(c))
		}
		j.opened = nil
		return err
	}
	err = errors.Join(j.end(j.current), j.end(j.other))
	j.current, j.other = nil, nil
	return err
}

// end completes a test case.
func (j *junitFormat) end(c *junitCase) error {
	if c == nil {
		return nil
	}
	suite := c.suite
	x := junitCaseXML{
		Name: c.name, ClassName: cmp.Or(c.file, j.options.Command), File: c.file, Line: c.line,
	}
	if c.rest.text.Len() > 0 || slices.ContainsFunc(c.rest.limited, func(t *limitedText) bool { return !t.omitted }) {
		x.Output = new(strings.TrimPrefix(c.rest.text.String(), "\n"))
	}
	suite.tests++
	if c.failed.count > 0 {
		failure := &junitFailureXML{Type: string(c.failed.worst), Message: c.failed.message,
			Text: strings.TrimPrefix(c.failed.text.String(), "\n")}
		if more := c.failed.count - 1; more > 0 {
			failure.Message += fmt.Sprintf(" (and %s)", analysis.Plural(more, "more finding"))
		}
		if c.broken {
			suite.errors++
			x.Error = failure
		} else {
			suite.failures++
			x.Failure = failure
		}
	} else if c.skipped != "" {
		suite.skipped++
		x.Skipped = &junitSkippedXML{Message: c.skipped}
	}
	text, err := xml.MarshalIndent(x, "    ", "  ")
	if err != nil {
		return err
	}
	start := j.spool.Size()
	j.place(c.failed.limited, start, text, "</failure>", "</error>")
	j.place(c.rest.limited, start, text, "</system-out>")
	if _, err := j.spool.Write(append(text, '\n')); err != nil {
		return err
	}
	if n := len(suite.parts); n > 0 && suite.parts[n-1][0]+suite.parts[n-1][1] == start {
		suite.parts[n-1][1] += j.spool.Size() - start
	} else {
		suite.parts = append(suite.parts, [2]int64{start, j.spool.Size() - start})
	}
	return nil
}

// place sets the position of limited texts: at the end of an element of the text that is written to
// the spool at start.
func (j *junitFormat) place(texts []*limitedText, start int64, text []byte, ends ...string) {
	for _, end := range ends {
		at := bytes.LastIndex(text, []byte(end))
		if at < 0 {
			continue
		}
		for _, t := range texts {
			if !t.omitted {
				t.at = start + int64(at)
				j.limits = append(j.limits, t)
			}
		}
	}
}

// copySpool writes a part of the spool, with the limited texts that belong in it.
func (j *junitFormat) copySpool(w io.Writer, part [2]int64) error {
	from, end := part[0], part[0]+part[1]
	copyTo := func(to int64) error {
		text, err := j.spool.Reader(from, to-from)
		if err == nil {
			_, err = io.Copy(w, text)
		}
		from = to
		return err
	}
	i, _ := slices.BinarySearchFunc(j.limits, from, func(t *limitedText, at int64) int { return cmp.Compare(t.at, at) })
	for last := int64(-1); i < len(j.limits) && j.limits[i].at < end; i++ {
		t := j.limits[i]
		if t.omitted {
			continue
		}
		text := t.text
		if t.at != last {
			if err := copyTo(t.at); err != nil {
				return err
			}
			text = strings.TrimPrefix(text, "\n")
		}
		last = t.at
		escaped, err := xml.Marshal(struct {
			XMLName xml.Name `xml:"t"`
			Text    string   `xml:",chardata"`
		}{Text: text})
		if err != nil {
			return err
		}
		if _, err := w.Write(escaped[len("<t>") : len(escaped)-len("</t>")]); err != nil {
			return err
		}
	}
	return copyTo(end)
}

func (j *junitFormat) close(s *Summary) (err error) {
	defer func() {
		if e := j.spool.Close(); err == nil {
			err = e
		}
	}()
	if len(j.suites) == 0 {
		// Some tools treat a report without test cases as missing.
		if err := j.passed(&Finding{Case: strings.TrimSpace(summaryLine(s, j.options.What))}); err != nil {
			return err
		}
	}
	if err := j.endAll(); err != nil {
		return err
	}
	var all junitSuite
	for _, suite := range j.suites {
		all.tests += suite.tests
		all.failures += suite.failures
		all.errors += suite.errors
		all.skipped += suite.skipped
	}
	out := &errWriter{w: j.w}
	fmt.Fprintf(out, "%s<testsuites name=%s %s>\n", xml.Header, quoteXML(j.options.Command), all.counts())
	for _, suite := range j.suites {
		fmt.Fprintf(out, "  <testsuite name=%s %s>\n    <properties>\n", quoteXML(suite.name), suite.counts())
		fmt.Fprintf(out, "      <property name=\"semantics\" value=%s/>\n", quoteXML(s.Semantics))
		for _, severity := range []analysis.Severity{analysis.Error, analysis.Warning, analysis.Info} {
			fmt.Fprintf(out, "      <property name=\"findings.%s\" value=\"%d\"/>\n", severity, suite.severities[severity])
		}
		fmt.Fprint(out, "    </properties>\n")
		for _, part := range suite.parts {
			if err := j.copySpool(out, part); err != nil {
				return err
			}
		}
		fmt.Fprint(out, "  </testsuite>\n")
	}
	fmt.Fprint(out, "</testsuites>\n")
	return out.err
}

// counts returns the numbers of a suite as attributes.
func (s *junitSuite) counts() string {
	return fmt.Sprintf(`tests="%d" failures="%d" errors="%d" skipped="%d"`, s.tests, s.failures, s.errors, s.skipped)
}

func quoteXML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder does not fail
	b.WriteByte('"')
	return b.String()
}

// errWriter remembers the first error, so that callers need to check only once.
type errWriter struct {
	w   io.Writer
	err error
}

// Write writes p, unless a previous call failed.
func (e *errWriter) Write(p []byte) (n int, err error) {
	if e.err == nil {
		n, e.err = e.w.Write(p)
	}
	return n, e.err
}
