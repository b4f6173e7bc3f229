package backend

import (
	"context"

	"espalier.dev/store"
)

type asOfKey struct{}

// WithAsOf returns a context in which reads of any resourceVersion, those with "0", return the
// state at a revision, as a server does whose cache is behind.
func WithAsOf(ctx context.Context, revision int64) context.Context {
	return context.WithValue(ctx, asOfKey{}, revision)
}

// AsOf returns the revision of [WithAsOf], or zero.
func AsOf(ctx context.Context) int64 {
	revision, _ := ctx.Value(asOfKey{}).(int64)
	return revision
}

// asOf returns the revision at which a read with a resourceVersion must be answered, or zero if there
// is none, or if the revision is no longer available.
func (s *Storage) asOf(ctx context.Context, resourceVersion string) int64 {
	if resourceVersion != "0" {
		return 0
	}
	at := AsOf(ctx)
	if at < s.compacted() {
		return 0
	}
	return at
}

// readAt returns the entry of a key at a revision, or nil.
func (s *Storage) readAt(ctx context.Context, key string, revision int64) (*store.Entry, error) {
	if snap := s.store.SnapshotAt(revision); snap != nil {
		return snap.Get(key), nil
	}
	// The first entry whose key begins with the key is that of the key.
	found, _, _, err := s.store.ListAt(ctx, key, "", revision, 1)
	if err != nil {
		return nil, s.readError(err, key, "")
	}
	if len(found) == 0 || found[0].Key != key {
		return nil, nil
	}
	return found[0], nil
}
