package custom

import (
	"context"
	"time"
)

// idleTime is the interval of sweeps. What serves a CRD is dropped after one to two of them
// without a request.
const idleTime = 5 * time.Minute

// Run drops what serves CRDs that are not used, until ctx ends: their endpoints and Programs. Programs
// that forks share are kept.
// Most CRDs of a large cluster are used for a moment, by its installer or by a garbage
// collector that lists everything. The next request builds what it needs again.
func (h *Handler) Run(ctx context.Context) error {
	ticker := time.NewTicker(idleTime)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			h.sweep()
		}
	}
}

// use records that a request uses the serving.
func (s *serving) use() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// sweep drops the servings that no request has used since the last sweep, unless a watch
// uses them. A request that has found such a serving and not acquired it yet makes a new one.
// Programs are immutable: work that a timed-out request has left behind still has its own.
func (h *Handler) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.servings {
		if s.fixed != nil || s.used.Swap(false) || !s.requests.CloseIdle() {
			continue
		}
		delete(h.servings, name)
		s.leave()
		s.definition.Load().Release()
	}
}
