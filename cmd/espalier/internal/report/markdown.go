package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"espalier.dev/analysis"
)

// MaxMarkdown is the maximum length of Markdown in bytes, so in characters too. GitHub rejects
// comments of more than 65,536 characters, and an action may add its own text.
const MaxMarkdown = 60_000

// Limits within MaxMarkdown, in bytes.
const (
	// markdownFrame is reserved for the title and the summary.
	markdownFrame = 4_000
	// maxMarkdownDetails limits the details of a finding, maxMarkdownText each line.
	maxMarkdownDetails = 10_000
	maxMarkdownText    = 2_000
)

// markdownFormat writes Markdown, as for a comment on a pull request: a list of findings, the worst
// first, then the summary. Long details can be unfolded. It writes everything at the end: if the
// text gets too long, the mildest findings are left out, each as a whole.
type markdownFormat struct {
	w       io.Writer
	options *Options
	// findings are those that are listed, size their length and folded the number of others that
	// are folded.
	findings     worst[markdownItem]
	size, folded int
	// leftOut is the number of findings that are too much, and mildest the worst rank of them.
	leftOut, mildest int
	sections         sections
	// counts has the findings of each section, by severity.
	counts map[string]map[analysis.Severity]int
}

// markdownItem is a finding as text, and its section.
type markdownItem struct{ section, text string }

// shownDetails is the maximum number of lines of details that are shown unfolded.
const shownDetails = 4

func newMarkdown(w io.Writer, o *Options) format {
	return &markdownFormat{w: w, options: o, findings: worst[markdownItem]{most: math.MaxInt}, mildest: ranks,
		counts: map[string]map[analysis.Severity]int{}}
}

func (m *markdownFormat) finding(f *Finding) error {
	if f.Folded {
		m.folded++
		return nil
	}
	if m.counts[f.Section] == nil {
		m.counts[f.Section] = map[analysis.Severity]int{}
	}
	m.counts[f.Section][f.Severity]++
	rank := severityRank(f)
	if rank >= m.mildest {
		m.leftOut++
		return nil
	}
	text := markdownFinding(f)
	m.findings.add(rank, markdownItem{f.Section, text})
	m.sections.saw(f.Section)
	m.size += len(text)
	for m.size > MaxMarkdown-markdownFrame {
		m.mildest = m.findings.mildest()
		m.size -= len(m.findings.drop().text)
		m.leftOut++
	}
	return nil
}

// markdownFinding returns a finding as an item of a list.
func markdownFinding(f *Finding) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- **%s** ", f.Severity)
	if f.Path != "" {
		fmt.Fprintf(&b, "%s: ", codeSpan(f.Path))
	}
	lines := strings.Split(f.Message, "\n")
	b.WriteString(escapeMarkdown(lines[0]))
	if f.Rule != "" {
		fmt.Fprintf(&b, " (%s)", codeSpan(f.Rule))
	}
	if object := f.objectName(); object != "" {
		fmt.Fprintf(&b, ", %s", escapeMarkdown(object))
	}
	if at := f.Location().Position(); at != "" {
		fmt.Fprintf(&b, ", %s", codeSpan(at))
	}
	b.WriteByte('\n')
	writeMarkdownDetails(&b, append(lines[1:], f.details()...))
	return b.String()
}

// writeMarkdownDetails writes lines as a list below a finding, and counts those that are too much.
// A line that is indented belongs to the one before.
func writeMarkdownDetails(b *strings.Builder, lines []string) {
	folded := len(lines) > shownDetails
	if folded {
		fmt.Fprintf(b, "  <details><summary>%s</summary>\n\n", escapeMarkdown(strings.TrimSpace(lines[0])))
		lines = lines[1:]
	}
	start := b.Len()
	for i, line := range lines {
		indent := "  "
		if strings.HasPrefix(line, " ") && !folded {
			indent = "    "
		}
		text := fmt.Sprintf("%s- %s\n", indent, escapeMarkdown(strings.TrimSpace(line)))
		if b.Len()-start+len(text) > maxMarkdownDetails {
			fmt.Fprintf(b, "  - and %s\n", analysis.Plural(len(lines)-i, "more line"))
			break
		}
		b.WriteString(text)
	}
	if folded {
		b.WriteString("\n  </details>\n")
	}
}

