package crd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxErrors is the number of errors that are reported of one object. Kubernetes reports all of
// them, and needs a time that grows with the square of their number to join them.
const MaxErrors = 200

// maxErrorBytes is the size of the errors of an object after which no more are reported. Each of them may
// quote the whole object, twice in a response.
const maxErrorBytes = 1 << 20

// BoundErrors returns the first errors of a list that is too long, and says that there are more.
func BoundErrors(errs field.ErrorList) field.ErrorList {
	size := 0
	for i, e := range errs {
		if i == MaxErrors || size > maxErrorBytes {
			more := &field.Error{Type: field.ErrorTypeTooMany, Field: e.Field, BadValue: field.OmitValueType{},
				Detail: fmt.Sprintf("only the first %d errors are reported: fix them to see the others", i)}
			return append(errs[:i:i], more)
		}
		size += len(e.Field) + len(e.Detail) + quotedBytes(e.BadValue, maxErrorBytes)
	}
	return errs
}

// quotedBytes returns about the size of a value in the text of an error, or more than limit if it is larger.
func quotedBytes(value any, limit int) int {
	const perValue = 16
	n := perValue
	switch value := value.(type) {
	case string:
		n += len(value)
	case map[string]any:
		for k, v := range value {
			if n += len(k) + quotedBytes(v, limit-n); n > limit {
				break
			}
		}
	case []any:
		for _, v := range value {
			if n += quotedBytes(v, limit-n); n > limit {
				break
			}
		}
	}
	return n
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
