package textdiff

import (
	"strings"
	"unicode/utf8"
)

// Printable returns a line in which control characters other than tabs are replaced, because a text
// may contain escape sequences that manipulate the terminal.
func Printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == '\u2028' || r == '\u2029' ||
			r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\ufffd'
		}
		return r
	}, line)
}
