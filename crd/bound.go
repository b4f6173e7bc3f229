package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxErrors is the number of errors that are reported of one object. Kubernetes reports all of
// them, and needs a time that grows with the square of their number to join them.
const MaxErrors = 200

// BoundErrors returns the first errors of a list that is too long, and says that there are more.
func BoundErrors(errs field.ErrorList) field.ErrorList {
	if len(errs) <= MaxErrors {
		return errs
	}
	more := &field.Error{Type: field.ErrorTypeTooMany, Field: errs[MaxErrors].Field, BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("only the first %d errors are reported: fix them to see the others", MaxErrors)}
	return append(errs[:MaxErrors:MaxErrors], more)
}

// pathSteps is the total length of the paths of errors. It is bounded: 10,000 nested schemas with
// an error each would need 50 million steps.
type pathSteps int

// maxPathSteps is the length after which no more errors are reported.
const maxPathSteps = 1 << 18

// tooMany reports whether there is no room for more errors.
func (s pathSteps) tooMany() bool { return s > maxPathSteps }

// bytesPerStep is the usual length of a step in the text of a path, at least.
const bytesPerStep = 4

// add adds the path of an error.
func (s *pathSteps) add(e *field.Error) { *s += pathSteps(len(e.Field) / bytesPerStep) }
