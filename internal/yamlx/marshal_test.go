package yamlx_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/internal/yamlx"
)

// marshalled is a value with everything that matters to the format.
func marshalled() any {
	return map[string]any{
		"texts":   []any{"", "a", "yes", "null", "1", "1e3", "0x1", "~", "- a", "a: b", "a #b", "two\nlines\n", " space", "\t", "ü<&>", "2001-01-01", "\u2028", "=", "'", `"`},
		"numbers": []any{0, -1, int64(math.MaxInt64), 0.1, 1e21, 1.5e-9, 100.0, float64(1 << 53)},
		"others":  []any{nil, true, false, []any{}, map[string]any{}, []any{[]any{1}}},
		"a10":     1, "a9": 2, "A": 3, "1": 4, "true": 5, "": 6,
		"struct": struct {
			Name  string `json:"name,omitempty"`
			Other []int  `json:"other"`
		}{"x", nil},
	}
}

// TestMarshal compares the format with that of sigs.k8s.io/yaml.
func TestMarshal(t *testing.T) {
	t.Parallel()
	values := []any{marshalled(), nil, "a", 1, []any{}}
	files, err := filepath.Glob(filepath.Join("..", "..", "cmd", "espalier", "testdata", "examples", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		values = append(values, v)
	}
	for _, v := range values {
		want, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := yamlx.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if _, err := yamlx.Marshal(func() {}); err == nil {
		t.Error("a function has a form in YAML")
	}
}
