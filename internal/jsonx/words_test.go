package jsonx

import (
	"strings"
	"testing"
)

// TestWords compares the words of eight bytes with single bytes: each byte at each offset, beside others
// that a subtraction could mistake for it.
func TestWords(t *testing.T) {
	check := func(s string) {
		t.Helper()
		for from := range len(s) + 1 {
			want := from
			for want < len(s) && plain[s[want]] {
				want++
			}
			if got := plainEnd(s, from); got != want {
				t.Fatalf("plainEnd(%q, %d): got %d, want %d", s, from, got, want)
			}
			want = from
			for want < len(s) && s[want] >= 0x20 && s[want] != '"' && s[want] != '\\' {
				want++
			}
			if got := escapeAt(s, from); got != want {
				t.Fatalf("escapeAt(%q, %d): got %d, want %d", s, from, got, want)
			}
			if got := escapeAt([]byte(s), from); got != want {
				t.Fatalf("escapeAt of bytes %q, %d: got %d, want %d", s, from, got, want)
			}
		}
	}
	for c := range 256 {
		for at := range 17 {
			for _, around := range []string{"a", " ", "!", "#", "[", "]", "\x7f", "\x80", "\xff"} {
				s := strings.Repeat(around, at) + string([]byte{byte(c)}) + strings.Repeat(around, 17-at)
				check(s)
				check(s[:at+1])
			}
		}
	}
}
