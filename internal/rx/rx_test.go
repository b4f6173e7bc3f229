package rx

import (
	"regexp"
	"strings"
	"testing"
)

var patterns = []string{
	`^(([0-9a-fA-F]{1,4}:){7,7}[0-9a-fA-F]{1,4}|(a(b)(c)(d)))$`, `((a)|(b)|(c)|(d))*x`, `(?i)((A)(B)(C)(D))`, `(?s)(.)(.)(.)(.)`, `((a+)+)+$`, `(?P<n>(x)(y)(z)(w))`,
	`(()()()())`, `((^a)($)|(\b)(\B))`, `([^\n])(\pL)([[:alpha:]])(\x{10FFFF}?)`, `(a{2,3}?)(b{0})(c*?)(d+?)`, `(?U)(a*)(b+)(c?)(d)`, `(\Q(\E)(\()(\))(()))`,
}

var texts = []string{"", "a", "ab", "abc", "ABCD", "aa\nb", "x", "xyzw", "1:2:3:4:5:6:7:8", "aaaaaaaa", "dcbax", "ab\n", "(", "()", "éa", "aabcd"}

// check checks that a pattern without groups matches what it matched with them.
func check(t *testing.T, pattern, text string) {
	t.Helper()
	want, err := regexp.Compile(pattern)
	if err != nil {
		return
	}
	plain := Uncaptured(pattern, 3)
	got, err := regexp.Compile(plain)
	if err != nil {
		t.Fatalf("%q becomes %q, which does not compile: %v", pattern, plain, err)
	}
	if want.NumSubexp() > 3 && got.NumSubexp() != 0 {
		t.Fatalf("%q becomes %q, which has groups", pattern, plain)
	}
	if got.MatchString(text) != want.MatchString(text) {
		t.Fatalf("%q and %q disagree on %q", pattern, plain, text)
	}
}

func TestUncaptured(t *testing.T) {
	for _, pattern := range patterns {
		for _, text := range texts {
			check(t, pattern, text)
		}
	}
	if got := Uncaptured("(a)(b", 1); got != "(a)(b" {
		t.Errorf("an invalid pattern becomes %q", got)
	}
	hostile := Uncaptured(strings.Repeat("(a|b)*", 50_000), 100)
	if re := regexp.MustCompile(hostile); re.NumSubexp() != 0 || !re.MatchString("ab") {
		t.Error("the hostile pattern still has groups")
	}
}

func FuzzUncaptured(f *testing.F) {
	for _, pattern := range patterns {
		f.Add(pattern, "abcd")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) < 200 && len(text) < 200 {
			check(t, pattern, text)
		}
	})
}
