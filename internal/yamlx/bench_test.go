package yamlx

import (
	"testing"

	"sigs.k8s.io/yaml"
)

// BenchmarkJSON compares JSON with sigs.k8s.io/yaml on the files of the corpus.
func BenchmarkJSON(b *testing.B) {
	var docs []*Document
	size := 0
	corpus(b, func(_ string, src []byte) {
		if size > 4<<20 {
			return
		}
		for _, d := range documents(b, src) {
			docs = append(docs, d)
			size += len(d.Source())
		}
	})
	b.Run("espalier", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size))
		for b.Loop() {
			for _, d := range docs {
				_, _ = d.JSON()
			}
		}
	})
	b.Run("sigs", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(size))
		for b.Loop() {
			for _, d := range docs {
				_, _ = yaml.YAMLToJSON(d.Source())
			}
		}
	})
}
