package espalier

import (
	"os"
	"strings"
	"testing"
)

// TestReadme holds the code that README.md shows, and what it says that prints, to
// the example that is compiled and run.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(readme), "```go\nvar definition")
	code, rest, ok := strings.Cut("var definition"+code, "\n```\nprints\n```\n")
	if !ok {
		t.Fatal("the example was not found in README.md")
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
