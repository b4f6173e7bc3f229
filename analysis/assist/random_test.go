package assist_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRandom changes the documents of the golden files at random, and asks everything about them.
func TestRandom(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, file := range files {
		cases, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range strings.Split(string(cases), "\n=== ") {
			_, rest, _ := strings.Cut(c, "\n")
			document, _, _ := strings.Cut(rest, ">>>\n")
			documents = append(documents, strings.Replace(document, cursor, "", 1))
		}
	}
	pieces := []string{"\n", "  ", "- ", ": ", ":", "{", "}", "[", "]", ",", `"`, "'", "|", "#", " #", "\t", "\r\n", "&a ", "*a", "!!x ", "{{ x }}", "a", "---\n", "\\"}
	r := rand.New(rand.NewPCG(1, 2))
	rounds := 300
	if testing.Short() {
		rounds = 50
	}
	for range rounds {
		text := []byte(documents[r.IntN(len(documents))])
		for range 1 + r.IntN(4) {
			if len(text) == 0 {
				break
			}
			at := r.IntN(len(text))
			switch r.IntN(4) {
			case 0:
				text = slices.Concat(text[:at], []byte(pieces[r.IntN(len(pieces))]), text[at:])
			case 1:
				text = text[:at]
			case 2:
				text = slices.Concat(text[:at], text[min(len(text), at+r.IntN(10)):])
			default:
				from := r.IntN(len(text))
				text = slices.Concat(text[:at], text[from:min(len(text), from+40)], text[at:])
			}
		}
		for range 4 {
			everything(t, text, r.IntN(len(text)+1))
		}
	}
}
