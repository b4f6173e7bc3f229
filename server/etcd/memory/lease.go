package memory

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"espalier.dev/internal/persistent"
)

const (
	// minTTL and maxTTL are the limits of the time to live in seconds, as in package etcd's member.
	minTTL = 1
	maxTTL = 9_000_000_000
	// keepAliveTimeout is how long the client waits for the first answer to a keep-alive, as in
	// clients with a connection.
	keepAliveTimeout = 6 * time.Second
)

// lease is an immutable lease.
type lease struct {
	id, ttl int64
	// deadline is the time when it expires, since the epoch of the DB.
	deadline time.Duration
	keys     persistent.Map[struct{}]
}

// idKey returns the key of a lease in State.leases.
func idKey(id int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(id)))
}

// deadlineKey returns the key of a lease in State.deadlines, whose first lease expires first.
func (l *lease) deadlineKey() string {
	// A deadline is positive: the age of a DB is not negative, nor is a time to live.
	b := binary.BigEndian.AppendUint64(nil, uint64(l.deadline))
	return string(binary.BigEndian.AppendUint64(b, uint64(l.id)))
}

// setLease adds or replaces a lease.
func (s *State) setLease(l *lease) {
	s.removeLease(l.id)
	s.leases = s.leases.Set(idKey(l.id), l)
	s.deadlines = s.deadlines.Set(l.deadlineKey(), l)
}

// removeLease removes a lease, if it exists. Its keys stay.
func (s *State) removeLease(id int64) {
	if l, ok := s.leases.Get(idKey(id)); ok {
		s.leases = s.leases.Delete(idKey(id))
		s.deadlines = s.deadlines.Delete(l.deadlineKey())
	}
}

// attach adds a key to a lease, which exists.
func (s *State) attach(id int64, key string) {
	if l, ok := s.leases.Get(idKey(id)); ok {
		changed := *l
		changed.keys = l.keys.Set(key, struct{}{})
		s.setLease(&changed)
	}
}

// detach removes a key from a lease; zero is no lease.
func (s *State) detach(id int64, key string) {
	if l, ok := s.leases.Get(idKey(id)); ok {
		changed := *l
		changed.keys = l.keys.Delete(key)
		s.setLease(&changed)
	}
}

// revoke removes a lease and deletes its keys.
func (w *writer) revoke(l *lease) {
	for key := range l.keys.All() {
		w.store(&item{key: key, mod: w.base.revision + 1})
	}
	w.next.removeLease(l.id)
}

// expiry is the timer of the lease that expires first. mu of the DB guards it.
type expiry struct {
	timer *time.Timer
	at    time.Duration
	// running counts timers that have not ended.
	running sync.WaitGroup
}

// stop stops the timer. It may be running.
func (e *expiry) stop() {
	if e.timer != nil && e.timer.Stop() {
		e.running.Done()
	}
	e.timer = nil
}

// schedule sets the timer to the lease that expires first. mu is held.
func (db *DB) schedule(s *State) {
	for _, l := range s.deadlines.All() {
		if db.expiry.timer != nil && db.expiry.at == l.deadline {
			return
		}
		db.expiry.stop()
		db.expiry.at = l.deadline
		db.expiry.running.Add(1)
		var timer *time.Timer
		timer = time.AfterFunc(l.deadline-time.Since(db.epoch), func() {
			defer db.expiry.running.Done()
			db.mu.Lock()
			defer db.mu.Unlock()
			// Another one may have been set while this one was waiting.
			if db.expiry.timer == timer {
				db.expiry.timer = nil
				db.expire()
			}
		})
		db.expiry.timer = timer
		return
	}
	db.expiry.stop()
}

// expire revokes the leases that have expired, each at a revision of its own. mu is held.
func (db *DB) expire() {
	now := time.Since(db.epoch)
	for _, l := range db.state.Load().deadlines.All() {
		if l.deadline > now {
			break
		}
		w := db.state.Load().begin()
		w.origin = expired{}
		w.revoke(l)
		db.setLeases(w)
	}
	db.schedule(db.state.Load())
}

// setLeases commits changes of leases, also if they write no key. mu is held.
func (db *DB) setLeases(w *writer) {
	if len(w.events) > 0 {
		db.commit(w)
		return
	}
	db.set(&w.next) // no watch cares
}

// leaseService is the lease service.
type leaseService struct{ db *DB }

// update changes leases. It revokes those first that have expired.
func (s *leaseService) update(ctx context.Context, change func(w *writer) error) (revision int64, err error) {
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return 0, rpctypes.ErrGRPCStopped
	}
	db.expire()
	w := db.state.Load().begin()
	if err := change(w); err != nil {
		return 0, err
	}
	db.setOrigin(ctx, w)
	db.setLeases(w)
	db.schedule(db.state.Load())
	return w.revision(), nil
}

