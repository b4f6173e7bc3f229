package answers

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"espalier.dev/internal/pages"
)

// TestDocumented compares the table of the documentation with the list of differences, which has a reason
// for each.
func TestDocumented(t *testing.T) {
	listed, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	reason, n := "", 0
	end := func() {
		if n > 0 {
			rows = append(rows, []string{pages.Escape(reason), strconv.Itoa(n)})
		}
		n = 0
	}
	for line := range strings.Lines(string(listed)) {
		line = strings.TrimSuffix(line, "\n")
		switch text, begins := strings.CutPrefix(line, "# "); {
		case begins:
			end()
			reason = text
		case line != "":
			n++
		}
		if reason == unexplained {
			t.Fatal("a difference has no reason: repair it, or add a reason to reasons.go")
		}
	}
	end()
	g := pages.Generator{Command: "go test ./answers -run TestDocumented -update (in test/oracle)", Update: *update}
	g.Part(t, "docs/reference/kinds.md", "answers", pages.Table([]string{"difference", "answers"}, rows))
}
