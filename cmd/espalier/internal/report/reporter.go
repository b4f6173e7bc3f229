package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// Options configure a [Reporter].
type Options struct {
	// Dir is the directory that files are relative to.
	Dir workdir.Dir
	// Outputs lists formats, each alone or with a file: "text", "sarif=out.sarif". The
	// file - is standard output. The default is text.
	Outputs []string
	// Collect, if it is set, gets the findings in place of all outputs.
	Collect func(Finding)
	// Stdout receives the format without a file.
	Stdout io.Writer
	// Color reports whether text is coloured.
	Color bool
	// Semantics is shown in the summary.
	Semantics string
	// Rules describes the rules of findings.
	Rules []analysis.Rule
	// Version is the version of the program.
	Version string
	// Command is the name of the command, such as "espalier lint".
	Command string
	// FailOn is the lowest severity of findings that make the exit code 1.
	FailOn Threshold
	// Filter is called for each finding before it is counted and written. It returns the
	// finding to report instead, or false to suppress it. Filter is not called for inputs
	// that could not be processed: they cannot be suppressed. Nil stands for no filter.
	Filter func(Finding) (Finding, bool)
	// Saw is called for each object that is counted, before findings about it. It may be nil.
	Saw func(*input.Item)
	// End is called when a run ends that was neither aborted nor interrupted, after the last
	// call of Filter, with the number of inputs that could not be processed. It returns
	// further findings, such as suppressions that matched nothing. If it returns an error, so
	// does Close. Nil stands for no call.
	End func(failures int) ([]Finding, error)
	// MinSeverity is the lowest severity of findings that are reported. Other findings do not
	// affect the exit code either. The default is info.
	MinSeverity analysis.Severity
	// MaxFindings is the maximum number of findings that are listed in each output: the worst,
	// by severity and then in the order in which they came. Each output keeps so many until the
	// end. Further ones are counted. Inputs that could not be processed are always listed. Zero
	// stands for no limit.
	MaxFindings int
	// Quiet omits the summary in text if there are no findings, NoSummary in any case.
	// Formats for programs always have a summary.
	Quiet, NoSummary bool
	// Interrupted is called when the report is closed, and reports whether the run was
	// interrupted. Nil stands for never.
	Interrupted func() bool
	// Progress shows the progress of the run. Nil stands for none.
	Progress Progress
	// TestCases is set for commands that report test cases: objects are then no test cases in
	// JUnit.
	TestCases bool
	// What is the noun for an input in the summary, "object" by default.
	What string
	// Skipped counts what the input skips, for the summary. It may be nil.
	Skipped *input.Skipped
	// Local returns the path in the working tree of a file of a Git revision. Nil stands for none.
	Local func(file string) string
	// Folded returns a line that stands for a number of folded findings.
	Folded func(n int) string
	// Grouped returns a line that says for how many findings of groups a number of findings
	// stands. See [Reporter.AddGroup].
	Grouped func(shown, of int) string
	// Unordered is set if findings about an object may follow after the next call of Saw. JUnit
	// then keeps all objects in memory.
	Unordered bool
}

// Progress shows how many items were processed. It is safe for concurrent use.
type Progress interface {
	// Count counts one more item. what names the items, in plural.
	Count(what string)
	// Clear erases the progress before other output.
	Clear()
}

// Exit codes of all commands, independent of the format.
const (
	// Clean means success: no problems found.
	Clean = 0
	// Found means problems found: findings that reach [Options].FailOn, or differences.
	Found = 1
	// Failed means a usage or input error.
	Failed = 2
)

// format writes findings in one format.
type format interface {
	finding(f *Finding) error
	close(s *Summary) error
}

// sink is a format and what is written to it.
type sink struct {
	format
	// forPeople is set for formats that show groups of findings as one, and count findings that
	// are folded.
	forPeople bool
	// kept has the findings to write in the end, if their number is limited, and omitted the
	// number of the others. Failures and folded findings are in neither.
	kept     worst[limited]
	omitted  int
	sections sections
}

// limited is a finding whose output depends on the findings that follow.
type limited struct {
	finding *Finding
	// text is its part of a format that lists objects. It is nil for other formats.
	text *limitedText
}

// objectFormat is a format that lists objects and test cases, including those without
// findings.
type objectFormat interface {
	// object begins an object. Findings about it follow.
	object(f *Finding) error
	// skipped lists an object that is not checked, passed a test case without findings.
	skipped(f *Finding) error
	passed(f *Finding) error
	// limited replaces finding for a finding that may be omitted in the end. The format writes
	// the text as it is when the format is closed.
	limited(f *Finding) (*limitedText, error)
}

