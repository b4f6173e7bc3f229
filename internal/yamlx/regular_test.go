package yamlx

import (
	"strings"
	"testing"
)

// TestRegularWords checks each byte at each offset of a word, beside bytes with which it could be confused:
// texts of any length have the same result as the same bytes in short ones.
func TestRegularWords(t *testing.T) {
	for c := range 256 {
		want := Regular([]byte{byte(c)})
		for _, around := range []string{"a", " ", "\n", "~", "\t"} {
			for at := range 17 {
				text := strings.Repeat(around, at) + string([]byte{byte(c)}) + strings.Repeat(around, 17-at)
				// A carriage return and the start of a character depend on what follows.
				got, want := Regular([]byte(text)), want || c == '\r' && around == "\n" || c >= 0xc2 && Regular([]byte(text[at:]))
				if got != want {
					t.Fatalf("Regular(%q) is %t, want %t", text, got, want)
				}
			}
		}
	}
}
