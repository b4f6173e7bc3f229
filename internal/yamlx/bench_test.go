package yamlx

import (
	"bytes"
	"testing"

	"sigs.k8s.io/yaml"

	"espalier.dev/internal/yamlx/yamltest"
)

// BenchmarkJSON compares JSON with sigs.k8s.io/yaml on the files of the corpus.
func BenchmarkJSON(b *testing.B) {
	var docs []*Document
	size := 0
	yamltest.Corpus(b, func(_ string, src []byte) {
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

// BenchmarkReader reads a stream of documents, as YAML and as JSON.
func BenchmarkReader(b *testing.B) {
	var asYAML, asJSON bytes.Buffer
	yamltest.Corpus(b, func(_ string, src []byte) {
		if asYAML.Len() > 4<<20 {
			return
		}
		for _, d := range documents(b, src) {
			if text, err := d.JSON(); err == nil && !d.Empty() {
				asYAML.WriteString("---\n")
				asYAML.Write(bytes.TrimPrefix(d.Source(), []byte("---\n")))
				asYAML.WriteByte('\n')
				asJSON.Write(text)
				asJSON.WriteByte('\n')
			}
		}
	})
	for _, in := range []struct {
		name string
		src  []byte
	}{{"yaml", asYAML.Bytes()}, {"json", asJSON.Bytes()}} {
		b.Run(in.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in.src)))
			for b.Loop() {
				r := NewReader(bytes.NewReader(in.src), Options{})
				for {
					d, err := r.Next()
					if err != nil {
						break
					}
					_, _ = d.JSON()
				}
			}
		})
	}
}
