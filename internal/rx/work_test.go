package rx

import (
	"strings"
	"testing"
)

func TestWork(t *testing.T) {
	long := strings.Repeat("a", 900_000)
	for _, test := range []struct {
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
		{strings.Repeat("(x.*a|yb)", 1_000), long, false, false},
		{"(?i)" + strings.Repeat("abc|xyz|", 2_000), long[:1_000], true, true},
		// Each of the matches reads all the rest of the text.
		{"a.*b|a", long, true, false},
		{"a.*b|a", long[:1_000], true, true},
	} {
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
		if test.once {
			if _, err := re.Match(test.text); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Compile("(", 16); err == nil {
		t.Error("an invalid pattern is compiled")
	}
}
