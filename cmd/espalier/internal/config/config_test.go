package config

import "testing"

// testRules are some rules.
func testRules() Rules {
	return Rules{Lint: []string{"list-type"}, Selectors: []string{"all"}, Validate: []string{"unknown-field", "validation/pattern"}, Diff: []string{"safe"}, All: []string{"list-type", "unknown-field", "validation/pattern", "validation/enum"}}
}

func TestIgnoreMatch(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`
ignore:
- {rules: [validation/*], paths: [a/*.yaml, legacy], fields: ["spec.ports[].name", 'spec.**.x', 'metadata.annotations["example.com/a"]'], reason: r}
- {rules: [all], paths: [b.yaml], reason: r}
`), Name, "/project", testRules())
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		entry             int
		rule, file, field string
		want              bool
	}{
		{0, "validation/pattern", "a/x.yaml", "spec.ports[3].name", true},
		{0, "validation/pattern", "a/x.yaml", "spec.ports[3].name.below", true},
		{0, "validation/pattern", "a/x.yaml", "spec.ports[3]", false},
		{0, "validation/pattern", "a/x.yaml", "spec.names[3].name", false},
		{0, "validation/enum", "x/legacy/y.yaml", "spec.a.b.x", true},
		{0, "validation/enum", "x/legacy/y.yaml", "spec.x", true},
		{0, "validation/enum", "x/legacy/y.yaml", "x", false},
		{0, "validation/enum", "a/x.yaml", "metadata.annotations[example.com/a]", true},
		{0, "validation/enum", "a/b/x.yaml", "spec.x", false},
		{0, "list-type", "a/x.yaml", "spec.x", false},
		{1, "list-type", "c/b.yaml", "", true},
		{1, "list-type", "c/c.yaml", "", false},
	} {
		if got := f.Ignore[test.entry].Match(test.rule, test.file, test.field); got != test.want {
			t.Errorf("entry %d matches %s, %s, %s: %v", test.entry, test.rule, test.file, test.field, got)
		}
	}
}
