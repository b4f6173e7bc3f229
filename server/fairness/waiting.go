package fairness

import (
	"sync"
	"sync/atomic"
)

// maxWaiting is the number of requests that may wait in all queues. Priority levels have a limit of their own
// for each queue, but those of all servers together have room for 26,000, and an administrator may configure
// more. Each needs the memory of its goroutines and buffers. A user alone reaches the limit of the queues that
// it is assigned first: 300 with the default priority levels.
//
// A priority level with less than its share of this number is not affected by the others: no more than twice
// as many requests wait.
const maxWaiting = 5000

// waiting counts the requests in queues.
type waiting struct {
	all atomic.Int64
	// levels has an *atomic.Int64 for the name of each priority level that had a request.
	levels sync.Map
}

// of returns the number of requests that wait in the queues of a priority level.
func (w *waiting) of(level string) *atomic.Int64 {
	n, ok := w.levels.Load(level)
	if !ok {
		n, _ = w.levels.LoadOrStore(level, new(atomic.Int64))
	}
	return n.(*atomic.Int64)
}

func (w *waiting) add(level *atomic.Int64, n int64) {
	w.all.Add(n)
	level.Add(n)
}

// hasRoom reports whether another request of a priority level may wait. levels returns the number of priority
// levels.
func (w *waiting) hasRoom(level *atomic.Int64, levels func() int) bool {
	return w.all.Load() < maxWaiting || level.Load() < int64(maxWaiting/max(1, levels()))
}
