package custom

import "context"

// outcome holds the results of preparing and validating an object within one request. The
// strategies of k8s.io/apiserver cannot return errors while they prepare, and return warnings
// separately from errors, so the results are kept here.
type outcome struct {
	prepare  error
	warnings []string
}

type outcomeKey struct{}

// withOutcome returns a context that keeps the outcome of a request.
func withOutcome(ctx context.Context) context.Context {
	return context.WithValue(ctx, outcomeKey{}, &outcome{})
}

// outcomeOf returns the outcome of a request, or a new one for writes of the server itself,
// whose warnings are dropped.
func outcomeOf(ctx context.Context) *outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		return o
	}
	return &outcome{}
}
