// Package backend stores the objects of a resource in etcd. It implements the
// [storage.Interface] of k8s.io/apiserver on the store that all resources share, so that a
// resource costs no goroutine, no connection and no cache of its own.
//
// # Reads
//
// Objects are decoded from the index of the store. A consistent read asks etcd for its
// revision first, and shares the question with other reads. A read at an exact revision, and
// the next part of a list, use a snapshot of that revision if it is in memory, and etcd
// otherwise.
//
// # Writes
//
// Updates and deletions begin with the object of the index, which may be outdated. The
// transaction compares its revision and returns the stored object if it has changed: then the
// write is repeated with that object. A failure that an outdated object may have caused, such
// as a conflict, is only reported after a consistent read. The result of a write is the object
// that was written, with its new resource version; nothing is read back.
//
// # Watches
//
// Each watch has one goroutine, which decodes and filters events and sends them to its
// client. The context of the watch owns it: the goroutine ends when that context ends, when
// Stop is called, or after an error, and closes the channel of results. It never blocks the
// store: the store ends watchers that leave too many events unread. After a restart of the
// server, or after such an end, clients resume at the last revision that they have received.
package backend

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	endpointsrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// Backend is what the storages of all resources share. It is safe for concurrent use.
type Backend struct {
	store     *store.Store
	compacted func() int64
	leases    leases
	kept      *kept
	listed    *listedObjects
}

// New returns a Backend. compacted returns the newest revision that is known to be
// compacted, or zero; it may be nil.
func New(s *store.Store, compacted func() int64) *Backend {
	if compacted == nil {
		compacted = func() int64 { return 0 }
	}
	failures() // register the metric
	return &Backend{
		store: s, compacted: compacted, kept: newKept(), listed: &listedObjects{objects: map[keptKey]*listedObject{}},
		leases: leases{store: s, maxReuse: leaseReuse, turn: make(chan struct{}, 1)},
	}
}

// Config configures the storage of a resource.
type Config struct {
	Resource runtimeschema.GroupResource
	// Codec encodes and decodes stored objects. It may be a [RoundTripper] or a [Caller].
	Codec runtime.Codec
	// Prefix is the prefix of the resource's keys, below that of the store.
	Prefix string
	// New returns an empty object.
	New func() runtime.Object
	// Writer executes the transactions of writes. It may be nil.
	Writer store.Writer
	// Intact reports whether an error of decoding is not about the stored value, for example
	// because a conversion webhook fails. Such an object is not corrupt, and cannot be deleted
	// as a corrupt one. It may be nil.
	Intact func(error) bool
	// UnlimitedAtZero makes lists at resourceVersion 0 ignore their limit, as those of
	// kube-apiserver, which come from its watch cache.
	UnlimitedAtZero bool
}

// RoundTripper is a codec that knows whether decoding a value returns the object of which it
// was encoded. Then a written object is not decoded for the result of the write.
type RoundTripper interface {
	RoundTrips(obj runtime.Object, value []byte) bool
}

// Replacer is a codec that encodes an object differently if it replaces a stored value.
type Replacer interface {
	EncodeOver(obj runtime.Object, old []byte, w io.Writer) error
}

// Wrapper is an object to write that a codec knows more about than about the object in it.
type Wrapper interface{ Unwrap() runtime.Object }

// Caller is a codec that knows whether decoding may call another program, such as a conversion
// webhook. Then decoded objects are kept for lists and watches.
type Caller interface{ Calls() bool }

// Storage stores the objects of one resource.
type Storage struct {
	*Backend
	config    Config
	versioner storage.Versioner
	// tripper is the codec if it is a RoundTripper, otherwise nil.
	tripper RoundTripper
	calls   bool
	// typ is the type of objects.
	typ reflect.Type
	// unsafe reports that corrupt objects are listed in errors, and can be deleted.
	unsafe bool
	// sized is set if Stats returns sizes.
	sized atomic.Bool
	// watches is the number of open watches.
	watches atomic.Int64
}

var _ storage.Interface = &Storage{}

// New returns the storage of a resource.
func (b *Backend) New(c Config) *Storage {
	c.Prefix = "/" + strings.Trim(c.Prefix, "/") + "/"
	if c.Intact == nil {
		c.Intact = func(error) bool { return false }
	}
	tripper, _ := c.Codec.(RoundTripper)
	caller, calls := c.Codec.(Caller)
	return &Storage{
		Backend: b, config: c, versioner: storage.APIObjectVersioner{},
		tripper: tripper, calls: calls && caller.Calls(), typ: reflect.TypeOf(c.New()),
		unsafe: utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion),
	}
}

// key returns the key in etcd.
func (s *Storage) key(key string, recursive bool) (string, error) {
	key, err := storage.PrepareKey(s.config.Prefix, key, recursive)
	if err != nil {
		return "", err
	}
	return keys.Root(s.store.Prefix()).Join(key), nil
}

// Versioner returns the versioner of objects.
func (s *Storage) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck returns an error until the store has been filled.
func (s *Storage) ReadinessCheck() error {
	select {
	case <-s.store.Loaded():
		return nil
	default:
		return storage.ErrStorageNotReady
	}
}

// Stats returns the number of objects in the index and, if enabled, their average size.
func (s *Storage) Stats(context.Context) (stats storage.Stats, err error) {
	size := int64(0)
	for e := range s.store.Snapshot().Range(keys.Root(s.store.Prefix()).Join(s.config.Prefix), "") {
		stats.ObjectCount++
		size += int64(len(e.Value))
	}
	if s.sized.Load() && stats.ObjectCount > 0 {
		stats.EstimatedAverageObjectSizeBytes = size / stats.ObjectCount
	}
	return stats, nil
}

// EnableResourceSizeEstimation makes Stats return sizes. The index knows all keys.
func (s *Storage) EnableResourceSizeEstimation(keys storage.KeysFunc) error {
	if keys == nil {
		return errors.New("a function that returns the keys is required")
	}
	s.sized.Store(true)
	return nil
}

// RequestWatchProgress waits until the index, and so every watch, is as new as etcd.
func (s *Storage) RequestWatchProgress(ctx context.Context) error {
	_, err := s.store.Sync(ctx)
	return Failure(err)
}

// GetCurrentResourceVersion returns the revision of etcd.
func (s *Storage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	revision, err := s.store.Current(ctx)
	return uint64(revision), Failure(err)
}

// CompactRevision returns the newest revision that is known to be compacted, or zero.
func (s *Storage) CompactRevision() int64 { return s.compacted() }

// tracked adds the time since start to the time that a request has spent in the storage.
func tracked(ctx context.Context, start time.Time) {
	endpointsrequest.TrackStorageLatency(ctx, time.Since(start))
}

// asked is called after a request to etcd. The metrics are those of k8s.io/apiserver, but do
// not distinguish resources: there may be thousands.
func asked(ctx context.Context, operation string, start time.Time, err *error) {
	tracked(ctx, start)
	metrics.RecordEtcdRequest(operation, runtimeschema.GroupResource{}, *err, start)
}
