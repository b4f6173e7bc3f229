package memory

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"slices"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// kvService is the key-value service.
type kvService struct{ db *DB }

// Range reads keys.
func (s *kvService) Range(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (*pb.RangeResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	if err := validRange(req); err != nil {
		return nil, err
	}
	st := s.db.state.Load()
	k, err := st.at(req.Revision)
	if err != nil {
		return nil, err
	}
	out := read(k, req)
	out.Header = header(st.revision)
	return out, nil
}

// at returns the keys at a revision, where zero and less mean the newest.
func (s *State) at(revision int64) (keys, error) {
	switch {
	case revision > s.revision:
		return keys{}, rpctypes.ErrGRPCFutureRev
	case revision <= 0:
		return s.keys(), nil
	case revision < s.compacted:
		return keys{}, rpctypes.ErrGRPCCompacted
	}
	return s.history.at(revision).keys, nil
}

// read carries out a request to read. The caller sets the header.
func read(k keys, req *pb.RangeRequest) *pb.RangeResponse {
	out := &pb.RangeResponse{}
	// Only etcd's default order needs no more than limit keys. The order is ignored without a
	// direction, but not the target.
	sorted := req.SortTarget != pb.RangeRequest_KEY || req.SortOrder == pb.RangeRequest_DESCEND
	limit := req.Limit
	if req.SortOrder != pb.RangeRequest_NONE && sorted || filtered(req) {
		limit = 0
	}
	for i := range newSpan(req.Key, req.RangeEnd).in(k) {
		out.Count++
		// One more than the limit, to find out whether there are more.
		if req.CountOnly || limit > 0 && int64(len(out.Kvs)) > limit || !matches(req, i) {
			continue
		}
		kv := i.kv()
		if req.KeysOnly && req.SortTarget != pb.RangeRequest_VALUE {
			kv.Value, kv.Lease = nil, 0 // etcd answers from its index, which has no leases
		}
		out.Kvs = append(out.Kvs, kv)
	}
	if sorted {
		sortKeys(out.Kvs, req)
	}
	if req.Limit > 0 && int64(len(out.Kvs)) > req.Limit {
		out.Kvs, out.More = slices.Clip(out.Kvs[:req.Limit]), true
	}
	if req.KeysOnly {
		for _, kv := range out.Kvs {
			kv.Value = nil
		}
	}
	return out
}

// filtered reports whether a request selects keys by their revisions.
func filtered(req *pb.RangeRequest) bool {
	return req.MinModRevision != 0 || req.MaxModRevision != 0 || req.MinCreateRevision != 0 || req.MaxCreateRevision != 0
}

func matches(req *pb.RangeRequest, i *item) bool {
	return (req.MinModRevision == 0 || i.mod >= req.MinModRevision) &&
		(req.MaxModRevision == 0 || i.mod <= req.MaxModRevision) &&
		(req.MinCreateRevision == 0 || i.create >= req.MinCreateRevision) &&
		(req.MaxCreateRevision == 0 || i.create <= req.MaxCreateRevision)
}

// sortKeys sorts keys, which are in the order of their names. etcd's order of equal keys is that of
// package sort, and so it is here.
func sortKeys(kvs []*mvccpb.KeyValue, req *pb.RangeRequest) {
	var less func(a, b *mvccpb.KeyValue) int
	switch req.SortTarget {
	case pb.RangeRequest_VERSION:
		less = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.Version, b.Version) }
	case pb.RangeRequest_CREATE:
		less = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) }
	case pb.RangeRequest_MOD:
		less = func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.ModRevision, b.ModRevision) }
	case pb.RangeRequest_VALUE:
		less = func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Value, b.Value) }
	default:
		less = func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) }
	}
	order := &byOrder{kvs, less}
	if req.SortOrder == pb.RangeRequest_DESCEND {
		sort.Sort(sort.Reverse(order))
		return
	}
	sort.Sort(order)
}

