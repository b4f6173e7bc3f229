package resources

import "sync"

// usage is a reference count. It frees a resource after close and the last release.
type usage struct {
	mu    sync.Mutex
	users int
	// lingering counts the users that do not keep the resource from being freed.
	lingering int
	closed    bool
	free      func()
}

// acquire adds a reference and reports whether the resource is still open. If so, the caller
// must call release.
func (u *usage) acquire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.users++
	}
	return !u.closed
}

func (u *usage) release() {
	u.mu.Lock()
	u.users--
	last := u.closed && u.users == 0
	u.mu.Unlock()
	if last {
		u.free()
	}
}

// close rejects further references. It calls free after the last release, possibly at once.
func (u *usage) close() {
	u.mu.Lock()
	last := !u.closed && u.users == 0
	u.closed = true
	u.mu.Unlock()
	if last {
		u.free()
	}
}

// linger counts a user that does not keep the resource from being freed, but keeps closeIdle
// from closing it. The user calls end once.
func (u *usage) linger() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lingering++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.lingering--
	}
}

// closeIdle closes the resource if there are no users at all, and reports whether it did.
func (u *usage) closeIdle() bool {
	u.mu.Lock()
	idle := !u.closed && u.users == 0 && u.lingering == 0
	if idle {
		u.closed = true
	}
	u.mu.Unlock()
	if idle {
		u.free()
	}
	return idle
}