// LeaseGrant creates a lease.
func (s *leaseService) LeaseGrant(ctx context.Context, req *pb.LeaseGrantRequest, _ ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	l := &lease{id: req.ID, ttl: max(req.TTL, minTTL)}
	revision, err := s.update(ctx, func(w *writer) error {
		if req.TTL > maxTTL {
			return rpctypes.ErrGRPCLeaseTTLTooLarge
		}
		for l.id == 0 {
			w.next.nextLease++
			if _, ok := w.base.leases.Get(idKey(w.next.nextLease)); !ok {
				l.id = w.next.nextLease
			}
		}
		if _, ok := w.base.leases.Get(idKey(l.id)); ok {
			return rpctypes.ErrGRPCLeaseExist
		}
		l.deadline = s.db.deadline(l.ttl)
		w.next.setLease(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &pb.LeaseGrantResponse{Header: header(revision), ID: l.id, TTL: l.ttl}, nil
}

// deadline returns the deadline of a lease that begins now.
func (db *DB) deadline(ttl int64) time.Duration {
	return time.Since(db.epoch) + time.Duration(ttl)*time.Second
}

// LeaseRevoke deletes a lease and its keys.
func (s *leaseService) LeaseRevoke(ctx context.Context, req *pb.LeaseRevokeRequest, _ ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	revision, err := s.update(ctx, func(w *writer) error {
		l, ok := w.base.leases.Get(idKey(req.ID))
		if !ok {
			return rpctypes.ErrGRPCLeaseNotFound
		}
		w.revoke(l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &pb.LeaseRevokeResponse{Header: header(revision)}, nil
}

// LeaseTimeToLive returns the state of a lease. That of one that does not exist is -1.
func (s *leaseService) LeaseTimeToLive(ctx context.Context, req *pb.LeaseTimeToLiveRequest, _ ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	st := s.db.state.Load()
	out := &pb.LeaseTimeToLiveResponse{Header: header(st.revision), ID: req.ID, TTL: -1}
	if l, ok := st.leases.Get(idKey(req.ID)); ok {
		out.GrantedTTL = l.ttl
		out.TTL = int64((l.deadline - time.Since(s.db.epoch)).Seconds())
		if req.Keys {
			for key := range l.keys.All() {
				out.Keys = append(out.Keys, []byte(key))
			}
		}
	}
	return out, nil
}

// LeaseLeases lists the leases in the order in which they expire.
func (s *leaseService) LeaseLeases(ctx context.Context, req *pb.LeaseLeasesRequest, _ ...grpc.CallOption) (*pb.LeaseLeasesResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	st := s.db.state.Load()
	out := &pb.LeaseLeasesResponse{Header: header(st.revision)}
	for _, l := range st.deadlines.All() {
		out.Leases = append(out.Leases, &pb.LeaseStatus{ID: l.id})
	}
	return out, nil
}

// LeaseKeepAlive returns a stream that renews leases.
func (s *leaseService) LeaseKeepAlive(ctx context.Context, _ ...grpc.CallOption) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return &keepAlive{ctx: ctx, service: s, ready: make(chan struct{}, 1)}, nil
}

// keepAlive is a stream that renews leases. Its client sends on one goroutine, and receives on
// another.
type keepAlive struct {
	grpc.ClientStream // nil: the client calls only the methods below
	ctx               context.Context
	service           *leaseService
	ready             chan struct{} // has an element if there may be answers

	mu      sync.Mutex
	answers []*pb.LeaseKeepAliveResponse
}

// Send renews a lease. The answer for one that does not exist has no time to live.
func (k *keepAlive) Send(req *pb.LeaseKeepAliveRequest) error {
	db := k.service.db
	if err := db.check(k.ctx, req); err != nil {
		return err
	}
	answer := &pb.LeaseKeepAliveResponse{Header: header(db.state.Load().revision), ID: req.ID}
	if _, err := k.service.update(k.ctx, func(w *writer) error {
		if l, ok := w.base.leases.Get(idKey(req.ID)); ok {
			renewed := *l
			renewed.deadline = db.deadline(l.ttl)
			w.next.setLease(&renewed)
			answer.TTL = l.ttl
		}
		return nil
	}); err != nil {
		return err
	}
	k.mu.Lock()
	k.answers = append(k.answers, answer)
	k.mu.Unlock()
	select {
	case k.ready <- struct{}{}:
	default:
	}
	return nil
}

// Context returns the context of the stream.
func (k *keepAlive) Context() context.Context { return k.ctx }

// CloseSend does nothing: the client ends streams with their context.
func (k *keepAlive) CloseSend() error { return nil }

// Recv returns the next answer.
func (k *keepAlive) Recv() (*pb.LeaseKeepAliveResponse, error) {
	for {
		k.mu.Lock()
		if len(k.answers) > 0 {
			answer := k.answers[0]
			k.answers = slices.Delete(k.answers, 0, 1)
			k.mu.Unlock()
			return answer, nil
		}
		k.mu.Unlock()
		select {
		case <-k.ready:
		case <-k.ctx.Done():
			return nil, status.FromContextError(k.ctx.Err()).Err()
		case <-k.service.db.done:
			return nil, rpctypes.ErrGRPCStopped
		}
	}
}
