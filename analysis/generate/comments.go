package generate

import (
	"strings"
	"unicode"
)

// CommentLines returns the lines of a text for a comment, without white space at their ends.
// Characters that are not printable, or that end lines in some languages, are replaced. It
// returns nothing for a text without visible characters.
func CommentLines(text string) (lines []string) {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	for line := range strings.Lines(strings.ToValidUTF8(text, "\uFFFD")) {
		line = strings.Map(func(r rune) rune {
			if r == '\t' || !unicode.IsControl(r) && r != '\u2028' && r != '\u2029' {
				return r
			}
			return ' '
		}, line)
		lines = append(lines, strings.TrimRight(line, " \t"))
	}
	return lines
}
