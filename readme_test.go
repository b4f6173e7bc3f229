package espalier

import (
	"os"
	"strings"
	"testing"
)

// TestReadme compares the code and the output that README.md shows with the example that
// is compiled and run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(readme), "```go\nctx :=")
	code, rest, ok := strings.Cut("ctx :="+code, "\n```\nprints\n```\n")
	if !ok {
		t.Fatal("README.md does not have the example")
	}
	output, _, _ := strings.Cut(rest, "\n```")

	have := map[string]bool{}
	for line := range strings.Lines(string(example)) {
		have[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); !have[line] {
			t.Errorf("README.md shows a line that the example does not have: %s", line)
		}
	}
	for line := range strings.Lines(output) {
		if line = "// " + strings.TrimSpace(line); !have[line] {
			t.Errorf("README.md shows output that the example does not have: %s", line)
		}
	}
}
