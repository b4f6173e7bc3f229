package store

import (
	"slices"
	"sync"
)

// Copy is the index and the window of a store at a revision. It shares all entries with the store,
// and costs nothing until one of them changes. A store that begins with it, see [Config.From], reads
// nothing from etcd. It has no goroutine, channel or timer, and may be used by several stores.
type Copy struct {
	revision int64
	window   window

	mu   sync.Mutex // cloning a tree changes it
	tree *tree
}

// Copy returns a copy of the store, at the revision that it has reached.
func (s *Store) Copy() *Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Copy{revision: s.revision.Load(), tree: s.tree.clone(), window: s.window.share()}
}

// Revision returns the revision of the copy.
func (c *Copy) Revision() int64 { return c.revision }

// Rewind returns the copy at an earlier revision. It reports false if events after that revision
// have left the window, or if the copy has not reached it.
func (c *Copy) Rewind(revision int64) (*Copy, bool) {
	if revision < c.window.oldest || revision > c.revision {
		return nil, false
	}
	out := &Copy{revision: revision, tree: c.clone(), window: c.window}
	later := c.window.after(revision)
	for i := len(later) - 1; i >= 0; i-- {
		if e := later[i]; e.Old != nil {
			out.tree.set(e.Old)
		} else {
			out.tree.delete(e.Entry.Key)
		}
		out.window.bytes -= later[i].size()
	}
	out.window.events = slices.Clip(c.window.events[:len(c.window.events)-len(later)])
	return out, true
}

// clone returns a tree that may be changed.
func (c *Copy) clone() *tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tree.clone()
}

// begin makes a copy the contents of a store that has just been made.
func (s *Store) begin(c *Copy) {
	s.tree = c.clone()
	s.indexed = s.generation.Load()
	s.kept.restart(s.indexed)
	s.window = c.window // it is shared already
	s.window.maxEvents, s.window.maxBytes = s.config.MaxEvents, s.config.MaxBytes
	s.revision.Store(c.revision)
	close(s.loaded)
}
