package crd

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// legacy checks the draft-4 schema of 2017.
func (d *demands) legacy(f *form, path *field.Path) (errs field.ErrorList) {
	if !knowsLegacy(d.semantics) || f.legacy == nil && f.legacyErr == nil {
		return nil
	}
	return nil
}
