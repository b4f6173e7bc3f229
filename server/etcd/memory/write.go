package memory

import (
	"context"
	"sort"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// writer builds the next revision of a state.
type writer struct {
	base *State
	// next is the state after the writes so far, and keys are its keys. They are not in its
	// history yet.
	next   State
	keys   keys
	events []*item
	origin any
}

func (s *State) begin() *writer {
	return &writer{base: s, next: *s, keys: s.keys()}
}

// revision returns the revision after the writes so far.
func (w *writer) revision() int64 {
	if len(w.events) == 0 {
		return w.base.revision
	}
	return w.base.revision + 1
}

// write calls change and makes its result the current state. It returns the new revision, which is
// the old one if nothing was written.
func (db *DB) write(ctx context.Context, change func(w *writer) error) (revision int64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return 0, rpctypes.ErrGRPCStopped
	}
	w := db.state.Load().begin()
	if err := change(w); err != nil {
		return 0, err
	}
	db.setOrigin(ctx, w)
	db.commit(w)
	return w.revision(), nil
}

// setOrigin sets what has caused the request with a context, if it writes something.
func (db *DB) setOrigin(ctx context.Context, w *writer) {
	if db.origin != nil && len(w.events) > 0 {
		w.origin = db.origin(ctx)
	}
}

// commit makes the result of a writer the current state. mu is held.
func (db *DB) commit(w *writer) {
	if len(w.events) == 0 {
		return
	}
	written := w.base.history.at(w.base.revision).written
	for _, e := range w.events {
		written += int64(len(e.key)+len(e.value)) + perEvent
	}
	w.next.revision++
	w.next.history = w.next.history.append(change{
		keys: w.keys, events: w.events, size: w.next.size, time: time.Now().UnixNano(), origin: w.origin, written: written,
	})
	if h := w.next.history; db.maxHistory > 0 && written-h.at(h.first).written > db.maxHistory {
		half := sort.Search(h.n-1, func(i int) bool { return written-h.at(h.first+int64(i)).written <= db.maxHistory/2 })
		w.next = *db.compact(&w.next, h.first+int64(half))
		if db.compacted != nil {
			db.compacted(w.next.compacted)
		}
	}
	db.publish(&w.next)
}

// perEvent is about the number of bytes that an event takes in addition to its key and value.
const perEvent = 500

// compact returns a state without the revisions before one. mu is held.
func (db *DB) compact(s *State, revision int64) *State {
	for w := range db.watches {
		w.keep(s, revision)
	}
	out := *s
	out.compacted = revision
	out.history = s.history.compact(revision)
	return &out
}

// store adds an event: a new version of a key, or its deletion.
func (w *writer) store(i *item) {
	old, exists := w.keys.Get(i.key)
	if exists {
		w.next.size -= int64(len(old.key) + len(old.value))
		if old.lease != i.lease {
			w.next.detach(old.lease, i.key)
		}
	}
	if i.deleted() {
		w.keys = w.keys.Delete(i.key)
	} else {
		w.keys = w.keys.Set(i.key, i)
		w.next.size += int64(len(i.key) + len(i.value))
		if i.lease != 0 && (!exists || old.lease != i.lease) {
			w.next.attach(i.lease, i.key)
		}
	}
	w.events = append(w.events, i)
}

// put writes a key. The header has only the revision, as inside a transaction.
func (w *writer) put(req *pb.PutRequest) *pb.PutResponse {
	revision := w.base.revision + 1
	i := &item{key: string(req.Key), value: req.Value, create: revision, mod: revision, version: 1, lease: req.Lease}
	out := &pb.PutResponse{Header: &pb.ResponseHeader{Revision: revision}}
	if old, ok := w.keys.Get(i.key); ok {
		i.key, i.create, i.version = old.key, old.create, old.version+1
		if req.IgnoreValue {
			i.value = old.value
		}
		if req.IgnoreLease {
			i.lease = old.lease
		}
		if req.PrevKv {
			out.PrevKv = old.kv()
		}
	}
	w.store(i)
	return out
}

// delete deletes keys. The header has only the revision, as inside a transaction.
func (w *writer) delete(req *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	out := &pb.DeleteRangeResponse{}
	// The iteration is over the keys of now.
	for i := range newSpan(req.Key, req.RangeEnd).in(w.keys) {
		out.Deleted++
		if req.PrevKv {
			out.PrevKvs = append(out.PrevKvs, i.kv())
		}
		w.store(&item{key: i.key, mod: w.base.revision + 1})
	}
	out.Header = &pb.ResponseHeader{Revision: w.revision()}
	return out
}

// txn carries out a transaction. The caller sets the header.
func (w *writer) txn(req *pb.TxnRequest) (*pb.TxnResponse, error) {
	b := w.base.decide(req)
	if err := w.base.checkOps(b); err != nil {
		return nil, err
	}
	return w.run(b), nil
}

func (w *writer) run(b *branch) *pb.TxnResponse {
	out := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: b.succeeded}
	for i, op := range b.ops {
		resp := &pb.ResponseOp{}
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			resp.Response = &pb.ResponseOp_ResponseRange{ResponseRange: w.read(r.RequestRange)}
		case *pb.RequestOp_RequestPut:
			resp.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.put(r.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			resp.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.delete(r.RequestDeleteRange)}
		case *pb.RequestOp_RequestTxn:
			resp.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: w.run(b.inner[i])}
		}
		out.Responses = append(out.Responses, resp)
	}
	return out
}

// read reads keys inside a transaction, which sees its own writes.
func (w *writer) read(req *pb.RangeRequest) *pb.RangeResponse {
	k := w.keys
	if req.Revision > 0 {
		k = w.base.history.at(req.Revision).keys // checkRange has checked it
	}
	out := read(k, req)
	out.Header = &pb.ResponseHeader{Revision: w.revision()}
	return out
}
