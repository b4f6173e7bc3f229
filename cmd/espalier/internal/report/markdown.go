package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// markdownFormat writes Markdown, as for a comment on a pull request: a list of findings, then
// the summary. Long details can be unfolded.
type markdownFormat struct {
	w       *bufio.Writer
	options *Options
	// count is the number of findings that are listed, folded the number of the others.
	count, folded int
	// section is that of the last finding.
	section string
}

// shownDetails is the maximum number of lines of details that are shown unfolded.
const shownDetails = 4

func newMarkdown(w io.Writer, o *Options) format {
	return &markdownFormat{w: bufio.NewWriter(w), options: o}
}

// title writes the title before the first line.
func (m *markdownFormat) title() {
	if m.count == 0 {
		fmt.Fprintf(m.w, "### %s\n\n", escapeMarkdown(m.options.Command))
	}
	m.count++
}

func (m *markdownFormat) finding(f *Finding) error {
	if f.Folded {
		m.folded++
		return nil
	}
	m.title()
	if f.Section != m.section {
		m.section = f.Section
		fmt.Fprintf(m.w, "\n#### %s\n\n", escapeMarkdown(cmp.Or(f.Section, "Other findings")))
	}
	fmt.Fprintf(m.w, "- **%s** ", f.Severity)
	if f.Path != "" {
		fmt.Fprintf(m.w, "%s: ", codeSpan(f.Path))
	}
	lines := strings.Split(f.Message, "\n")
	m.w.WriteString(escapeMarkdown(lines[0]))
	if f.Rule != "" {
		fmt.Fprintf(m.w, " (%s)", codeSpan(f.Rule))
	}
	if object := f.objectName(); object != "" {
		fmt.Fprintf(m.w, ", %s", escapeMarkdown(object))
	}
	if at := f.Location().Position(); at != "" {
		fmt.Fprintf(m.w, ", %s", codeSpan(at))
	}
	m.w.WriteByte('\n')
	m.details(append(lines[1:], f.details()...))
	return m.w.Flush()
}

// details writes lines as a list below a finding. A line that is indented belongs to the one
// before.
func (m *markdownFormat) details(lines []string) {
	folded := len(lines) > shownDetails
	if folded {
		fmt.Fprintf(m.w, "  <details><summary>%s</summary>\n\n", escapeMarkdown(strings.TrimSpace(lines[0])))
		lines = lines[1:]
	}
	for _, line := range lines {
		indent := "  "
		if strings.HasPrefix(line, " ") && !folded {
			indent = "    "
		}
		fmt.Fprintf(m.w, "%s- %s\n", indent, escapeMarkdown(strings.TrimSpace(line)))
	}
	if folded {
		m.w.WriteString("\n  </details>\n")
	}
}

func (m *markdownFormat) close(s *Summary) error {
	line := func(text string) {
		m.title()
		fmt.Fprintf(m.w, "\n%s\n", text)
	}
	if s.Omitted > 0 {
		line(escapeMarkdown(omittedLine(s, m.options)))
	}
	if !s.Aborted && !m.options.NoSummary {
		if m.folded > 0 {
			line(escapeMarkdown(m.options.Folded(m.folded)))
		}
		if s.SkippedLine != "" {
			line(escapeMarkdown(s.SkippedLine))
		}
		line("**" + escapeMarkdown(summaryLine(s, m.options.What)) + "**")
	}
	return m.w.Flush()
}

// markdownEscapes prevents that text is read as Markdown, HTML, a mention of a user, or a
// reference to an issue.
var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "&#64;", "#", "&#35;",
)

func escapeMarkdown(s string) string { return markdownEscapes.Replace(OneLine(s)) }

// codeSpan returns text as a code span, delimited by more backticks than the text has in a row.
func codeSpan(s string) string {
	s = OneLine(s)
	longest, run := 0, 0
	for _, c := range s {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}
