package rx

import (
	"strings"
	"testing"
)

func TestTooMuchWork(t *testing.T) {
	long := strings.Repeat("a", 900_000)
	for i, test := range []struct {
		pattern, text string
		once, all     bool
	}{
		{"^a+$", long, true, true},
		{"a", long[:50_000], true, true},
		{"", long[:50_000], true, true},
		{"b*", long[:50_000], true, true},
		{"é?", strings.Repeat("é", 20_000), true, true},
		{"^[a-z]{1,100}$", long, true, true},
		{"^(.*a){1000}$", long, false, false},
		{"^(.*a){1000}$", long[:10_000], true, true},
		{"^(.*a){1000}$", "", true, true},
		// Few of the instructions matter.
		{strings.Repeat("(x.*a|yb)", 1_000), long, true, false},
		{"^(a?){1000}a{1000}$", strings.Repeat("a", 2_500_000), true, true},
		{"^(a|b){1000}$", long, true, true},
		{"(a?){1000}a{1000}$", strings.Repeat("a", 2_500_000), false, false},
		{"(?i)" + strings.Repeat("abc|xyz|", 2_000), long[:1_000], true, true},
		// Each of the matches reads all the rest of the text.
		{"a.*b|a", long, true, false},
		{"a.*b|a", long[:1_000], true, true},
	} {
		if testing.Short() && len(test.text) > 100_000 && i > 0 {
			continue // the long texts take a second each; TestTooMuchWorkOfTexts exceeds the limit, too
		}
		re, err := Compile(test.pattern, 16)
		if err != nil {
			t.Fatal(err)
		}
		name := test.pattern[:min(20, len(test.pattern))]
		if err := re.Check(test.text); (err == nil) != test.once {
			t.Errorf("%s, %d bytes, once: %v", name, len(test.text), err)
		}
		if err := re.CheckAll(test.text); (err == nil) != test.all {
			t.Errorf("%s, %d bytes, all: %v", name, len(test.text), err)
		}
		var work Work
		if work.Match(re, test.text); (work.Err() == nil) != test.once || work.Exceeded() == test.once {
			t.Errorf("%s, %d bytes: %v", name, len(test.text), work.Err())
		}
	}
	if _, err := Compile("(", 16); err == nil {
		t.Error("an invalid pattern is compiled")
	}
}

// TestCount compares what is counted with package regexp.
func TestCount(t *testing.T) {
	for _, pattern := range append(patterns, `\Ba`, `(?m)^b$`, `a*?b`, `^$`, `[^a]`, `(?i)K`) {
		re, err := Compile(pattern, 16)
		if err != nil {
			continue // another test has it
		}
		for _, text := range append(texts, "\xff", "K") {
			for _, find := range []bool{false, true} {
				got, steps := re.count(text, MaxWork, find)
				if got != re.MatchString(text) || steps > 3*re.size()*(len(text)+2) {
					t.Errorf("%s, %q: %t after %d steps", pattern, text, got, steps)
				}
			}
		}
	}
}

// TestTooMuchWorkOfTexts matches many texts, each of which is short enough.
func TestTooMuchWorkOfTexts(t *testing.T) {
	re, err := Compile("^(.*a){1000}$", 16)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("a", 10_000)
	var work Work
	n := 0
	for ; n < 100 && !work.Exceeded(); n++ {
		if work.Match(re, text) == work.Exceeded() {
			t.Errorf("text %d: %v", n, work.Err())
		}
	}
	if n < 2 || n > 10 {
		t.Errorf("%d texts are matched", n)
	}
	// The work of short texts has a bound of its own.
	if !work.Match(re, text[:1000]) || work.Err() != nil {
		t.Error(work.Err())
	}
}