// Reporter writes findings as they come. It is not safe for concurrent use.
type Reporter struct {
	options Options
	sinks   []*sink
	files   []*os.File
	summary Summary
	// sawFiles holds the files of the counted objects.
	sawFiles map[string]bool
	// section is the part of the report that findings are in.
	section string
	// found is set if a finding makes the exit code 1.
	found bool
	// groups counts the groups of several findings, and grouped the findings in them, by severity.
	groups, grouped map[analysis.Severity]int
	err             error
}

// Formats returns the names of all formats.
func Formats() []string {
	return []string{"text", "json", "yaml", "sarif", "junit", "github", "markdown"}
}

// New returns a reporter and opens its outputs. The caller must call Finish or Close.
func New(o Options) (*Reporter, error) {
	if o.What == "" {
		o.What = "object"
	}
	switch {
	case o.MaxFindings < 0:
		return nil, fmt.Errorf("--max-findings=%d: must not be negative", o.MaxFindings)
	case o.MinSeverity != "" && o.FailOn != Never && o.MinSeverity.Compare(analysis.Severity(o.FailOn.String())) < 0:
		return nil, fmt.Errorf("--fail-on=%s contradicts --min-severity=%s, which omits such findings", o.FailOn, o.MinSeverity)
	}
	r := &Reporter{options: o, summary: Summary{Semantics: o.Semantics}, sawFiles: map[string]bool{},
		groups: map[analysis.Severity]int{}, grouped: map[analysis.Severity]int{}}
	outputs := o.Outputs
	if o.Collect != nil {
		return r, nil
	}
	if len(outputs) == 0 {
		outputs = []string{"text"}
	}
	stdout, taken := "", map[string]bool{}
	for _, output := range outputs {
		name, file, toFile := strings.Cut(output, "=")
		if !slices.Contains(Formats(), name) {
			return nil, r.abandon(fmt.Errorf("-o %s: unknown format %q: must be one of %s", output, name, strings.Join(Formats(), ", ")))
		}
		w, color := o.Stdout, o.Color
		switch {
		case toFile && file == "":
			return nil, r.abandon(fmt.Errorf("-o %s: the file name is missing", output))
		case toFile && file != "-" && taken[filepath.Clean(file)]:
			return nil, r.abandon(fmt.Errorf("-o %s: another output writes to %s already", output, file))
		case toFile && file != "-":
			taken[filepath.Clean(file)] = true
			f, err := o.Dir.Create(file)
			if err != nil {
				return nil, r.abandon(fmt.Errorf("-o %s: %w", output, err))
			}
			r.files = append(r.files, f)
			w, color = f, false
		case stdout != "":
			return nil, r.abandon(fmt.Errorf("-o %s and -o %s both write to standard output: give one of them a file, as in -o %s=FILE",
				stdout, output, name))
		default:
			stdout = output
		}
		r.sinks = append(r.sinks, &sink{
			format: newFormat(name, w, color, &r.options), forPeople: slices.Contains([]string{"text", "github", "markdown"}, name),
			kept: worst[limited]{most: o.MaxFindings},
		})
	}
	return r, nil
}

func newFormat(name string, w io.Writer, color bool, o *Options) format {
	switch name {
	case "json":
		return newJSON(w)
	case "yaml":
		return newYAML(w)
	case "sarif":
		return newSARIF(w, o)
	case "junit":
		return newJUnit(w, o)
	case "github":
		return newGitHub(w, o)
	case "markdown":
		return newMarkdown(w, o)
	}
	return newText(w, color, o)
}

// abandon closes the files that New has opened and returns err.
func (r *Reporter) abandon(err error) error {
	for _, f := range r.files {
		f.Close()
	}
	return err
}

// Report reports a finding about an object, with its position in the file.
func (r *Reporter) Report(it *input.Item, f analysis.Finding) { r.Add(At(it, f)) }

// Failure reports an input that could not be processed.
func (r *Reporter) Failure(p input.Problem) {
	r.Add(Finding{
		Failed:  true,
		Finding: analysis.Finding{Rule: p.Rule, Severity: analysis.Error, Message: p.Message},
		Object:  p.Object, File: p.File, Span: yamlx.Position{Line: p.Line, Column: p.Column}, Source: p.Source,
	})
}

