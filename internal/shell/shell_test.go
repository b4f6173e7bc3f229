package shell_test

import (
	"testing"

	"espalier.dev/internal/shell"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"/a/b-c_d.e": "/a/b-c_d.e", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "ü": "ü",
		"HEAD~1:a^": "HEAD~1:a^", "~root/a": "'~root/a'", "$(id).example.com": "'$(id).example.com'", "a\nb": "'a\nb'", "-n": "-n", "*": "'*'",
	} {
		if got := shell.Quote(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
