package resources

import "context"

// outcome is what preparing and validating an object had to say, within one request. The
// strategies of k8s.io/apiserver cannot fail while they prepare, and are asked for warnings
// apart from errors: what is found once is kept here until it is asked for.
type outcome struct {
	prepare  error
	warnings []string
}

type outcomeKey struct{}

// withOutcome returns a context that keeps the outcome of a request.
func withOutcome(ctx context.Context) context.Context {
	return context.WithValue(ctx, outcomeKey{}, &outcome{})
}

// outcomeOf returns the outcome of a request, or one that nobody sees: the server's own
// writes have nobody to warn.
func outcomeOf(ctx context.Context) *outcome {
	if o, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		return o
	}
	return &outcome{}
}
