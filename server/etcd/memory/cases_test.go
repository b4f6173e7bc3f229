package memory

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// cases are requests whose answers and events must be those of etcd.
var cases = map[string]func(*system){
	"an empty etcd": func(s *system) {
		s.get("a")
		s.get("\x00", clientv3.WithFromKey())
		s.get("", clientv3.WithPrefix())
		s.get("")
		s.delete("a")
		s.delete("")
		s.put("", "")
		s.get("a", clientv3.WithRev(2))
		s.get("a", clientv3.WithRev(-1))
		s.txn(nil, nil, nil)
		s.listLeases()
		s.timeToLive(7)
	},
	"versions of a key": func(s *system) {
		s.put("a", "1")
		s.put("a", "2", clientv3.WithPrevKV())
		s.get("a")
		s.delete("a", clientv3.WithPrevKV())
		s.delete("a", clientv3.WithPrevKV())
		s.get("a")
		s.put("a", "3", clientv3.WithPrevKV())
		s.get("a")
		for r := int64(1); r <= 6; r++ {
			s.get("a", clientv3.WithRev(r))
		}
		s.put("b", "", clientv3.WithIgnoreValue())
		s.put("b", "", clientv3.WithIgnoreLease())
		s.put("a", "", clientv3.WithIgnoreValue())
		s.get("a")
	},
	"ranges": func(s *system) {
		for i, key := range []string{"a", "a/1", "a/2", "a/20", "a0", "b", "c", "\xff", "\xff\xff"} {
			s.put(key, fmt.Sprint(9-i/2))
		}
		s.put("a/2", "x")
		s.put("c", "x")
		s.get("a/", clientv3.WithPrefix())
		s.get("\xff", clientv3.WithPrefix())
		s.get("a", clientv3.WithRange("b"))
		s.get("b", clientv3.WithRange("a"))
		s.get("a", clientv3.WithRange("a"))
		s.get("b", clientv3.WithFromKey())
		s.get("a", clientv3.WithPrefix(), clientv3.WithCountOnly())
		s.get("a", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		s.get("a", clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithCountOnly())
		s.get("a", clientv3.WithPrefix(), clientv3.WithSerializable())
		for _, limit := range []int64{-1, 0, 1, 4, 5, 6, math.MaxInt64} {
			s.get("a", clientv3.WithPrefix(), clientv3.WithLimit(limit))
			s.get("a", clientv3.WithPrefix(), clientv3.WithLimit(limit), clientv3.WithCountOnly())
			s.get("a", clientv3.WithPrefix(), clientv3.WithLimit(limit), clientv3.WithMinModRev(4))
		}
		for _, target := range []clientv3.SortTarget{clientv3.SortByKey, clientv3.SortByVersion, clientv3.SortByCreateRevision,
			clientv3.SortByModRevision, clientv3.SortByValue} {
			for _, order := range []clientv3.SortOrder{clientv3.SortNone, clientv3.SortAscend, clientv3.SortDescend} {
				s.get("\x00", clientv3.WithFromKey(), clientv3.WithSort(target, order))
				s.get("\x00", clientv3.WithFromKey(), clientv3.WithSort(target, order), clientv3.WithLimit(3))
				s.get("\x00", clientv3.WithFromKey(), clientv3.WithSort(target, order), clientv3.WithKeysOnly())
			}
		}
		for _, o := range []clientv3.OpOption{clientv3.WithMinModRev(5), clientv3.WithMaxModRev(5), clientv3.WithMinCreateRev(5), clientv3.WithMaxCreateRev(5)} {
			s.get("\x00", clientv3.WithFromKey(), o)
		}
		s.get("a", clientv3.WithLastRev()...)
		s.get("", clientv3.WithLastRev()...)
		for _, req := range []*pb.RangeRequest{{Key: []byte("a"), SortOrder: 9}, {Key: []byte("a"), SortTarget: 9}, {Key: []byte("b"), RangeEnd: []byte("\x00")}} {
			s.record(s.raw.Range(s.Context(), req))
		}
		s.delete("a/", clientv3.WithPrefix(), clientv3.WithPrevKV())
		s.delete("b", clientv3.WithFromKey())
		s.get("\x00", clientv3.WithFromKey())
	},
	"a stream of keys": func(s *system) {
		for i := range 30 {
			s.put(fmt.Sprintf("a%02d", i), "x")
		}
		for _, opts := range [][]clientv3.OpOption{{}, {clientv3.WithLimit(5)}, {clientv3.WithRev(7)}, {clientv3.WithRev(99)}, {clientv3.WithCountOnly()}} {
			stream, err := s.GetStream(s.Context(), "a", append(opts, clientv3.WithPrefix())...)
			if err != nil {
				s.Fatal(err)
			}
			resp, err := clientv3.GetStreamToGetResponse(stream)
			s.record((*pb.RangeResponse)(resp), err)
		}
	},
	"transactions": func(s *system) {
		s.put("a", "1")
		s.put("b", "2")
		put := func(key, value string) clientv3.Op { return clientv3.OpPut(key, value, clientv3.WithPrevKV()) }
		all := clientv3.OpGet("\x00", clientv3.WithFromKey())
		for _, c := range []clientv3.Cmp{
			clientv3.Compare(clientv3.Value("a"), "=", "1"), clientv3.Compare(clientv3.Value("a"), "!=", "1"),
			clientv3.Compare(clientv3.Value("a"), "<", "2"), clientv3.Compare(clientv3.Value("a"), ">", "2"),
			clientv3.Compare(clientv3.Value("z"), "=", ""), clientv3.Compare(clientv3.Value("z"), "!=", "x"),
			clientv3.Compare(clientv3.ModRevision("z"), "=", 0), clientv3.Compare(clientv3.ModRevision("a"), "=", 2),
			clientv3.Compare(clientv3.CreateRevision("z"), "=", 0), clientv3.Compare(clientv3.CreateRevision("b"), ">", 2),
			clientv3.Compare(clientv3.Version("a"), "=", 1), clientv3.Compare(clientv3.Version("z"), "=", 0),
			clientv3.Compare(clientv3.LeaseValue("a"), "=", 0),
			clientv3.Compare(clientv3.Version("a"), "=", 1).WithPrefix(), clientv3.Compare(clientv3.ModRevision("a"), "=", 2).WithRange("c"),
			clientv3.Compare(clientv3.ModRevision("x"), ">", 2).WithPrefix(),
		} {
			s.txn([]clientv3.Cmp{c}, []clientv3.Op{clientv3.OpGet("a")}, []clientv3.Op{clientv3.OpGet("b")})
		}
		// It sees its own writes, and has one revision.
		s.txn(nil, []clientv3.Op{all, put("a", "3"), all, put("c", "4"), clientv3.OpDelete("b", clientv3.WithPrevKV()), all,
			clientv3.OpGet("a", clientv3.WithRev(3)), clientv3.OpGet("a", clientv3.WithCountOnly())}, nil)
		s.get("\x00", clientv3.WithFromKey())
		// Nothing is written if something is wrong.
		s.txn(nil, []clientv3.Op{put("a", "5"), clientv3.OpGet("a", clientv3.WithRev(99))}, nil)
		s.txn(nil, []clientv3.Op{put("a", "5"), clientv3.OpPut("b", "6", clientv3.WithLease(5))}, nil)
		s.txn(nil, []clientv3.Op{put("a", "5"), clientv3.OpPut("b", "", clientv3.WithIgnoreValue())}, nil)
		s.txn(nil, []clientv3.Op{clientv3.OpGet("a", clientv3.WithRev(-1))}, nil)
		s.txn(nil, []clientv3.Op{clientv3.OpGet("a", clientv3.WithRev(-2))}, nil)
		// Deletions of nothing need no revision.
		s.txn(nil, []clientv3.Op{clientv3.OpDelete("x"), clientv3.OpDelete("y", clientv3.WithPrefix())}, nil)
		s.txn(nil, []clientv3.Op{put("x", ""), clientv3.OpDelete("y")}, nil)
		s.get("a")
	},
	"transactions inside of transactions": func(s *system) {
		put := func(key, value string) clientv3.Op { return clientv3.OpPut(key, value) }
		exists := func(key string) []clientv3.Cmp {
			return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)}
		}
		all := clientv3.OpGet("\x00", clientv3.WithFromKey())
		watch := s.watch("\x00", clientv3.WithFromKey(), clientv3.WithPrevKV())
		// Comparisons see what was there before.
		s.txn(nil, []clientv3.Op{put("a", "1"), clientv3.OpTxn(exists("a"), []clientv3.Op{put("b", "then")}, []clientv3.Op{put("b", "else"), all}), all}, nil)
		s.txn(exists("a"), []clientv3.Op{clientv3.OpTxn(exists("a"), []clientv3.Op{put("c", "then")}, []clientv3.Op{put("c", "else")}),
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpTxn(exists("z"), nil, []clientv3.Op{put("d", "1")}), all}, nil)}, nil)
		s.txn(nil, []clientv3.Op{clientv3.OpTxn(nil, nil, nil)}, nil)
		// Keys that are written twice.
		for _, ops := range [][]clientv3.Op{
			{put("a", ""), put("a", "")},
			{put("a", ""), clientv3.OpDelete("a")},
			{clientv3.OpDelete("a"), put("a", "")},
			{put("b", ""), clientv3.OpDelete("a", clientv3.WithRange("c"))},
			{put("c", ""), clientv3.OpDelete("a", clientv3.WithRange("c"))},
			{clientv3.OpDelete("a"), clientv3.OpDelete("a")},
			{put("a", "x"), clientv3.OpTxn(nil, []clientv3.Op{put("a", "")}, nil)},
			{put("a", "x"), clientv3.OpTxn(nil, nil, []clientv3.Op{put("a", "")})},
			{put("a", "x"), clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpDelete("a")})},
			{clientv3.OpDelete("a"), clientv3.OpTxn(nil, nil, []clientv3.Op{put("a", "")})},
			{clientv3.OpTxn(nil, []clientv3.Op{put("a", "")}, []clientv3.Op{put("a", "")})},
			{clientv3.OpTxn(nil, []clientv3.Op{put("a", "")}, nil), clientv3.OpTxn(nil, nil, []clientv3.Op{put("a", "")})},
			{clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("a")}, nil), clientv3.OpTxn(nil, []clientv3.Op{put("a", "")}, nil)},
			// etcd does not notice these.
			{clientv3.OpTxn(nil, []clientv3.Op{put("e", "put and deleted")}, nil), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("e")}, nil)},
			{clientv3.OpTxn(nil, []clientv3.Op{put("a", "put and deleted")}, nil), clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpDelete("a", clientv3.WithPrevKV()), all}, nil)},
			{clientv3.OpDelete("b", clientv3.WithFromKey()), put("b", "deleted and put"), all},
			{put("b", "put and deleted"), clientv3.OpDelete("b", clientv3.WithFromKey())},
		} {
			s.txn(nil, ops, nil)
			s.txn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("nothing"), ">", 0)}, nil, ops)
		}
		s.get("\x00", clientv3.WithFromKey())
		watch.await(s.put("z", ""))
		watch.recordEvents()
	},
	"limits": func(s *system) {
		ops := func(n int) (out []clientv3.Op) {
			for i := range n {
				out = append(out, clientv3.OpPut(fmt.Sprint(i), ""))
			}
			return out
		}
		compares := func(n int) (out []clientv3.Cmp) {
			for i := range n {
				out = append(out, clientv3.Compare(clientv3.Version(fmt.Sprint(i)), "=", 0))
			}
			return out
		}
		for _, n := range []int{128, 129} {
			s.txn(nil, ops(n), nil)
			s.txn(nil, nil, ops(n))
			s.txn(compares(n), nil, nil)
		}
		inside := func(outer, inner int) []clientv3.Op {
			return append(ops(outer), clientv3.OpTxn(nil, nil, compareGets(inner)))
		}
		s.txn(nil, inside(64, 63), nil)
		s.txn(nil, inside(64, 64), nil)
		for _, n := range []int{3<<19 - 100, 3 << 19, 2 << 20} {
			s.put("large", strings.Repeat("x", n))
			s.txn(nil, []clientv3.Op{clientv3.OpPut("large", strings.Repeat("x", n))}, nil)
			s.delete("large" + strings.Repeat("x", n))
			s.get("large" + strings.Repeat("x", n))
		}
		s.get("large", clientv3.WithKeysOnly())
		for _, req := range []*pb.PutRequest{{Key: []byte("0"), Value: []byte("x"), IgnoreValue: true}, {Key: []byte("0"), Lease: 1, IgnoreLease: true}} {
			s.record(s.raw.Put(s.Context(), req))
		}
		s.record(s.raw.Txn(s.Context(), &pb.TxnRequest{Success: []*pb.RequestOp{{}}}))
		s.record(s.raw.Txn(s.Context(), &pb.TxnRequest{Compare: []*pb.Compare{{}}}))
	},
	"compaction": func(s *system) {
		s.compact(-1)
		s.compact(2)
		s.compact(0)
		s.compact(0)
		for i := range 5 {
			s.put("a", fmt.Sprint(i))
			s.put("b", fmt.Sprint(i))
		}
		s.delete("b")
		s.put("c", "")
		for _, revision := range []int64{5, 5, 4, 13, 14, 12, 6, 13} {
			s.compact(revision)
			for r := int64(-1); r <= 14; r++ {
				s.get("\x00", clientv3.WithFromKey(), clientv3.WithRev(r))
				s.txn(nil, []clientv3.Op{clientv3.OpGet("a", clientv3.WithRev(r))}, nil)
				s.txn(nil, []clientv3.Op{clientv3.OpGet("a", clientv3.WithRev(r)), clientv3.OpDelete("none")}, nil)
			}
			for r := revision - 1; r <= min(revision+1, 13); r++ {
				w := s.watch("\x00", clientv3.WithFromKey(), clientv3.WithRev(max(r, 1)), clientv3.WithPrevKV())
				w.await(13)
				w.stop()
				w.wait("its end", func() bool { return w.ended })
				w.recordEvents()
			}
		}
	},
	"watches": func(s *system) {
		s.put("a", "1")
		s.put("b", "1")
		ws := []*watched{
			s.watch("a", clientv3.WithCreatedNotify()), s.watch("a", clientv3.WithPrefix()), s.watch("a", clientv3.WithRange("b")),
			s.watch("\x00", clientv3.WithFromKey(), clientv3.WithPrevKV()), s.watch("", clientv3.WithPrefix(), clientv3.WithRev(1)),
			s.watch("a", clientv3.WithRev(2), clientv3.WithPrevKV()), s.watch("a", clientv3.WithRev(5)),
			s.watch("a", clientv3.WithFilterPut()), s.watch("a", clientv3.WithFilterDelete()), s.watch("a", clientv3.WithFilterDelete(), clientv3.WithFilterPut()),
			s.watch("b", clientv3.WithRange("a")), s.watch("a", clientv3.WithRev(-1)), s.watch("a", clientv3.WithFragment()),
		}
		const noPut, nothing, empty, negative = 7, 9, 10, 11
		for _, w := range ws {
			// All are there before the next write.
			s.awaitCreated(w)
		}
		s.put("a", "2")
		s.delete("a")
		s.put("aa", "1")
		s.txn(nil, []clientv3.Op{clientv3.OpPut("a", "3"), clientv3.OpPut("aa", "2"), clientv3.OpPut("b", "2"), clientv3.OpDelete("c")}, nil)
		s.delete("a", clientv3.WithPrefix())
		revision := s.put("a", "last")
		for i, w := range ws {
			switch {
			case i == noPut:
				w.awaitEvents(2)
			case i == nothing:
			case i == empty || i == negative:
				w.wait("its end", func() bool { return w.ended })
			default:
				w.await(revision)
			}
		}
		for _, w := range ws {
			w.recordEvents()
		}
	},
	"progress": func(s *system) {
		w := s.watch("a", clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
		s.awaitCreated(w)
		revision := s.put("outside", "")
		for _, r := range []int64{revision, s.put("a", ""), s.put("outside", "")} {
			for w.progressed() < r {
				if err := s.RequestProgress(s.Context()); err != nil {
					s.Fatal(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		for _, e := range w.take(math.MaxInt64) {
			if !strings.HasPrefix(e, "progress") { // their number is not fixed
				s.log = append(s.log, e)
			}
		}
	},
	"leases": func(s *system) {
		s.grant(1, 100)
		s.grant(1, 100)
		s.grant(2, 200)
		s.grant(3, 0)
		s.grant(4, -1)
		s.grant(5, 9_000_000_000)
		s.grant(6, 9_000_000_001)
		s.revoke(3)
		s.revoke(4)
		s.put("a", "", clientv3.WithLease(1))
		s.put("c", "", clientv3.WithLease(1))
		s.put("b", "", clientv3.WithLease(1), clientv3.WithPrevKV())
		s.put("x", "", clientv3.WithLease(77))
		s.timeToLive(1)
		s.get("\x00", clientv3.WithFromKey())
		s.get("\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly())
		s.get("\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortDescend))
		s.put("a", "moved", clientv3.WithLease(2))
		s.put("b", "without")
		s.put("c", "", clientv3.WithIgnoreValue(), clientv3.WithLease(1))
		s.put("a", "kept", clientv3.WithIgnoreLease())
		s.timeToLive(1)
		s.timeToLive(2)
		s.put("d", "", clientv3.WithLease(1))
		s.delete("d")
		s.timeToLive(1)
		s.listLeases()
		s.txn([]clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue("a"), "=", 2)}, []clientv3.Op{clientv3.OpPut("e", "", clientv3.WithLease(1)), clientv3.OpDelete("c")}, nil)
		w := s.watch("\x00", clientv3.WithFromKey(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
		s.awaitCreated(w)
		s.keepAlive(1)
		s.keepAlive(99)
		s.put("f", "", clientv3.WithLease(1))
		s.revoke(1)
		s.revoke(1)
		s.revoke(99)
		s.timeToLive(1)
		s.revoke(5)
		s.get("\x00", clientv3.WithFromKey())
		w.await(s.put("last", ""))
		w.recordEvents()
	},
	"expired leases": func(s *system) {
		s.grant(1, 1)
		s.put("a", "", clientv3.WithLease(1))
		s.put("b", "", clientv3.WithLease(1))
		w := s.watch("\x00", clientv3.WithFromKey(), clientv3.WithCreatedNotify())
		s.awaitCreated(w)
		w.awaitEvents(3)
		w.recordEvents()
		s.timeToLive(1)
		s.listLeases()
		s.keepAlive(1)
		s.put("c", "", clientv3.WithLease(1))
		s.get("\x00", clientv3.WithFromKey())
	},
	"leases that are kept alive": func(s *system) {
		s.grant(1, 2)
		s.put("a", "", clientv3.WithLease(1))
		ctx, cancel := context.WithCancel(s.Context())
		alive, err := s.KeepAlive(ctx, 1)
		if err != nil {
			s.Fatal(err)
		}
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if a, ok := <-alive; !ok || a.TTL != 2 {
				s.Fatal(a, ok)
			}
		}
		s.get("a")
		s.revoke(1)
		cancel()
		for range alive {
		}
		s.get("a")
	},
	"contexts": func(s *system) {
		canceled, cancel := context.WithCancel(s.Context())
		cancel()
		late, cancel := context.WithTimeout(s.Context(), 0)
		defer cancel()
		for _, ctx := range []context.Context{canceled, late} {
			_, err := s.Get(ctx, "a")
			s.record(nil, err)
			_, err = s.Put(ctx, "a", "")
			s.record(nil, err)
			_, err = s.Delete(ctx, "a")
			s.record(nil, err)
			_, err = s.Txn(ctx).Then(clientv3.OpPut("a", "")).Commit()
			s.record(nil, err)
			_, err = s.Compact(ctx, 1)
			s.record(nil, err)
			_, err = s.Grant(ctx, 5)
			s.record(nil, err)
			_, err = s.Revoke(ctx, 5)
			s.record(nil, err)
			for resp := range s.Watch(ctx, "a") {
				s.log = append(s.log, fmt.Sprint(resp.Err()))
			}
		}
		s.get("a")
	},
	"maintenance": func(s *system) {
		endpoint := ""
		if eps := s.Endpoints(); len(eps) > 0 {
			endpoint = eps[0]
		}
		status, err := s.Status(s.Context(), endpoint)
		if err != nil {
			s.Fatal(err)
		}
		s.log = append(s.log, status.Version, fmt.Sprint(status.Header.Revision, status.Errors, status.Leader == status.Header.MemberId))
		alarms, err := s.AlarmList(s.Context())
		s.log = append(s.log, fmt.Sprint(alarms.Alarms, err))
		_, err = s.Defragment(s.Context(), endpoint)
		s.log = append(s.log, fmt.Sprint(err))
	},
}

func compareGets(n int) (out []clientv3.Op) {
	for range n {
		out = append(out, clientv3.OpGet("a"))
	}
	return out
}

// awaitCreated waits until the server knows a watch, or rejects it: answers to the requests of a
// stream are in their order.
func (s *system) awaitCreated(w *watched) {
	s.Helper()
	if err := s.RequestProgress(s.Context()); err != nil {
		s.Fatal(err)
	}
	probe := s.watch("probe", clientv3.WithCreatedNotify())
	probe.awaitEvents(1)
	probe.stop()
}

func (w *watched) progressed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revision
}

func TestCases(t *testing.T) {
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real, mem := systems(t)
			run(real)
			run(mem)
			if len(mem.log) == 0 {
				t.Fatal("nothing is recorded")
			}
			compare(t, real, mem, func(i int) string { return fmt.Sprintf("answer %d", i+1) })
		})
	}
}

// TestErrors checks that errors are those that callers compare with, and not only their texts.
func TestErrors(t *testing.T) {
	db := Open(Config{})
	defer db.Close()
	c := db.Client()
	defer func() { _ = c.Close() }()
	for _, e := range []struct {
		want error
		do   func() error
	}{
		{rpctypes.ErrFutureRev, func() error { _, err := c.Get(t.Context(), "a", clientv3.WithRev(9)); return err }},
		{rpctypes.ErrCompacted, func() error { _, err := c.Compact(t.Context(), -1); return err }},
		{rpctypes.ErrEmptyKey, func() error { _, err := c.Put(t.Context(), "", ""); return err }},
		{rpctypes.ErrLeaseNotFound, func() error { _, err := c.Revoke(t.Context(), 9); return err }},
		{rpctypes.ErrRequestTooLarge, func() error { _, err := c.Put(t.Context(), "a", strings.Repeat("x", 3<<19)); return err }},
	} {
		if err := e.do(); err != e.want { //nolint:errorlint // the values are the API
			t.Errorf("got %v, want %v", err, e.want)
		}
	}
}
