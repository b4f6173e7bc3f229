package kinds

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestPage checks that the page about checks lists all kinds.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/kinds.md")
	if err != nil {
		t.Fatal(err)
	}
	words := regexp.MustCompile(`[a-z]+`).FindAllString(string(page), -1)
	for _, r := range Resources() {
		if !slices.Contains(words, r.Plural) {
			t.Errorf("%s is missing", r.GroupResource())
		}
	}
}
