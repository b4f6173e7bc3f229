package object_test

import (
	"testing"

	"espalier.dev/analysis/object"
	"espalier.dev/schema"
)

// BenchmarkCheck checks an object that is stored in its own version, and one that is converted
// to a storage version with another schema.
func BenchmarkCheck(b *testing.B) {
	for _, version := range []string{"v2", "v1"} {
		b.Run(version, func(b *testing.B) {
			c := checker(b, archived(b, "peers"), schema.Kubernetes, nil)
			source := peer(version, `{"peerPort": 179, "timeout": 1, "hold": 2, "note": "a", "limits": {"cpu": 3}}`)
			for b.Loop() {
				if len(c.Check(b.Context(), source, nil, object.Warn)) > 0 {
					b.Fatal("the object has findings")
				}
			}
		})
	}
}
