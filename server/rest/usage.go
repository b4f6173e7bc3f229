package rest

import "sync"

// Usage is a reference count. It calls Free after Close and the last Release.
type Usage struct {
	Free func()

	mu    sync.Mutex
	users int
	// lingering counts the users that do not keep the resource from being freed.
	lingering int
	closed    bool
}

// Acquire adds a reference and reports whether the resource is still open. If so, the caller
// must call Release.
func (u *Usage) Acquire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.users++
	}
	return !u.closed
}

// Release gives a reference back.
func (u *Usage) Release() {
	u.mu.Lock()
	u.users--
	last := u.closed && u.users == 0
	u.mu.Unlock()
	if last {
		u.Free()
	}
}

// Close rejects further references. It calls Free after the last Release, possibly at once.
func (u *Usage) Close() {
	u.mu.Lock()
	last := !u.closed && u.users == 0
	u.closed = true
	u.mu.Unlock()
	if last {
		u.Free()
	}
}

// Linger counts a user that does not keep the resource from being freed, but keeps CloseIdle
// from closing it. The user calls end once.
func (u *Usage) Linger() (end func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lingering++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.lingering--
	}
}

// CloseIdle closes the resource if there are no users at all, and reports whether it did.
func (u *Usage) CloseIdle() bool {
	u.mu.Lock()
	idle := !u.closed && u.users == 0 && u.lingering == 0
	if idle {
		u.closed = true
	}
	u.mu.Unlock()
	if idle {
		u.Free()
	}
	return idle
}
