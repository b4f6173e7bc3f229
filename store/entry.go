package store

import (
	"context"
	"strings"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Entry is a key with its value at a revision. It is immutable.
type Entry struct {
	Key string
	// Value is the value after the transformer, or what is stored if Err is set. It must not
	// be changed.
	Value []byte
	// Revision is the revision that wrote the entry.
	Revision int64
	// Lease is the etcd lease that deletes the entry, or zero.
	Lease int64
	// Stale reports that the transformer wants the value to be written again.
	Stale bool
	marks atomic.Uint32
	// Err is the error of the transformer, or nil.
	Err error

	memo atomic.Value
}

// Memo returns what [Entry.SetMemo] has set, or nil.
func (e *Entry) Memo() any { return e.memo.Load() }

// SetMemo keeps a value with the entry that its user has derived from it, so that it is
// derived once. All memos of a store must have the same concrete type. A memo lives as long
// as its entry, and counts for the memory of the process, not of the store.
func (e *Entry) SetMemo(v any) { e.memo.Store(v) }

// Mark is something that a user of entries has found out about one, and need not again. Servers whose
// stores share entries share marks, so it depends on nothing but the entry.
type Mark uint32

// MarkIndependent is the mark of objects without owners that do not wait for the garbage collector.
const MarkIndependent Mark = 1

// SetMark sets a mark of the entry.
func (e *Entry) SetMark(m Mark) { e.marks.Or(uint32(m)) }

// Marked reports whether the entry has a mark.
func (e *Entry) Marked(m Mark) bool { return e.marks.Load()&uint32(m) != 0 }

// entry returns the entry of what is stored in etcd.
func (s *Store) entry(ctx context.Context, kv *mvccpb.KeyValue) *Entry {
	e := &Entry{Key: string(kv.Key), Value: kv.Value, Revision: kv.ModRevision, Lease: kv.Lease}
	t := *s.transformer.Load()
	if t == nil {
		return e
	}
	value, stale, err := t.FromStorage(ctx, e.Key, kv.Value)
	if err != nil {
		e.Err = err
		return e
	}
	e.Value, e.Stale = value, stale
	return e
}

// within reports whether a key is the prefix or below it.
func within(key, prefix string) bool { return strings.HasPrefix(key, prefix) }
