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
	"espalier.dev/internal/yamlx"
)

// Options say how and where to report.
type Options struct {
	// Outputs are formats, each alone or with a file: "text", "sarif=out.sarif". The
	// file - is standard output. None stands for text.
	Outputs []string
	// Stdout gets the format that names no file.
	Stdout io.Writer
	// Color reports whether text is coloured.
	Color bool
	// Semantics is named in the summary.
	Semantics string
	// Rules describe the rules that findings may be of.
	Rules []analysis.Rule
	// Version is that of the program.
	Version string
	// Command is the command, like "espalier lint".
	Command string
	// Tolerant makes findings no reason for exit code 1, for commands whose findings
	// only explain.
	Tolerant bool
	// Quiet leaves the summary out of text if there is nothing else to say.
	Quiet bool
	// Interrupted says, when the report is closed, whether there was more to look at.
	// Nil stands for never.
	Interrupted func() bool
	// What is the noun for what was read, "object" unless set.
	What string
}

// Exit codes, the same for every command and every format.
const (
	// Clean is for nothing found.
	Clean = 0
	// Found is for findings of severity error or warning, and for differences.
	Found = 1
	// Failed is for what could not be done.
	Failed = 2
)

// format writes findings in one format.
type format interface {
	finding(f *Finding) error
	close(s *Summary) error
}

// Reporter writes findings as they come. It is not safe for concurrent use.
type Reporter struct {
	options Options
	formats []format
	files   []*os.File
	summary Summary
	// lastFile is that of the object that was counted last.
	lastFile string
	err      error
}

// Formats are the names of all formats.
func Formats() []string { return []string{"text", "json", "yaml", "sarif", "junit", "github"} }

// New opens the outputs. Close must be called in the end.
func New(o Options) (*Reporter, error) {
	if o.What == "" {
		o.What = "object"
	}
	r := &Reporter{options: o, summary: Summary{Semantics: o.Semantics}}
	outputs := o.Outputs
	if len(outputs) == 0 {
		outputs = []string{"text"}
	}
	stdout, taken := "", map[string]bool{}
	for _, output := range outputs {
		name, file, toFile := strings.Cut(output, "=")
		if !slices.Contains(Formats(), name) {
			return nil, r.abandon(fmt.Errorf("-o %s: there is no format %q: choose among %s", output, name, strings.Join(Formats(), ", ")))
		}
		w, color := o.Stdout, o.Color
		switch {
		case toFile && file == "":
			return nil, r.abandon(fmt.Errorf("-o %s: the name of the file is missing", output))
		case toFile && file != "-" && taken[filepath.Clean(file)]:
			return nil, r.abandon(fmt.Errorf("-o %s: the file %s is written to already", output, file))
		case toFile && file != "-":
			taken[filepath.Clean(file)] = true
			f, err := os.Create(file)
			if err != nil {
				return nil, r.abandon(fmt.Errorf("-o %s: %w", output, err))
			}
			r.files = append(r.files, f)
			w, color = f, false
		case stdout != "":
			return nil, r.abandon(fmt.Errorf("-o %s and -o %s both write to standard output: give one of them a file, as in -o %s=FILE", stdout, output, name))
		default:
			stdout = output
		}
		r.formats = append(r.formats, newFormat(name, w, color, &r.options))
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
	}
	return newText(w, color, o)
}

// abandon closes what New has opened so far and returns err.
func (r *Reporter) abandon(err error) error {
	for _, f := range r.files {
		f.Close()
	}
	return err
}

// Report reports a finding about an object: its pointer, which is relative to the
// object, gets its place in the file.
func (r *Reporter) Report(it *input.Item, f analysis.Finding) { r.Add(At(it, f)) }

// Failure reports that something could not be looked at.
func (r *Reporter) Failure(p input.Problem) {
	r.Add(Finding{
		Failed:  true,
		Finding: analysis.Finding{Rule: p.Rule, Severity: analysis.Error, Message: p.Message},
		File:    p.File, Span: yamlx.Position{Line: p.Line, Column: p.Column}, Source: p.Source,
	})
}

// Add reports a finding whose place is known already.
func (r *Reporter) Add(f Finding) {
	r.count(&f)
	for _, format := range r.formats {
		if err := format.finding(&f); err != nil && r.err == nil {
			r.err = err
		}
	}
}

func (r *Reporter) count(f *Finding) {
	if f.Failed {
		r.summary.Failures++
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

// Passed reports a test that passed, to the formats that list those.
func (r *Reporter) Passed(f Finding) {
	for _, format := range r.formats {
		if lister, ok := format.(interface{ passed(*Finding) }); ok {
			lister.passed(&f)
		}
	}
}

// Saw counts an object that was looked at. Objects of one file come together.
func (r *Reporter) Saw(it *input.Item) {
	r.summary.Objects++
	if it.File != r.lastFile || r.summary.Files == 0 {
		r.lastFile = it.File
		r.summary.Files++
	}
}

// Summary is what was found so far, for a command to add to.
func (r *Reporter) Summary() *Summary { return &r.summary }

// Code is the exit code that follows from what was reported so far.
func (r *Reporter) Code() int {
	switch {
	case r.summary.Failures > 0:
		return Failed
	case !r.options.Tolerant && r.summary.Errors+r.summary.Warnings > 0:
		return Found
	}
	return Clean
}

// NotRun is the rule of a finding that says why a command came to no end.
const NotRun = "not-run"

// Finish is Close for a command that ends with an error or nil. If there is an error,
// which is left for others to tell people, the outputs for programs say so: nobody is
// to take them for those of a run that found nothing.
func (r *Reporter) Finish(err error) error {
	if err == nil {
		return r.Close()
	}
	r.summary.Aborted = true
	f := Finding{Failed: true, Finding: analysis.Finding{Rule: NotRun, Severity: analysis.Error, Message: err.Error()}}
	if errors.Is(err, context.Canceled) {
		f.Message = "interrupted"
	}
	for _, format := range r.formats {
		if _, isText := format.(*textFormat); !isText {
			_ = format.finding(&f) // there is an error already
		}
	}
	r.count(&f)
	_ = r.Close()
	return err
}

// Close completes the outputs. The error is about writing them; if all is well, it
// is an [ExitError], or nil if the exit code is 0.
func (r *Reporter) Close() error {
	err := r.err
	r.summary.Interrupted = r.options.Interrupted != nil && r.options.Interrupted()
	for _, format := range r.formats {
		err = errors.Join(err, format.close(&r.summary))
	}
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if code := r.Code(); code != Clean {
		return ExitError(code)
	}
	return nil
}

// ExitError is an error that has been reported already: only its exit code is left
// to tell.
type ExitError int

// Error names the exit code.
func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }
