package changes

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"espalier.dev/cmd/espalier/internal/input"
)

// Parallel calls work concurrently for the objects of each document that were created or updated.
// It returns the results in the order of the input.
func Parallel[T any](ctx context.Context, s *Set, work func([]*input.Item) T) ([]T, error) {
	results := make([]T, len(s.Documents))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(results), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(results) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var items []*input.Item
				for _, o := range s.Documents[i] {
					items = append(items, o.New)
				}
				results[i] = work(items)
			}
		})
	}
	workers.Wait()
	return results, ctx.Err()
}
