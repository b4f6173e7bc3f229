package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	known := []string{"replicas", "replica", "image", "imagePullPolicy", "a"}
	for _, c := range []struct{ name, want string }{
		{"replica", "replica"},
		{"repilcas", "replicas"},
		{"Image", "image"},
		{"imgae", "image"},
		{"imagepullpolice", "imagePullPolicy"},
		{"b", ""},
		{"A", "a"},
		{"ab", "a"},
		{"volumes", ""},
		{"", ""},
		{strings.Repeat("x", 1000), ""},
	} {
		if got := Name(c.name, slices.Values(known)); got != c.want {
			t.Errorf("Name(%.20q) = %q, want %q", c.name, got, c.want)
		}
	}
}
