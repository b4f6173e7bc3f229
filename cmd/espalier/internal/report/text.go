package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"espalier.dev/analysis"
	"espalier.dev/internal/textdiff"
)

// Colours of text output, as most compilers use them.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	blue   = "\x1b[1;34m"
	green  = "\x1b[32m"
	reset  = "\x1b[0m"
)

// textFormat writes text for people: position, message, and the line with a caret.
type textFormat struct {
	w       *bufio.Writer
	color   bool
	options *Options
	// count is the number of findings that are listed, folded the number of the others.
	count, folded int
	// section is that of the last finding.
	section string
}

func newText(w io.Writer, color bool, o *Options) format {
	return &textFormat{w: bufio.NewWriter(w), color: color, options: o}
}

// paint returns coloured text.
func (t *textFormat) paint(color, text string) string {
	if !t.color || text == "" {
		return text
	}
	return color + text + reset
}

func severityColor(s analysis.Severity) string {
	switch s {
	case analysis.Error:
		return red
	case analysis.Warning:
		return yellow
	}
	return blue
}

func (t *textFormat) finding(f *Finding) error {
	if f.Folded {
		t.folded++
		return nil
	}
	if f.Section != t.section {
		t.section = f.Section
		if t.count > 0 {
			t.w.WriteByte('\n')
		}
		if f.Section != "" {
			fmt.Fprintf(t.w, "%s\n", t.paint(bold, f.Section+":"))
		}
	}
	t.count++
	if at := f.Location().Position(); at != "" {
		fmt.Fprintf(t.w, "%s ", t.paint(bold, printable(at)+":"))
	}
	fmt.Fprintf(t.w, "%s ", t.paint(severityColor(f.Severity), string(f.Severity)+":"))
	if f.Path != "" {
		fmt.Fprintf(t.w, "%s: ", OneLine(f.Path))
	}
	lines := strings.Split(f.Message, "\n")
	fmt.Fprintf(t.w, "%s", printable(lines[0]))
	if f.Rule != "" {
		fmt.Fprintf(t.w, " [%s]", f.Rule)
	}
	if object := f.objectName(); object != "" {
		fmt.Fprintf(t.w, " (%s)", OneLine(object))
	}
	t.w.WriteByte('\n')
	number := strconv.Itoa(f.Span.Line)
	if f.Span.Line == 0 {
		number = " "
	}
	margin := strings.Repeat(" ", len(number))
	if f.Source.Text != "" {
		source, before, length := excerpt(f)
		fmt.Fprintf(t.w, " %s | %s\n", number, source)
		fmt.Fprintf(t.w, " %s | %s%s\n", margin, before, t.paint(severityColor(f.Severity), strings.Repeat("^", length)))
	} else {
		margin = " "
	}
	for _, line := range append(lines[1:], f.details()...) {
		fmt.Fprintf(t.w, " %s = %s\n", margin, printable(line))
	}
	if f.Fix != nil {
		fmt.Fprintf(t.w, " %s = %s %s\n", margin, t.paint(green, "fix:"), printable(f.Fix.Message))
	}
	return t.flush()
}

// flush writes the buffered text, so that findings appear at once.
func (t *textFormat) flush() error { return t.w.Flush() }

// excerpt returns the offending line or, for a long line, the part around the position, the
// indentation of the carets, and their number.
func excerpt(f *Finding) (source, before string, length int) {
	runes := []rune(f.Source.Text)
	column := min(max(f.Span.Column-1-f.Source.Skipped, 0), len(runes))
	end := column + 1
	if f.Span.EndLine == f.Span.Line && f.Span.EndColumn > f.Span.Column {
		end = min(f.Span.EndColumn-1-f.Source.Skipped, len(runes))
	}
	var b strings.Builder
	source = printable(f.Source.Text)
	if f.Source.Skipped > 0 {
		source = "…" + source
		b.WriteByte(' ')
	}
	if f.Source.More {
		source += "…"
	}
	for _, r := range runes[:column] {
		// Keep tabs, to align with the line above.
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
	}
	return source, b.String(), max(end-column, 1)
}

