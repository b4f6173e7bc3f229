package storage

import "context"

// budgetKey is the key of the budget of a request in its context.
type budgetKey struct{}

// WithBudget returns a context whose lists call spend for each object that they keep in memory,
// with the bytes of its stored value. A list fails with the error of spend. The calls are not
// concurrent.
func WithBudget(ctx context.Context, spend func(bytes int) error) context.Context {
	return context.WithValue(ctx, budgetKey{}, spend)
}

// Spend counts an object of a list in the budget of a request, if it has one.
func Spend(ctx context.Context, bytes int) error {
	if spend, ok := ctx.Value(budgetKey{}).(func(int) error); ok {
		return spend(bytes)
	}
	return nil
}
