package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"espalier.dev/analysis"
	"espalier.dev/cmd/espalier/internal/report"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/textdiff"
	"espalier.dev/internal/yamlx"
)

// useColor reports whether output to w is coloured.
func (a *app) useColor(w io.Writer) bool {
	switch a.color.String() {
	case "always":
		return true
	case "never":
		return false
	}
	if value, _ := a.environ("NO_COLOR"); value != "" {
		return false
	}
	if value, _ := a.environ("TERM"); value == "dumb" {
		return false
	}
	return isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// reportOptions returns the options of the reporter of a command. rules are the rules of its
// findings.
func (a *app) reportOptions(c *cobra.Command, flags reportFlags, rules []analysis.Rule) report.Options {
	o := report.Options{
		Dir:         a.dir,
		Outputs:     flags.outputs,
		FailOn:      flags.failOn,
		MinSeverity: analysis.Severity(flags.minSeverity),
		MaxFindings: flags.maxFindings,
		NoSummary:   flags.quiet,
		Stdout:      a.stdout,
		Color:       a.useColor(a.stdout),
		Semantics:   a.semantics.String(),
		Rules:       rules,
		Version:     buildVersion().version,
		Command:     c.CommandPath(),
		Interrupted: func() bool { return c.Context().Err() != nil },
		Skipped:     skippedBy(c),
		Local:       a.repositories.Local,
	}
	// A default must not contradict a flag.
	if least := o.MinSeverity; least != "" && !c.Flags().Changed("fail-on") && o.FailOn.Fails(least) {
		o.FailOn = report.Threshold(least)
	}
	if p := a.newProgress(flags.quiet); p != nil {
		o.Progress = p
		if files := inputOf(c); files != nil {
			files.OnRender(p.Rendered)
		}
	}
	if c.Name() != "test" { // the result of a test cannot be suppressed
		filter := a.newFilter(c, rules)
		o.Filter, o.Saw, o.End = filter.Apply, filter.Saw, filter.End
	}
	return o
}

// newSideReporter returns a reporter that writes to standard error, for commands that write
// something else than findings to standard output. what is the noun for an input in its summary.
func (a *app) newSideReporter(c *cobra.Command, what string) (*report.Reporter, error) {
	o := a.reportOptions(c, reportFlags{}, nil)
	o.What = what
	a.toStderr(&o, true)
	return report.New(o)
}

// toStderr sets options for a reporter that writes to standard error, because standard output
// is for something else. prints is set if the command writes to standard output as it runs: on
// a terminal, that is progress enough.
func (a *app) toStderr(o *report.Options, prints bool) {
	o.Stdout, o.Color, o.Quiet = a.stderr, a.useColor(a.stderr), true
	if prints && isTerminal(a.stdout) {
		o.Progress = nil
	}
}

// textOutputs returns the output formats of commands that print one result.
func textOutputs() []string { return []string{"text", "json", "yaml"} }

// addTextOutputFlag adds -o for textOutputs, of which text is the default.
func addTextOutputFlag(c *cobra.Command, output *string) {
	c.Flags().StringVarP(output, "output", "o", "text", "output `FORMAT`: text, json or yaml")
	groupFlags(c.Flags(), outputFlags, "output")
	completeValues(c, "output", textOutputs()...)
}

// checkTextOutput returns an error if -o is none of textOutputs.
func checkTextOutput(output string) error {
	if !slices.Contains(textOutputs(), output) {
		return fmt.Errorf("-o %s: must be text, json or yaml", output)
	}
	return nil
}

// printer writes values to standard output, each as a document.
type printer struct {
	a      *app
	output string
	count  int
}

// print writes a value. In YAML, the title is a comment before it.
func (p *printer) print(title string, v any) error {
	var text []byte
	var err error
	if p.output == "json" {
		text, err = indentedJSON(v)
	} else if text, err = yamlx.Marshal(v); err == nil {
		head := ""
		if p.count > 0 {
			head = "---\n"
		}
		if title != "" {
			head += "# " + title + "\n"
		}
		text = append([]byte(head), text...)
	}
	if err != nil {
		return err
	}
	p.count++
	_, err = p.a.stdout.Write(text)
	return err
}

// objectPrinter writes objects to standard output: in YAML each as a document, and in JSON as one
// document, which is a List unless there is exactly one object.
type objectPrinter struct {
	printer
	// first is the first object, as long as it is the only one.
	first any
	// failed is set if an item could not be written: the document cannot be completed.
	failed bool
}

// print writes an object.
func (p *objectPrinter) print(v any) error {
	if p.output != "json" {
		return p.printer.print("", v)
	}
	if p.count++; p.count == 1 {
		p.first = v
		return nil
	}
	if p.count == 2 {
		if err := p.item("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": [\n    ", p.first); err != nil {
			return err
		}
		p.first = nil
	}
	return p.item(",\n    ", v)
}

// item writes an item of the List after some text.
func (p *objectPrinter) item(before string, v any) error {
	text, err := indented(v, "    ")
	if err == nil {
		_, err = p.a.stdout.Write(append([]byte(before), text...))
	}
	p.failed = p.failed || err != nil
	return err
}

// end completes the output. JSON without an object is an empty List.
func (p *objectPrinter) end() error {
	end := "\n  ]\n}\n"
	switch {
	case p.output != "json" || p.failed:
		return nil
	case p.count == 1:
		return p.printer.print("", p.first)
	case p.count == 0:
		end = "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"List\",\n  \"items\": []\n}\n"
	}
	_, err := io.WriteString(p.a.stdout, end)
	return err
}

// indentedJSON returns indented JSON for people to read: <, > and & are not escaped.
func indentedJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}

// diffStyle returns the colours of git.
func diffStyle() textdiff.Style {
	paint := func(color string) func(string) string {
		return func(s string) string { return color + s + "\x1b[0m" }
	}
	return textdiff.Style{File: paint("\x1b[1m"), Hunk: paint("\x1b[36m"), Delete: paint("\x1b[31m"), Insert: paint("\x1b[32m")}
}

// writeAtomically writes a file below a working directory: after a crash it has the old text or the new one.
func writeAtomically(dir workdir.Dir, path string, text []byte, mode os.FileMode) (err error) {
	f, err := dir.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("cannot write %s: %w", path, err)
		}
	}()
	if _, err := f.Write(text); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return dir.Rename(f.Name(), path)
}
