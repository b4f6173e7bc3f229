// Package keyspace reads the keys of an etcd once: from a snapshot file, without a server, or
// from a running cluster. It handles keys and bytes, as package store does, but keeps nothing
// in memory: an etcd of any size can be read.
package keyspace

import (
	"context"
	"iter"
)

// Entry is a key with its newest value.
type Entry struct {
	Key string
	// Value is valid until the next entry is read.
	Value []byte
	// Revision is the one that wrote the value.
	Revision int64
}

// Reader reads the newest values of an etcd. It is safe for concurrent use.
type Reader interface {
	// Range returns the entries whose keys begin with a prefix, each key once, in any order.
	// An error is the last element.
	Range(ctx context.Context, prefix string) iter.Seq2[Entry, error]
	// Get returns the entry of a key, and whether there is one. The value belongs to the
	// caller.
	Get(ctx context.Context, key string) (Entry, bool, error)
	// Close releases the reader.
	Close() error
}
