package memory

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"

	"espalier.dev/server/etcd"
)

func TestMain(m *testing.M) {
	// etcd logs every request that fails.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// system is an etcd under test: a real one or a DB. It records what it answers.
type system struct {
	testing.TB
	*clientv3.Client
	name   string
	leases pb.LeaseClient // that of the client chooses the IDs of leases
	raw    pb.KVClient
	log    []string
}

// systems returns a real etcd and a DB.
func systems(t testing.TB) (real, mem *system) {
	t.Helper()
	// Its own client logs every error.
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{member.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	conn := c.ActiveConnection()
	real = &system{TB: t, name: "etcd", Client: c, leases: pb.NewLeaseClient(conn), raw: pb.NewKVClient(conn)}
	db := Open(Config{})
	t.Cleanup(db.Close)
	c = db.Client()
	t.Cleanup(func() { _ = c.Close() })
	return real, &system{TB: t, name: "memory", Client: c, leases: &leaseService{db}, raw: &kvService{db}}
}

// answer returns the text of an answer without what differs between systems: who answers, and how
// much time a lease has left.
func answer(resp proto.Message, err error) string {
	if err != nil {
		return fmt.Sprintf("%T: %v", err, err)
	}
	resp = proto.Clone(resp)
	if m, ok := resp.(interface{ GetHeader() *pb.ResponseHeader }); ok {
		h := m.GetHeader()
		if h.GetClusterId() == 0 || h.GetMemberId() == 0 || h.GetRaftTerm() == 0 {
			return "an incomplete header"
		}
		h.ClusterId, h.MemberId, h.RaftTerm = 0, 0, 0
	}
	if l, ok := resp.(*pb.LeaseTimeToLiveResponse); ok {
		slices.SortFunc(l.Keys, slices.Compare)
		if l.TTL > l.GrantedTTL-60 {
			l.TTL = 0
		}
	}
	return fmt.Sprintf("%T{%s}", resp, prototext.MarshalOptions{}.Format(resp))
}

// record records an answer.
func (s *system) record(resp proto.Message, err error) {
	s.log = append(s.log, answer(resp, err))
}

// The requests of the client, with the revision of the answer.

func (s *system) get(key string, opts ...clientv3.OpOption) int64 {
	resp, err := s.Client.Get(s.Context(), key, opts...)
	s.record((*pb.RangeResponse)(resp), err)
	return (*pb.RangeResponse)(resp).GetHeader().GetRevision()
}

func (s *system) put(key, value string, opts ...clientv3.OpOption) int64 {
	resp, err := s.Client.Put(s.Context(), key, value, opts...)
	s.record((*pb.PutResponse)(resp), err)
	return (*pb.PutResponse)(resp).GetHeader().GetRevision()
}

func (s *system) delete(key string, opts ...clientv3.OpOption) int64 {
	resp, err := s.Client.Delete(s.Context(), key, opts...)
	s.record((*pb.DeleteRangeResponse)(resp), err)
	return (*pb.DeleteRangeResponse)(resp).GetHeader().GetRevision()
}

func (s *system) txn(compares []clientv3.Cmp, success, failure []clientv3.Op) int64 {
	resp, err := s.Client.Txn(s.Context()).If(compares...).Then(success...).Else(failure...).Commit()
	s.record((*pb.TxnResponse)(resp), err)
	return (*pb.TxnResponse)(resp).GetHeader().GetRevision()
}

func (s *system) compact(revision int64) {
	// A physical compaction has removed the history when it returns.
	resp, err := s.Client.Compact(s.Context(), revision, clientv3.WithCompactPhysical())
	s.record((*pb.CompactionResponse)(resp), err)
}

func (s *system) grant(id, ttl int64) {
	resp, err := s.leases.LeaseGrant(s.Context(), &pb.LeaseGrantRequest{ID: id, TTL: ttl})
	s.record(resp, err)
}

func (s *system) revoke(id int64) {
	resp, err := s.Revoke(s.Context(), clientv3.LeaseID(id))
	s.record((*pb.LeaseRevokeResponse)(resp), err)
}

func (s *system) timeToLive(id int64) {
	resp, err := s.leases.LeaseTimeToLive(s.Context(), &pb.LeaseTimeToLiveRequest{ID: id, Keys: true})
	s.record(resp, err)
}

func (s *system) listLeases() {
	resp, err := s.leases.LeaseLeases(s.Context(), &pb.LeaseLeasesRequest{})
	s.record(resp, err)
}

func (s *system) keepAlive(id int64) {
	resp, err := s.KeepAliveOnce(s.Context(), clientv3.LeaseID(id))
	text := fmt.Sprintf("%T: %v", err, err)
	if err == nil {
		text = fmt.Sprint(resp.ID, resp.TTL, resp.Revision)
	}
	s.log = append(s.log, text)
}

// watched is a watch of a system. Its goroutine ends with the watch, at the latest when its context
// ends.
type watched struct {
	system *system
	stop   context.CancelFunc

	mu       sync.Mutex
	changed  *sync.Cond
	events   []event
	revision int64 // of the last event or report of progress
	ended    bool
}

// event is an event of a watch, or another answer.
type event struct {
	revision int64 // that the watch had reached
	text     string
}

// add adds an event.
func (w *watched) add(revision int64, text string) {
	w.revision = max(w.revision, revision)
	w.events = append(w.events, event{w.revision, text})
}

func (s *system) watch(key string, opts ...clientv3.OpOption) *watched {
	return s.watchWith(s.Context(), key, opts...)
}

func (s *system) watchWith(ctx context.Context, key string, opts ...clientv3.OpOption) *watched {
	ctx, cancel := context.WithCancel(ctx)
	w := &watched{system: s, stop: cancel}
	w.changed = sync.NewCond(&w.mu)
	s.Cleanup(cancel)
	responses := s.Watch(ctx, key, opts...)
	go func() {
		for resp := range responses {
			w.mu.Lock()
			for _, e := range resp.Events {
				w.add(e.Kv.ModRevision, prototext.MarshalOptions{}.Format((*mvccpb.Event)(e)))
			}
			switch {
			case resp.IsProgressNotify():
				w.add(resp.Header.Revision, fmt.Sprint("progress ", resp.Header.Revision))
			case resp.Created:
				w.add(0, "created")
			case resp.Canceled:
				w.add(0, fmt.Sprint("canceled ", resp.CompactRevision, rpctypes.ErrorDesc(resp.Err())))
			}
			w.changed.Broadcast()
			w.mu.Unlock()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = true
		w.changed.Broadcast()
	}()
	return w
}

// await waits until the watch has reached a revision or has ended.
func (w *watched) await(revision int64) {
	w.system.Helper()
	w.wait(fmt.Sprint("revision ", revision), func() bool { return w.ended || w.revision >= revision })
}

// awaitEvents waits until there are as many events, or the watch has ended.
func (w *watched) awaitEvents(n int) {
	w.system.Helper()
	w.wait(fmt.Sprint(n, " events"), func() bool { return w.ended || len(w.events) >= n })
}

func (w *watched) wait(what string, until func() bool) {
	w.system.Helper()
	late := false
	timer := time.AfterFunc(20*time.Second, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.changed.Broadcast()
	})
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !until() {
		if late {
			w.system.Fatalf("%s: a watch does not reach %s: it has revision %d: %v", w.system.name, what, w.revision, w.events)
		}
		w.changed.Wait()
	}
}

// take returns the events up to a revision since the last call.
func (w *watched) take(revision int64) (out []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.events) > 0 && w.events[0].revision <= revision {
		out = append(out, w.events[0].text)
		w.events = w.events[1:]
	}
	return out
}

// recordEvents records the events since the last call.
func (w *watched) recordEvents() {
	w.system.log = append(w.system.log, strings.Join(w.take(math.MaxInt64), "\n"))
}

// compare checks that both systems have recorded the same, and forgets it.
func compare(t testing.TB, real, mem *system, what func(i int) string) {
	t.Helper()
	for i := range max(len(real.log), len(mem.log)) {
		a, b := "nothing", "nothing"
		if i < len(real.log) {
			a = real.log[i]
		}
		if i < len(mem.log) {
			b = mem.log[i]
		}
		if a != b {
			t.Fatalf("%s:\netcd:   %.3000s\nmemory: %.3000s", what(i), a, b)
		}
	}
	real.log, mem.log = nil, nil
}
