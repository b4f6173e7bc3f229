package resources

import "sync"

// usage counts who uses something that is to be freed when it is no longer wanted and
// nobody uses it.
type usage struct {
	mu     sync.Mutex
	users  int
	closed bool
	free   func()
}

// acquire reports whether there is something to use. Then the caller owes a release.
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

// close lets no more users in. It has free called when the last one has left, which may
// be now.
func (u *usage) close() {
	u.mu.Lock()
	last := !u.closed && u.users == 0
	u.closed = true
	u.mu.Unlock()
	if last {
		u.free()
	}
}