// maxMarkdownSteps limits the length of the steps.
const maxMarkdownSteps = 20_000

// markdownSteps returns what to do as a list, with commands as code.
func markdownSteps(s *Summary) string {
	var b strings.Builder
	for i := range s.Steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, escapeMarkdown(s.Steps[i].line()))
		for n, command := range s.Steps[i].Commands {
			text := fmt.Sprintf("   - %s\n", codeSpan(command))
			if b.Len()+len(text) > maxMarkdownSteps {
				fmt.Fprintf(&b, "   - and %s: other formats list all\n", analysis.Plural(len(s.Steps[i].Commands)-n, "more command"))
				break
			}
			b.WriteString(text)
		}
	}
	return b.String()
}

func (m *markdownFormat) close(s *Summary) error {
	var b strings.Builder
	steps := ""
	if !s.Aborted && !s.Interrupted && !m.options.NoSummary {
		steps = markdownSteps(s)
	}
	for m.size+len(steps) > MaxMarkdown-markdownFrame && m.findings.count > 0 {
		m.size -= len(m.findings.drop().text)
		m.leftOut++
	}
	title := func() {
		if b.Len() == 0 {
			fmt.Fprintf(&b, "### %s\n\n", escapeMarkdown(m.options.Command))
		}
	}
	if steps != "" {
		title()
		fmt.Fprintf(&b, "#### Steps\n\n%s\n", steps)
	}
	items, section := slices.Collect(m.findings.all()), ""
	m.sections.each(len(items), func(i int) string { return items[i].section }, func(i int) {
		title()
		if items[i].section != section {
			section = items[i].section
			if !strings.HasSuffix(b.String(), "\n\n") {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "#### %s: %s\n\n", escapeMarkdown(cmp.Or(section, "Other findings")), countLine(m.counts[section]))
		}
		b.WriteString(items[i].text)
	})
	line := func(text string) {
		title()
		fmt.Fprintf(&b, "\n%s\n", text)
	}
	if m.leftOut > 0 {
		line(escapeMarkdown(fmt.Sprintf("%s not shown, because a comment is limited to %d characters: other formats list all",
			analysis.Plural(m.leftOut, "more finding"), MaxMarkdown)))
	}
	if s.Omitted > 0 {
		line(escapeMarkdown(omittedLine(s, m.options)))
	}
	if !s.Aborted && !m.options.NoSummary {
		if m.folded > 0 {
			line(escapeMarkdown(m.options.Folded(m.folded)))
		}
		for _, note := range s.lines() {
			line(escapeMarkdown(note))
		}
		line("**" + escapeMarkdown(summaryLine(s, m.options.What)) + "**")
	}
	_, err := io.WriteString(m.w, b.String())
	return err
}

// countLine returns numbers of findings as text: 2 errors, 1 info.
func countLine(counts map[analysis.Severity]int) string {
	var parts []string
	for _, severity := range []analysis.Severity{analysis.Error, analysis.Warning, analysis.Info} {
		if n := counts[severity]; n > 0 {
			parts = append(parts, analysis.Plural(n, string(severity)))
		}
	}
	return strings.Join(parts, ", ")
}

// markdownEscapes prevents that text is read as Markdown, HTML, a mention of a user, or a
// reference to an issue.
var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "|", `\|`, "~", `\~`,
	"&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "&#64;", "#", "&#35;",
)

func escapeMarkdown(s string) string { return markdownEscapes.Replace(markdownLine(s)) }

// markdownLine returns text as one line of limited length. Escapes take up to five characters for
// one.
func markdownLine(s string) string {
	if len(s) > maxMarkdownText {
		s = strings.ToValidUTF8(s[:maxMarkdownText], "") + "…"
	}
	return OneLine(s)
}

// codeSpan returns text as a code span, delimited by more backticks than the text has in a row.
func codeSpan(s string) string {
	s = markdownLine(s)
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
