package crd_test

import (
	"testing"

	"espalier.dev/api"
	"espalier.dev/crd"
)

// TestShared copies a definition unless it may be kept.
func TestShared(t *testing.T) {
	given := &api.CustomResourceDefinition{}
	given.Name = "as.example.com"
	for _, shared := range []bool{false, true} {
		d, err := crd.New(given, crd.Options{Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		if (d.CRD() == given) != shared {
			t.Errorf("shared %v: the definition is the one given: %v", shared, d.CRD() == given)
		}
	}
}
