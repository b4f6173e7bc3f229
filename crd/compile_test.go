package crd_test

import (
	"context"
	"strings"
	"testing"

	"espalier.dev/crd"
)

// TestCompileRejections checks that validation rejects what cannot be compiled: a CRD that
// is accepted can be served.
func TestCompileRejections(t *testing.T) {
	// Ten items in ten items …: few lines, many values.
	schema := `{type: string, default: x}`
	for range 6 {
		schema = `{type: array, items: {type: object, properties: {a: ` + schema + `}}, default: [{},{},{},{},{},{},{},{},{},{}]}`
	}
	c := definition(t, `{type: object, properties: {spec: {type: object, properties: {list: `+schema+`}}}}`)
	for _, sem := range both {
		o := crd.Options{Semantics: sem}
		d, err := crd.New(c, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Version("v1").Program(); err == nil {
			t.Error("it can be compiled")
		}
		errs := crd.ValidateCreate(context.Background(), c, o).Errors
		if len(errs) != 1 || !strings.HasSuffix(errs[0].Field, "properties[spec].properties[list].default") || !strings.Contains(errs[0].Detail, "65536 values") {
			t.Errorf("%v: %v", sem, errs)
		}
		// It can be fixed.
		fixed := definition(t, `{type: object}`)
		if errs := crd.ValidateUpdate(context.Background(), fixed, c, o).Errors; len(errs) > 0 {
			t.Errorf("%v: %v", sem, errs)
		}
	}
}
