package pages

import (
	"regexp"
	"strings"
)

// A CodeLine is a line of a code block, or code within a line of text.
type CodeLine struct {
	Line int
	Text string
	// Inline is set for code within text. It may be a part of a command.
	Inline bool
}

// CodeLines returns the lines of all blocks, also of those that are not run, and the code within text.
// A line that a backslash continues is one line.
func (p Page) CodeLines() (lines []CodeLine) {
	for _, b := range p.Blocks {
		n, next := b.Line, CodeLine{}
		for line := range strings.Lines(b.Text) {
			if n++; next.Text == "" {
				next.Line = n
			}
			rest, continued := strings.CutSuffix(strings.TrimSuffix(line, "\n"), `\`)
			next.Text += rest
			if !continued {
				lines, next = append(lines, next), CodeLine{}
			}
		}
	}
	return append(lines, p.spans...)
}

// commandEnd matches what ends a command in a shell or in a sentence, and comments.
var commandEnd = regexp.MustCompile("\\s+(?:2?>|\\||&|#|//)|[;)`]|,(?:\\s|$)")

// CommandsOf returns the commands in a line that run a program: at its beginning, or after a prompt, a key
// of YAML, variables, a pipe, or the like.
func CommandsOf(line, program string) (commands []string) {
	start := regexp.MustCompile(`(?:^|[\s"'(/` + "`" + `])` + regexp.QuoteMeta(program) + `\s+(--[a-z]|[a-z][a-z-]*(?:$|[^\w.-]))`)
	for rest := line; ; {
		m := start.FindStringSubmatchIndex(rest)
		if m == nil {
			return commands
		}
		before, text, path := strings.TrimRight(rest[:m[0]], " "), rest[m[2]:], rest[m[0]] == '/'
		rest = text
		if path && strings.HasPrefix(text, "--") || strings.HasSuffix(before, " -n") || strings.HasSuffix(before, " -u") {
			continue // the name of a directory, a namespace or a user
		}
		if end := commandEnd.FindStringIndex(quoted.ReplaceAllStringFunc(text, func(q string) string { return strings.Repeat("x", len(q)) })); end != nil {
			text = text[:end[0]]
		}
		for _, quote := range []string{`"`, "'"} {
			if strings.Count(text, quote)%2 != 0 { // the command is quoted
				text = text[:strings.LastIndex(text, quote)]
			}
		}
		commands = append(commands, program+" "+strings.TrimSpace(text))
	}
}

// quoted matches what a shell does not interpret.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)
