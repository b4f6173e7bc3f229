package fix

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/internal/jsonx"
	"espalier.dev/internal/yamledit"
)

// newEditor returns the editor of a document in YAML.
func newEditor(t *testing.T, text string) *editor {
	t.Helper()
	return &editor{tree: value(t, text)}
}

func value(t *testing.T, text string) any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonx.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := jsonx.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestBecome checks that a value becomes another one with few edits.
func TestBecome(t *testing.T) {
	for _, tt := range []struct{ have, want, edits string }{
		{`{a: 1}`, `{a: 1}`, ""},
		{`{a: 1}`, `{a: 2, b: null}`, "set /v/a 2, set /v/b null"},
		{`{a: 1, b: {c: 1, d: 2}}`, `{b: {c: 3}}`, "remove /v/a, remove /v/b/d, set /v/b/c 3"},
		{`{a: 1}`, `[]`, "set /v []"},
		{`[1]`, `{}`, "set /v {}"},
		{`[1, 2, 3]`, `[1, 4, 3]`, "set /v/1 4"},
		{`[1, 2, 3, 4]`, `[2, 4]`, "remove /v/2, remove /v/0"},
		{`[1, 2, 3]`, `[3, 2]`, "set /v [3,2]"},
		{`[1, 2]`, `[1, 2, 3]`, "set /v [1,2,3]"},
		{`[1, 2]`, `[]`, "set /v []"},
		{`[]`, `[]`, ""},
		{`[]`, `[1]`, "set /v [1]"},
		{`null`, `null`, ""},
		{`a`, `b`, `set /v "b"`},
	} {
		e := newEditor(t, "v: "+tt.have)
		e.become(value(t, tt.want), "v")
		var edits []string
		for _, edit := range e.edits {
			line := fmt.Sprintf("%s %s", edit.Op, edit.Pointer)
			if edit.Op == yamledit.Set {
				line += " " + text(t, edit.Value)
			}
			edits = append(edits, line)
		}
		if got := strings.Join(edits, ", "); got != tt.edits || e.err != nil {
			t.Errorf("%s to %s: %s, %v, want %s", tt.have, tt.want, got, e.err, tt.edits)
		}
		if got, want := text(t, e.object()["v"]), text(t, value(t, tt.want)); got != want {
			t.Errorf("%s becomes %s, not %s", tt.have, got, want)
		}
	}
	e := newEditor(t, "{}")
	if e.become(nil, "v"); len(e.edits) != 1 {
		t.Errorf("a missing value becomes null with %v", e.edits)
	}
}