// Add reports a finding that already has its position.
func (r *Reporter) Add(f Finding) { r.AddGroup([]Finding{f}, nil) }

// add counts and writes a finding.
func (r *Reporter) add(f Finding) {
	if r.admit(&f) {
		r.write(&f, nil)
	}
}

// admit counts a finding, and reports whether it is written.
func (r *Reporter) admit(f *Finding) bool {
	if least := r.options.MinSeverity; least != "" && !f.Failed && f.Severity.Compare(least) > 0 {
		r.summary.Hidden++
		return false
	}
	r.count(f)
	f.Section = r.section
	return true
}

// write writes a finding in all formats, or only in those that are for people or are not.
func (r *Reporter) write(f *Finding, forPeople *bool) {
	if r.options.Collect != nil {
		r.options.Collect(*f)
		return
	}
	for _, o := range r.sinks {
		if forPeople != nil && o.forPeople != *forPeople {
			continue
		}
		if r.options.MaxFindings > 0 && !f.Failed && !(f.Folded && o.forPeople) {
			r.keep(o.limit(f))
			continue
		}
		r.ClearProgress()
		r.keep(o.finding(f))
	}
}

// Section starts a section of the report. Formats for people have a heading before its first
// finding.
func (r *Reporter) Section(title string) { r.section = title }

// limit keeps a finding until the end, and omits the mildest one if there are too many.
func (o *sink) limit(f *Finding) error {
	copied := *f
	copied.Doc = nil // it may be large
	o.sections.saw(f.Section)
	kept := limited{finding: &copied}
	if lists, ok := o.format.(objectFormat); ok {
		text, err := lists.limited(f)
		if err != nil {
			return err
		}
		kept = limited{text: text}
	}
	if dropped, full := o.kept.add(severityRank(f), kept); full {
		o.omitted++
		if dropped.text != nil {
			dropped.text.omit()
		}
	}
	return nil
}

// writeKept writes the findings that were kept.
func (o *sink) writeKept() (err error) {
	var findings []*Finding
	for kept := range o.kept.all() {
		if kept.finding != nil {
			findings = append(findings, kept.finding)
		}
	}
	o.sections.each(len(findings), func(i int) string { return findings[i].Section }, func(i int) {
		if err == nil {
			err = o.finding(findings[i])
		}
	})
	return err
}

// keep keeps the first error.
func (r *Reporter) keep(err error) {
	if r.err == nil {
		r.err = err
	}
}

// list calls do for the formats that list objects and test cases.
func (r *Reporter) list(do func(objectFormat) error) {
	for _, out := range r.sinks {
		if o, ok := out.format.(objectFormat); ok {
			r.keep(do(o))
		}
	}
}

func (r *Reporter) count(f *Finding) {
	if f.Failed {
		r.summary.Failures++
	} else if r.options.FailOn.Fails(f.Severity) {
		r.found = true
	}
	switch f.Severity {
	case analysis.Error:
		r.summary.Errors++
	case analysis.Warning:
		r.summary.Warnings++
	default:
		r.summary.Infos++
	}
}

// Passed reports a passed test case to the formats that list them.
func (r *Reporter) Passed(f Finding) {
	r.list(func(o objectFormat) error { return o.passed(&f) })
}

// Saw counts an object. The findings about it should follow before the next call.
func (r *Reporter) Saw(it *input.Item) {
	if r.options.Saw != nil {
		r.options.Saw(it)
	}
	r.summary.Objects++
	r.Progress(r.options.What + "s")
	if !r.sawFiles[it.File] {
		r.sawFiles[it.File] = true
		r.summary.Files++
	}
	if !r.options.TestCases {
		r.list(func(o objectFormat) error {
			f := objectOf(it)
			return o.object(&f)
		})
	}
}

// Progress counts an item that is not an object of the summary, for the progress. what names
// the items, in plural. It is safe for concurrent use.
func (r *Reporter) Progress(what string) {
	if r.options.Progress != nil {
		r.options.Progress.Count(what)
	}
}

// ClearProgress erases the progress before other output than that of the reporter.
func (r *Reporter) ClearProgress() {
	if r.options.Progress != nil {
		r.options.Progress.Clear()
	}
}

// Skipped counts an object that is not checked, and says why.
func (r *Reporter) Skipped(it *input.Item, reason string) {
	r.summary.Skipped++
	r.Progress(r.options.What + "s")
	f := objectOf(it)
	f.Message = reason
	r.list(func(o objectFormat) error { return o.skipped(&f) })
}

