package yamledit

import (
	"strconv"
	"testing"

	"espalier.dev/internal/yamlx"
	"espalier.dev/internal/yamlx/yamltest"
)

// BenchmarkEdit applies many edits to a large document.
func BenchmarkEdit(b *testing.B) {
	var large *yamlx.Document
	yamltest.Corpus(b, func(_ string, src []byte) {
		if large == nil || len(src) > len(large.Source()) {
			large = documents(b, src)[0]
		}
	})
	var edits []Edit
	for i := range 100 {
		edits = append(edits, Edit{Op: Set, Pointer: "/metadata/annotations/a" + strconv.Itoa(i), Value: i})
	}
	b.SetBytes(int64(len(large.Source())))
	for b.Loop() {
		if _, err := Apply(large, edits...); err != nil {
			b.Fatal(err)
		}
	}
}
