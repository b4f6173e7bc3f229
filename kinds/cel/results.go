package cel

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	apicel "k8s.io/apiserver/pkg/cel"

	"espalier.dev/internal/lru"
	"espalier.dev/kinds/admissionregistration"
	"espalier.dev/schema/rules/bounds"
)

// maxResults bounds the memory of results, in bytes.
const maxResults = 4 << 20

// results has the results of compiling expressions. The same ones occur in many objects: in those of several environments, and
// whenever an object is written again.
type results struct {
	cache *lru.Cache[use, *apicel.Error]
}

// use is all that the result of an expression depends on.
type use struct {
	expression admissionregistration.Expression
	// policy is set for expressions of policies, and variable for those of their variables.
	policy, variable bool
	// declared are the variables that the expression can use, if it uses any.
	declared scope
}

func newResults() *results {
	const overhead = 300
	return &results{lru.New(maxResults, func(u use, err *apicel.Error) int64 {
		size := overhead + len(u.expression.Text)
		if err != nil {
			size += len(err.Detail)
		}
		return int64(size)
	})}
}

// get returns the errors of an expression, and compiles it if its result is not there.
func (r *results) get(path *field.Path, value string, u use, compile func() (*apicel.Error, error)) field.ErrorList {
	found, err := r.cache.Get(u, compile)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if u.expression.Stored && bounds.IsTooComplex(found) {
		return nil // it is an error when it is evaluated
	}
	return errorsOf(path, value, found)
}
