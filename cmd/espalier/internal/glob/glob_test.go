package glob

import "testing"

func TestFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, path string
		isDir, want   bool
	}{
		{"a.yaml", "a.yaml", false, true},
		{"a.yaml", "x/y/a.yaml", false, true},
		{"./a.yaml", "a.yaml", false, true},
		{"./a.yaml", "x/a.yaml", false, false},
		{"/a.yaml", "x/a.yaml", false, false},
		{"vendor", "vendor/x.yaml", false, true},
		{"vendor", "x/vendor/y/x.yaml", false, true},
		{"vendor", "vendored/x.yaml", false, false},
		{"vendor/", "vendor", false, false},
		{"vendor/", "vendor", true, true},
		{"vendor/", "a/vendor/b.yaml", false, true},
		{"./vendor/", "a/vendor/b.yaml", false, false},
		{"**/vendor/", "a/vendor/b.yaml", false, true},
		{"x/*.yaml", "x/a.yaml", false, true},
		{"x/*.yaml", "x/y/a.yaml", false, false},
		{"x/**", "x/y/a.yaml", false, true},
		{"x/**/a.yaml", "x/a.yaml", false, true},
		{"**/a?.yaml", "x/a1.yaml", false, true},
		{"x/[ab].yaml", "x/c.yaml", false, false},
		{"x/[!ab].yaml", "x/c.yaml", false, true},
	} {
		f, err := ParseFile(test.pattern)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
		}
		if got := f.Match(test.path, test.isDir); got != test.want {
			t.Errorf("%s matches %s: %v", test.pattern, test.path, got)
		}
	}
	for _, bad := range []string{"", "a//b", "[", "x/[a-/y"} {
		if _, err := ParseFile(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]struct {
		base  string
		exact bool
	}{
		"a.yaml":       {".", false},
		"x/a.yaml":     {"x/a.yaml", true},
		"x/y/*.yaml":   {"x/y", false},
		"x/*/a.yaml":   {"x", false},
		"x/**":         {"x", false},
		"./*.yaml":     {".", false},
		"**/crds/*.js": {".", false},
	} {
		f, err := ParseFile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if base, exact := f.Literal(); base != want.base || exact != want.exact {
			t.Errorf("%s: got %s, %v", pattern, base, exact)
		}
	}
}
