package publish

import (
	"encoding/json"
	"fmt"
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/internal/testcase"
)

// defineMedium returns the definition of a resource with a schema of usual size.
func defineMedium(t testing.TB, name string, change ...func(*api.CustomResourceDefinition)) *crd.Definition {
	t.Helper()
	return define(t, name, append([]func(*api.CustomResourceDefinition){func(c *api.CustomResourceDefinition) {
		s := &api.JSONSchemaProps{}
		if err := json.Unmarshal(testcase.Medium().Schema, s); err != nil {
			t.Fatal(err)
		}
		c.Spec.Versions[0].Schema.OpenAPIV3Schema = s
	}}, change...)...)
}

// BenchmarkParts measures what one CRD adds to the documents, when it is described first.
func BenchmarkParts(b *testing.B) {
	src := &source{}
	src.set()
	p := newPublisher(src)
	p.packFrom = 0
	generation := int64(1)
	next := func(b *testing.B) *crd.Definition {
		b.StopTimer()
		generation++
		d := defineMedium(b, fmt.Sprintf("things%d.example.com", generation))
		b.StartTimer()
		return d
	}
	b.Run("v3", func(b *testing.B) {
		for b.Loop() {
			d := next(b)
			part, err := p.partOf(p.describe(d.Versions()[0]))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(part.size), "size")
		}
	})
	b.Run("v2", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.swaggerOf(next(b)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
