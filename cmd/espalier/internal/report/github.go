package report

import (
	"fmt"
	"io"
	"strings"

	"espalier.dev/analysis"
)

// githubFormat writes workflow commands, which GitHub shows as annotations.
type githubFormat struct {
	w       io.Writer
	options *Options
	folded  int
}

func newGitHub(w io.Writer, o *Options) format { return &githubFormat{w: w, options: o} }

func (g *githubFormat) finding(f *Finding) error {
	if f.Folded {
		g.folded++
		return nil
	}
	command := "notice"
	switch f.Severity {
	case analysis.Error:
		command = "error"
	case analysis.Warning:
		command = "warning"
	}
	var properties []string
	property := func(name, value string) {
		properties = append(properties, name+"="+escapeProperty.Replace(printable(value)))
	}
	at := g.options.inTree(f.Location())
	if at.File != "" {
		property("file", at.File)
	}
	if at.Line > 0 {
		property("line", fmt.Sprint(at.Line))
	}
	if at.Column > 0 {
		property("col", fmt.Sprint(at.Column))
	}
	if at.EndLine > 0 {
		property("endLine", fmt.Sprint(at.EndLine))
		property("endColumn", fmt.Sprint(at.EndColumn))
	}
	title := f.objectName()
	if title != "" && f.Rule != "" {
		title += ": "
	}
	if title += f.Rule; title != "" {
		property("title", title)
	}
	message := f.fullMessage()
	if f.Path != "" {
		message = f.Path + ": " + message
	}
	_, err := fmt.Fprintf(g.w, "::%s %s::%s\n", command, strings.Join(properties, ","), escapeData.Replace(printableLines(message)))
	return err
}

// Escapes for messages and properties of workflow commands.
var (
	escapeData     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	escapeProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func (g *githubFormat) close(s *Summary) error {
	if s.Omitted > 0 {
		if _, err := fmt.Fprintln(g.w, omittedLine(s, g.options)); err != nil {
			return err
		}
	}
	if s.Aborted || g.options.NoSummary {
		return nil
	}
	if g.folded > 0 {
		if _, err := fmt.Fprintln(g.w, g.options.Folded(g.folded)); err != nil {
			return err
		}
	}
	for _, note := range s.lines() {
		if _, err := fmt.Fprintln(g.w, note); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(g.w, summaryLine(s, g.options.What))
	return err
}
