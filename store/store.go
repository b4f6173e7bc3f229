// Package store keeps a copy of a part of etcd in memory and serves reads and watches from
// it. It handles keys, bytes and revisions, and knows nothing about objects or schemas.
//
// A Store has one client, one watch and one index for all keys below a prefix, however many
// resources these keys belong to. The index is a copy-on-write B-tree: a [Snapshot] costs
// nothing until the next write, readers never wait for each other, and counting entries needs
// no walk.
//
// # Consistency
//
// The index moves from revision to revision: it takes in all events of a revision at once, in
// the order of etcd. [Store.Current] asks etcd for its revision, and [Store.Await] waits until
// the index has it, so a read after both is linearizable. Reads that arrive while a question
// is under way share the next one. [Store.Get] without them returns a state that may be old,
// but is never older than one that an earlier read has returned.
//
// # Watches
//
// A bounded window holds the latest events. [Store.Watch] starts at any revision inside of it,
// and returns an [ExpiredError] outside of it. A [Watcher] receives every event of its keys
// exactly once and in order, or ends with an error. If the store loses events, because etcd
// has compacted them during a long disconnection, it reads everything anew and ends all
// watchers.
//
// # Lifetime
//
// Open starts two goroutines: one follows etcd, one asks it for its progress while reads wait.
// A third exists while reads ask for the revision. All end with [Store.Close], which waits for
// them. If etcd fails, the store retries forever; reads that need etcd end with their own
// context, and those that do not go on.
package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrClosed is returned when the store is closed.
var ErrClosed = errors.New("the store is closed")

// Config configures a Store.
type Config struct {
	// Client is the connection to etcd. Close does not close it.
	Client *clientv3.Client
	// Watcher watches etcd, and nothing else uses it: etcd reports the progress of all watches
	// together. Close closes it. Nil means one on the connection of the client.
	Watcher clientv3.Watcher
	// Prefix is the prefix of all keys. It ends with a slash.
	Prefix string
	// Transformer transforms values on their way to and from etcd. Nil means that they are
	// stored as they are.
	Transformer Transformer
	// From is what the store begins with, if etcd is a copy of that of another store. Values are not
	// transformed again. Nil means that the store reads etcd.
	From *Copy
	// MaxEvents and MaxBytes limit the window of events: their number, and the size of the
	// values that only the window holds. Zero means 100,000 and 64 MiB.
	MaxEvents int
	MaxBytes  int64
	// MaxQueue is the maximum number of events that a watcher leaves unread. Zero means 10,000.
	MaxQueue int
	// Failed is called with every error of the connection to etcd, and with nil when it works
	// again. It must not block.
	Failed func(error)
	// Advice returns what to do while etcd rejects writes for lack of space, for
	// [FullError]. It may be nil, and must not block.
	Advice func() string
}

// Transformer transforms values between etcd and the store, for example to encrypt them.
type Transformer interface {
	// FromStorage returns the value of what is stored. stale reports that it should be written
	// again, for example because its encryption key is outdated.
	FromStorage(ctx context.Context, key string, data []byte) (value []byte, stale bool, err error)
	// ToStorage returns what is stored for a value.
	ToStorage(ctx context.Context, key string, value []byte) ([]byte, error)
}

// Aging is a [Transformer] that knows whether a value can become stale while it is stored. One
// that is not Aging is assumed to be so.
type Aging interface{ Ages() bool }

// Store is a copy of the keys below a prefix of etcd. It is safe for concurrent use.
type Store struct {
	config  Config
	client  *clientv3.Client
	watcher clientv3.Watcher
	prefix  string

	// lifetime ends with Close; tasks tracks the goroutines.
	lifetime context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup

	transformer atomic.Pointer[Transformer]
	// generation is the one that the index should have. An index of another generation has
	// entries that must not be used again: those of another transformer, or those of data that
	// etcd no longer has.
	generation atomic.Int64
	// loaded is closed when the index has been filled for the first time.
	loaded chan struct{}
	// reload has an element when everything must be read again.
	reload chan struct{}

	// mu guards the index, the window, the watchers and the waiters. Only the goroutine that
	// follows etcd changes the index and the window.
	mu       sync.RWMutex
	tree     *tree
	indexed  int64         // the generation of the index
	renewed  chan struct{} // closed when indexed changes
	snapshot *Snapshot     // of the current revision, or nil
	window   window
	watchers map[string]map[*Watcher]struct{} // by prefix or key
	waiters  []*waiter
	closed   bool
	// revision is that of the index. It is changed while mu is held, after the events up to it
	// are in the queues of the watchers.
	revision atomic.Int64

	checks checks
	// wanted has an element when a reader waits for a revision.
	wanted chan struct{}

	kept kept
}