// printable replaces control characters, because input may contain escape sequences that
// manipulate the terminal.
func printable(s string) string { return textdiff.Printable(s) }

// printableLines is printable for text with several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// OneLine returns text without control characters, for a line of output.
func OneLine(s string) string { return printable(strings.ReplaceAll(s, "\n", " ")) }

func (t *textFormat) close(s *Summary) error {
	if s.Aborted {
		// The text does not have the finding that counts: the caller reports the error.
		others := *s
		others.Errors--
		others.Failures--
		s = &others
	}
	if s.Omitted > 0 {
		fmt.Fprintln(t.w, omittedLine(s, t.options))
	}
	if nothing := s.Objects == 0 || !s.Interrupted; t.options.NoSummary || t.count == 0 && (t.options.Quiet || s.Aborted && nothing) {
		return t.flush()
	}
	color := green
	switch {
	case s.Interrupted:
		color = yellow
	case s.Errors > 0:
		color = red
	case s.Warnings > 0:
		color = yellow
	}
	if t.count > 0 {
		t.w.WriteByte('\n')
	}
	t.steps(s)
	if t.folded > 0 {
		fmt.Fprintln(t.w, t.options.Folded(t.folded))
	}
	for _, note := range s.lines() {
		fmt.Fprintln(t.w, note)
	}
	fmt.Fprintln(t.w, t.paint(color, summaryLine(s, t.options.What)))
	return t.flush()
}

// steps writes what to do.
func (t *textFormat) steps(s *Summary) {
	if len(s.Steps) == 0 || s.Aborted || s.Interrupted {
		return
	}
	fmt.Fprintln(t.w, t.paint(bold, "Steps:"))
	for i := range s.Steps {
		fmt.Fprintf(t.w, "%3d. %s\n", i+1, OneLine(s.Steps[i].line()))
		for _, command := range s.Steps[i].Commands {
			fmt.Fprintf(t.w, "       %s\n", OneLine(command))
		}
	}
	t.w.WriteByte('\n')
}

// omittedLine says how many findings are not shown because there are too many.
func omittedLine(s *Summary, o *Options) string {
	return fmt.Sprintf("%s not shown: --max-findings is %d", analysis.Plural(s.Omitted, "more finding"), o.MaxFindings)
}

// SetWhat changes the noun for an input in the summary.
func (r *Reporter) SetWhat(noun string) { r.options.What = noun }

// summaryLine returns the summary as text.
func summaryLine(s *Summary, what string) string {
	var found []string
	for _, c := range []struct {
		n    int
		noun string
	}{{s.Errors, "error"}, {s.Warnings, "warning"}, {s.Infos, "info"}} {
		if c.n > 0 {
			found = append(found, analysis.Plural(c.n, c.noun))
		}
	}
	text := "no findings"
	if len(found) > 0 {
		text = strings.Join(found, ", ")
	}
	if s.Verdict != "" {
		text = s.Verdict
	}
	if s.Verdict == "" || s.Objects > 0 {
		text += " in " + analysis.Plural(s.Objects, what)
	}
	if s.Skipped > 0 {
		noun := "object"
		if what != noun {
			noun = "other object"
		}
		text += fmt.Sprintf(", %s skipped", analysis.Plural(s.Skipped, noun))
	}
	if s.Others > 0 {
		text += fmt.Sprintf(", %s skipped", analysis.Plural(s.Others, "other document"))
	}
	if s.Suppressed > 0 {
		text += fmt.Sprintf(", %s suppressed", analysis.Plural(s.Suppressed, "finding"))
	}
	if s.Hidden > 0 {
		text += fmt.Sprintf(", %s hidden by --min-severity", analysis.Plural(s.Hidden, "finding"))
	}
	if s.Failures > 0 {
		text += fmt.Sprintf(", %s could not be processed", analysis.Plural(s.Failures, "input"))
	}
	if s.Note != "" {
		text += ": " + s.Note
	}
	if s.Interrupted {
		text = "interrupted: " + text + " so far"
	}
	return text + " (semantics: " + s.Semantics + ")"
}
