package definitions

import (
	"context"
	"sync"
)

// progress is the revision up to which the catalog reflects the storage.
type progress struct {
	mu       sync.Mutex
	revision uint64
	changed  chan struct{}
}

func newProgress() *progress { return &progress{changed: make(chan struct{})} }

// reach records that the catalog reflects all changes up to a revision. It is lower than the
// last one only if the data of etcd was replaced by older data.
func (p *progress) reach(revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision == p.revision {
		return
	}
	p.revision = revision
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait waits until the catalog reflects a revision, or returns the error of ctx.
func (p *progress) wait(ctx context.Context, revision uint64) error {
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