// Open returns a store that fills itself in the background; see [Store.Loaded]. The caller
// must call Close.
func Open(c Config) (*Store, error) {
	if c.Client == nil {
		return nil, errors.New("store: a client is required")
	}
	if c.Prefix == "" || c.Prefix[len(c.Prefix)-1] != '/' {
		return nil, fmt.Errorf("store: the prefix %q must end with a slash", c.Prefix)
	}
	if c.MaxEvents == 0 {
		c.MaxEvents = 100_000
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 64 << 20
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 10_000
	}
	if c.Watcher == nil {
		c.Watcher = clientv3.NewWatcher(c.Client)
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	s := &Store{
		config: c, client: c.Client, watcher: c.Watcher, prefix: c.Prefix,
		loaded: make(chan struct{}), reload: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
		tree: newTree(), renewed: make(chan struct{}),
		watchers: map[string]map[*Watcher]struct{}{},
		window:   window{maxEvents: c.MaxEvents, maxBytes: c.MaxBytes},
	}
	s.SetTransformer(c.Transformer)
	if c.From != nil {
		s.begin(c.From)
		s.config.From = nil // it keeps old entries in memory
	}
	s.lifetime, s.stop = context.WithCancel(context.Background())
	s.tasks.Go(s.follow)
	s.tasks.Go(s.requestProgress)
	return s, nil
}

// Close ends all watches and waits, and releases the memory. It does not close the client.
func (s *Store) Close() {
	s.stop()
	s.mu.Lock()
	s.closed = true
	s.endWatchers(ErrClosed)
	for _, w := range s.waiters {
		w.end(ErrClosed)
	}
	s.waiters = nil
	s.mu.Unlock()
	s.kept.close()
	s.tasks.Wait()
	_ = s.watcher.Close() // its watch has ended
}

// Loaded returns a channel that is closed when the store has been filled.
func (s *Store) Loaded() <-chan struct{} { return s.loaded }

// Prefix returns the prefix of all keys.
func (s *Store) Prefix() string { return s.prefix }

// Client returns the connection to etcd.
func (s *Store) Client() *clientv3.Client { return s.client }

// Revision returns the revision of the index.
func (s *Store) Revision() int64 { return s.revision.Load() }

// SetTransformer replaces the transformer. What is in the index stays as it is; see
// [Store.Reload] and [Store.Renew].
func (s *Store) SetTransformer(t Transformer) {
	s.transformer.Store(&t)
	s.generation.Add(1)
}

// Ages reports whether [Entry.Stale] of an entry in the index may be outdated. Then
// [Store.Read] returns the current one.
func (s *Store) Ages() bool {
	t := *s.transformer.Load()
	aging, ok := t.(Aging)
	return t != nil && (!ok || aging.Ages())
}

// Renew reads and transforms everything anew, ends all watchers, and waits until the index has
// the result.
func (s *Store) Renew(ctx context.Context) error {
	want := s.generation.Add(1)
	s.Reload()
	for {
		s.mu.RLock()
		done, renewed := s.indexed >= want, s.renewed
		s.mu.RUnlock()
		if done {
			return nil
		}
		select {
		case <-renewed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.lifetime.Done():
			return ErrClosed
		}
	}
}

// Retry transforms the entries again that could not be transformed. If one of them can be now,
// it calls [Store.Reload], because the watchers have missed it.
func (s *Store) Retry(ctx context.Context) {
	for e := range s.Snapshot().Range(s.prefix, "") {
		if ctx.Err() != nil {
			return
		}
		if e.Err == nil {
			continue
		}
		if t := *s.transformer.Load(); t != nil {
			if _, _, err := t.FromStorage(ctx, e.Key, e.Value); err != nil {
				continue
			}
		}
		s.Reload()
		return
	}
}

// Reload reads everything anew, with the current transformer, and ends all watchers. It
// returns immediately.
func (s *Store) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // it is under way
	}
}

// Get returns the entry of a key in the index, or nil. For the newest state, call
// [Store.Current] and [Store.Await] before.
func (s *Store) Get(key string) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.get(key)
}