type byOrder struct {
	kvs     []*mvccpb.KeyValue
	compare func(a, b *mvccpb.KeyValue) int
}

func (b *byOrder) Len() int           { return len(b.kvs) }
func (b *byOrder) Less(i, j int) bool { return b.compare(b.kvs[i], b.kvs[j]) < 0 }
func (b *byOrder) Swap(i, j int)      { b.kvs[i], b.kvs[j] = b.kvs[j], b.kvs[i] }

// RangeStream reads keys. All of them are in one part.
func (s *kvService) RangeStream(ctx context.Context, req *pb.RangeRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[pb.RangeStreamResponse], error) {
	return &rangeStream{ctx: ctx, service: s, req: req}, nil
}

// rangeStream is the answer to RangeStream.
type rangeStream struct {
	grpc.ClientStream // nil: the client calls only the methods below
	ctx               context.Context
	service           *kvService
	req               *pb.RangeRequest // nil after the answer
}

// Context returns the context of the request.
func (r *rangeStream) Context() context.Context { return r.ctx }

// Recv returns the keys, and then io.EOF.
func (r *rangeStream) Recv() (*pb.RangeStreamResponse, error) {
	if r.req == nil {
		return nil, io.EOF
	}
	resp, err := r.service.Range(r.ctx, r.req)
	if err != nil {
		return nil, err
	}
	r.req = nil
	return &pb.RangeStreamResponse{RangeResponse: resp}, nil
}

// Put writes a key.
func (s *kvService) Put(ctx context.Context, req *pb.PutRequest, _ ...grpc.CallOption) (*pb.PutResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	if err := validPut(req); err != nil {
		return nil, err
	}
	if err := checkSize(&pb.InternalRaftRequest{Put: req}); err != nil {
		return nil, err
	}
	var out *pb.PutResponse
	revision, err := s.db.write(ctx, func(w *writer) error {
		if err := w.base.checkPut(req); err != nil {
			return err
		}
		out = w.put(req)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Header = header(revision)
	return out, nil
}

// DeleteRange deletes keys.
func (s *kvService) DeleteRange(ctx context.Context, req *pb.DeleteRangeRequest, _ ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	if err := validDelete(req); err != nil {
		return nil, err
	}
	if err := checkSize(&pb.InternalRaftRequest{DeleteRange: req}); err != nil {
		return nil, err
	}
	var out *pb.DeleteRangeResponse
	revision, err := s.db.write(ctx, func(w *writer) error {
		out = w.delete(req)
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Header = header(revision)
	return out, nil
}

// Txn carries out a transaction.
func (s *kvService) Txn(ctx context.Context, req *pb.TxnRequest, _ ...grpc.CallOption) (*pb.TxnResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	if err := validTxn(req, maxTxnOps); err != nil {
		return nil, err
	}
	for _, ops := range [][]*pb.RequestOp{req.Success, req.Failure} {
		if _, err := writtenBy(ops); err != nil {
			return nil, err
		}
	}
	if readOnly(req) {
		st := s.db.state.Load()
		w := st.begin()
		out, err := w.txn(req)
		if err != nil {
			return nil, err
		}
		out.Header = header(st.revision)
		return out, nil
	}
	if err := checkSize(&pb.InternalRaftRequest{Txn: req}); err != nil {
		return nil, err
	}
	var out *pb.TxnResponse
	revision, err := s.db.write(ctx, func(w *writer) (err error) {
		out, err = w.txn(req)
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Header = header(revision)
	return out, nil
}

// Compact frees the revisions before one.
func (s *kvService) Compact(ctx context.Context, req *pb.CompactionRequest, _ ...grpc.CallOption) (*pb.CompactionResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	db := s.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return nil, rpctypes.ErrGRPCStopped
	}
	old := db.state.Load()
	switch {
	case req.Revision <= old.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case req.Revision > old.revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	st := db.compact(old, req.Revision)
	db.publish(st)
	return &pb.CompactionResponse{Header: header(st.revision)}, nil
}
