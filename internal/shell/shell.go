// Package shell writes words for commands that people copy into a shell.
package shell

import (
	"strings"
	"unicode"
)

// Quote returns a word as a shell reads it, in quotes where necessary.
func Quote(word string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@%+=,~^", r)
	}
	if word != "" && word[0] != '~' && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