// objectOf returns a finding about an object as a whole. The position of the document is
// exact enough: it takes no time.
func objectOf(it *input.Item) Finding {
	f := Finding{Object: it.Identity(), File: it.File, Span: yamlx.Position{Line: it.Line()}}
	if it.Base != "" || it.Rendered() {
		f.Span.Line = it.Position("").Value.Line
	}
	return f
}

// Summary returns the summary so far. Commands may add to it.
func (r *Reporter) Summary() *Summary { return &r.summary }

// Code returns the exit code for the findings so far.
func (r *Reporter) Code() int {
	switch {
	case r.summary.Failures > 0:
		return Failed
	case r.found:
		return Found
	}
	return Clean
}

// NotRun is the rule of the finding that reports why a command was aborted.
const NotRun = "not-run"

// Finish closes the reporter of a command that returns err. If err is not nil, outputs for
// programs get a finding with the error, so that they do not look like those of a successful
// run. Finish returns err, which the caller reports to the user, or else the result of Close.
func (r *Reporter) Finish(err error) error {
	if err == nil {
		return r.Close()
	}
	r.abort(err)
	_ = r.Close()
	return err
}

// abort adds a finding with an error that the caller reports to the outputs for programs.
func (r *Reporter) abort(err error) {
	r.summary.Aborted = true
	f := Finding{Failed: true, Finding: analysis.Finding{Rule: NotRun, Severity: analysis.Error, Message: err.Error()}}
	if errors.Is(err, context.Canceled) {
		f.Message = "interrupted"
	}
	r.ClearProgress()
	for _, o := range r.sinks {
		if _, isText := o.format.(*textFormat); !isText {
			_ = o.finding(&f) // err takes precedence
		}
	}
	r.count(&f)
}

// Close completes the outputs. It returns an error if writing fails, else context.Canceled if
// the run was interrupted, else the error of [Options].End, else an [ExitError], or nil if the
// exit code is 0.
func (r *Reporter) Close() error {
	r.ClearProgress()
	var failed error
	r.summary.Interrupted = r.options.Interrupted != nil && r.options.Interrupted()
	if r.options.End != nil && !r.summary.Aborted && !r.summary.Interrupted {
		var found []Finding
		found, failed = r.options.End(r.summary.Failures)
		for _, f := range found {
			r.add(f)
		}
		if failed != nil {
			r.abort(failed)
		}
	}
	skipped := r.options.Skipped
	r.summary.Others, r.summary.SkippedBy, r.summary.SkippedLine = skipped.Documents(), skipped.Counts(), skipped.String()
	if hint := skipped.Hint(); hint != "" && r.summary.Errors > 0 {
		r.summary.Notes = append(r.summary.Notes, hint)
	}
	err := r.err
	for _, o := range r.sinks {
		summary := r.summary
		summary.Omitted = o.omitted
		if o.forPeople {
			r.ungroup(&summary)
		}
		err = errors.Join(err, o.writeKept(), o.close(&summary))
	}
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	if r.summary.Interrupted {
		return context.Canceled
	}
	if failed != nil {
		return failed
	}
	if code := r.Code(); code != Clean {
		return ExitError(code)
	}
	return nil
}

// ExitError is an exit code other than 0 whose cause has been reported already.
type ExitError int

// Error returns the exit code as text.
func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Threshold is the lowest severity of findings that make the exit code 1: a severity, or
// [Never]. The zero value is error.
type Threshold string

// Never is the threshold that no finding reaches.
const Never Threshold = "never"

// Thresholds returns the names of all thresholds.
func Thresholds() []string {
	return []string{string(analysis.Error), string(analysis.Warning), string(analysis.Info), string(Never)}
}

// Set parses a threshold.
func (t *Threshold) Set(s string) error {
	if v := Threshold(s); v != Never {
		if _, err := analysis.ParseSeverity(s); err != nil {
			return errors.New("must be error, warning, info or never")
		}
	}
	*t = Threshold(s)
	return nil
}

// String returns the name of the threshold.
func (t Threshold) String() string {
	if t == "" {
		return string(analysis.Error)
	}
	return string(t)
}

// Type returns the name of the value in help texts.
func (t Threshold) Type() string { return "severity" }

// Fails reports whether a finding of severity s reaches the threshold.
func (t Threshold) Fails(s analysis.Severity) bool {
	return t != Never && s.Compare(analysis.Severity(t.String())) <= 0
}
