package sample

import (
	"regexp"
	"testing"
)

func TestMatching(t *testing.T) {
	for _, pattern := range []string{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`,
		`^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$`,
		`^([0-9]{1,3}\.){3}[0-9]{1,3}$`,
		`^(?i:abc)\b`,
		`^$`,
		`^[^a-zA-Z0-9]+$`,
		`^\S{3,5}\s\p{Greek}$`,
		`^(([^:/?#]+):)?(//([^/?#]*))?([^?#]*)(\?([^#]*))?(#(.*))?`,
		`^x{2,}y?z*$`,
	} {
		list := matching(pattern, 0, 0)
		if len(list) == 0 {
			t.Errorf("%s: nothing", pattern)
		}
		for _, s := range list {
			if !regexp.MustCompile(pattern).MatchString(s) {
				t.Errorf("%s: %q does not match", pattern, s)
			}
		}
	}
	for _, pattern := range []string{`(`, `(?!x)`, `[^\x00-\x{10FFFF}]`} {
		if list := matching(pattern, 0, 0); len(list) > 0 {
			t.Errorf("%s: got %q", pattern, list)
		}
	}
	if list := matching(`^[a-z]+$`, 100, 0); len(list[len(list)-1]) != 100 {
		t.Errorf("minLength: got %q", list)
	}
}
