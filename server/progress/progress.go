// Package progress has what waits until a follower of the store has reached a revision.
package progress

import (
	"context"
	"sync"
)

// Progress is the revision up to which a follower of the store has processed all changes. It
// is safe for concurrent use.
type Progress struct {
	mu       sync.Mutex
	revision uint64
	changed  chan struct{}
}

// New returns a Progress at revision zero.
func New() *Progress { return &Progress{changed: make(chan struct{})} }

// Reach records that all changes up to a revision are processed. It is lower than the last one
// only if the data of etcd was replaced by older data.
func (p *Progress) Reach(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision == p.revision {
		return
	}
	p.revision = revision
	close(p.changed)
	p.changed = make(chan struct{})
}

// Wait waits until a revision is reached, or returns the error of ctx.
func (p *Progress) Wait(ctx context.Context, revision uint64) error {
	for {
		p.mu.Lock()
		reached, changed := p.revision >= revision, p.changed
		p.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
