// Package memory is an etcd in memory: for servers whose data is not kept, as in tests. It
// needs no disk, no socket and no other process, and starts and stops at once.
//
// A [DB] implements the services of etcd that an API server uses: key-value, watch and lease,
// and the status of maintenance. [DB.Client] returns an etcd client that calls them directly: the
// real one without a connection, but with its own watcher. A test compares all answers and events
// with those of a real etcd.
//
// # Data
//
// A [State] is an immutable value: the keys, the leases, and for each revision since the last
// compaction its events and the keys after it. All of them share what they have in common. So
// reads take no lock, reads of old revisions cost as much as those of the newest one, and
// [DB.State] with [Config.State] makes an independent copy of a DB in constant time. The memory
// of old revisions is free after a compaction. Values in answers share memory with the DB and
// must not be changed.
//
// # Lifetime
//
// A DB has no goroutines. Requests run on those of their callers. One timer exists while there are
// leases. [DB.Close] stops it. A client has a goroutine for each watch, which reads the history: it
// has a position, but no queue. These end with their watch, and when the client is closed, which
// waits for them. Two more exist while a client keeps leases alive. A DB that is opened in a
// testing/synctest bubble uses no channel and no timer from outside, also if its state is from
// there: leases keep the time that they have left. If [DB.State] is called in the bubble, that is the
// time that they had left at the last change.
//
// # Differences
//
// Leases expire exactly in time, and not up to a second later. A watch from an old revision
// receives its events at once, and a request for its progress is always answered. Watches do not try
// again after Close. [Config.MaxHistory] makes a DB compact on its own. There are no members, users, quotas, hashes and snapshot files.
package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// The identity of the only member, in the headers of all answers.
const (
	clusterID = 0xe5b
	memberID  = 0x1
	term      = 1
)

// The limits of etcd by default: the size of a request to write, that of a message, and the number
// of operations or conditions of a transaction.
const (
	maxRequestBytes = 3 << 19
	maxMessageBytes = 2 << 20
	maxTxnOps       = 128
)

// Config configures a DB.
type Config struct {
	// State is the state to begin with. Nil means an empty one.
	State *State
	// Revision is the first revision of an empty state; 0 means 1, as in etcd. Earlier ones are compacted.
	Revision int64
	// Origin returns what has caused a write, by the context of its request, for [State.Changes]. It
	// may be nil.
	Origin func(context.Context) any
	// MaxHistory is the maximum number of bytes that were written since the oldest revision. If a write
	// exceeds it, the DB compacts the older half. Zero means no limit, as in etcd.
	MaxHistory int64
	// Compacted is called with the oldest revision that is left, in the write that has exceeded MaxHistory.
	// It may be nil.
	Compacted func(revision int64)
}

// DB is an etcd in memory. It is safe for concurrent use.
type DB struct {
	// epoch is the time that the deadlines of leases are relative to.
	epoch  time.Time
	origin func(context.Context) any // may be nil
	// maxHistory and compacted are those of the Config.
	maxHistory int64
	compacted  func(revision int64)

	state atomic.Pointer[State]
	done  chan struct{} // closed by Close

	// mu is held by writers, which replace the state, and guards the fields below.
	mu      sync.Mutex
	closed  bool
	watches map[*watch]struct{}
	expiry  expiry
}

// Open returns a DB. The caller must call Close.
func Open(c Config) *DB {
	db := &DB{epoch: time.Now(), origin: c.Origin, maxHistory: c.MaxHistory, compacted: c.Compacted, done: make(chan struct{}), watches: map[*watch]struct{}{}}
	s := newState(max(1, c.Revision))
	if c.State != nil {
		// Other DBs may begin with the same state, and each appends to its history.
		*s = *c.State
		s.history = s.history.clone()
	}
	db.epoch = db.epoch.Add(-s.age)
	db.state.Store(s)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.schedule(s)
	return db
}

// State returns the current state, for [Config.State]. It may be used after Close.
func (db *DB) State() *State {
	db.mu.Lock()
	defer db.mu.Unlock()
	// The DB goes on and appends to its history.
	s := *db.state.Load()
	s.history = s.history.clone()
	if s.age = time.Since(db.epoch); s.age < 0 {
		// The caller is in a bubble, and the DB is not, so the time is not known. It is not before the
		// last change.
		s.age = max(0, time.Unix(0, s.history.at(s.revision).time).Sub(db.epoch))
	}
	return &s
}

// Close ends all watches. Requests fail afterwards. Close clients first: their watches would report
// an error.
func (db *DB) Close() {
	db.mu.Lock()
	if !db.closed {
		db.closed = true
		close(db.done)
		db.expiry.stop()
	}
	db.mu.Unlock()
	db.expiry.running.Wait()
}

// Client returns a client of the DB, without a connection and without endpoints. The caller must
// close it. It has no Auth and no Cluster.
func (db *DB) Client() *clientv3.Client {
	c := clientv3.NewCtxClient(context.Background())
	c.KV = clientv3.NewKVFromKVClient(&kvService{db: db}, c)
	c.Watcher = db.NewWatcher()
	c.Lease = clientv3.NewLeaseFromLeaseClient(&leaseService{db: db}, c, keepAliveTimeout)
	c.Maintenance = clientv3.NewMaintenanceFromMaintenanceClient(&maintenanceService{db: db}, c)
	return c
}

// header returns the header of an answer.
func header(revision int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: clusterID, MemberId: memberID, Revision: revision, RaftTerm: term}
}

// check returns an error if a request cannot be carried out: its context has ended, it is too
// large for a message, or the DB is closed.
func (db *DB) check(ctx context.Context, req proto.Message) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if n := proto.Size(req); n > maxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "trying to send message larger than max (%d vs. %d)", n, maxMessageBytes)
	}
	select {
	case <-db.done:
		return rpctypes.ErrGRPCStopped
	default:
		return nil
	}
}

// checkSize returns an error if a request to write is too large. etcd measures it with a header.
func checkSize(req *pb.InternalRaftRequest) error {
	req.Header = &pb.RequestHeader{ID: 1 << 62}
	if proto.Size(req) > maxRequestBytes {
		return rpctypes.ErrGRPCRequestTooLarge
	}
	return nil
}

// set makes a state the current one, without the memory around it: that of a writer refers to the
// state before it, which would never be free. mu is held.
func (db *DB) set(s *State) {
	next := *s
	db.state.Store(&next)
}

// publish makes a state the current one, and wakes the watches. mu is held.
func (db *DB) publish(s *State) {
	db.set(s)
	for w := range db.watches {
		w.wake()
	}
}
