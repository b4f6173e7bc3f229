package kine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// kv carries out a request.
type kv struct {
	conn *Conn
	send func(ctx context.Context, method string, req, reply proto.Message) error
}

// revision returns the revision of the last write.
func (k *kv) revision(ctx context.Context) (int64, error) {
	out := &pb.RangeResponse{}
	err := k.send(ctx, "Range", &pb.RangeRequest{Key: []byte(compactKey)}, out)
	return out.GetHeader().GetRevision(), err
}

// read reads a key or a range of keys.
func (k *kv) read(ctx context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	inMemory := k.inMemory(req.Key)
	if !inMemory && len(req.RangeEnd) == 0 {
		return k.get(ctx, req)
	}
	release, err := k.conn.take(ctx)
	if err != nil {
		return nil, err
	}
	if inMemory {
		defer release()
		return k.recall(req), nil
	}
	at := req.Revision
	if at == 0 {
		// No write is under way, so no row of a lower revision can appear later.
		at, err = k.revision(ctx)
	}
	release()
	if err != nil {
		return nil, err
	}
	// Kine skips the first key of a range, unless it is the prefix, or a key with a zero byte
	// at the end, which stands for the key after it. All ranges of the server begin so.
	out, err := k.at(ctx, &pb.RangeRequest{Key: req.Key, RangeEnd: req.RangeEnd, Limit: req.Limit, Revision: at, CountOnly: req.CountOnly})
	if err != nil {
		return nil, err
	}
	out.Header.Revision = at
	return withOptions(out, req), nil
}

// get reads a key.
func (k *kv) get(ctx context.Context, req *pb.RangeRequest) (out *pb.RangeResponse, err error) {
	if k.inMemory(req.Key) {
		return k.recall(req), nil
	}
	out = &pb.RangeResponse{Header: &pb.ResponseHeader{}}
	// Kine would list everything below a key that ends with a slash. There is no such key.
	if !bytes.HasSuffix(req.Key, []byte("/")) {
		if out, err = k.at(ctx, &pb.RangeRequest{Key: req.Key, Revision: req.Revision}); err != nil {
			return nil, err
		}
	}
	if len(out.Kvs) == 0 {
		if out.Header.Revision, err = k.revision(ctx); err != nil {
			return nil, err
		}
	}
	return withOptions(out, req), nil
}

// futurePause is the pause before a read is repeated whose revision kine has not noticed.
const futurePause = 5 * time.Millisecond

// at reads at a revision. If there is nothing to read, kine compares the revision with that of
// its watches, and may reject one that is already stored.
func (k *kv) at(ctx context.Context, req *pb.RangeRequest) (*pb.RangeResponse, error) {
	for {
		out := &pb.RangeResponse{}
		err := k.send(ctx, "Range", req, out)
		if !errors.Is(rpctypes.Error(err), rpctypes.ErrFutureRev) {
			if out.Header == nil {
				out.Header = &pb.ResponseHeader{}
			}
			return out, err
		}
		stored, later := k.revision(ctx)
		if later != nil || stored < req.Revision {
			return nil, err
		}
		select {
		case <-time.After(futurePause):
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// withOptions applies the options of a request that kine does not support.
func withOptions(out *pb.RangeResponse, req *pb.RangeRequest) *pb.RangeResponse {
	if req.CountOnly {
		out.Kvs = nil
	}
	if req.KeysOnly {
		for _, kv := range out.Kvs {
			kv.Value = nil
		}
	}
	return out
}

func (k *kv) inMemory(key []byte) bool { return strings.HasPrefix(string(key), k.conn.memory) }

// recall reads keys that are in memory. It is the turn of the caller.
func (k *kv) recall(req *pb.RangeRequest) *pb.RangeResponse {
	out := &pb.RangeResponse{Header: &pb.ResponseHeader{}}
	in := keyRange{req.Key, req.RangeEnd}
	for _, kv := range k.conn.kept {
		if in.contains(kv.Key) {
			out.Kvs = append(out.Kvs, proto.CloneOf(kv))
		}
	}
	slices.SortFunc(out.Kvs, func(a, b *mvccpb.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
	out.Count = int64(len(out.Kvs))
	return withOptions(out, req)
}

// keyRange is a key, or a range of keys if end is not empty.
type keyRange struct{ key, end []byte }

func (r keyRange) contains(key []byte) bool {
	if len(r.end) == 0 {
		return bytes.Equal(key, r.key)
	}
	return bytes.Compare(r.key, key) <= 0 && bytes.Compare(key, r.end) < 0
}

// writtenKey returns the key that an operation writes, or nil if it reads.
func writtenKey(op *pb.RequestOp) []byte {
	if put := op.GetRequestPut(); put != nil {
		return put.GetKey()
	}
	return op.GetRequestDeleteRange().GetKey()
}

// checkKey returns an error for a key that kine would confuse with others: it looks keys up
// with the operator LIKE, which ignores the case in SQLite.
func checkKey(key []byte) error {
	if bytes.ContainsAny(key, `_%\`) || !bytes.Equal(key, bytes.ToLower(key)) {
		return status.Errorf(codes.InvalidArgument,
			`kine cannot store the key %q: names and an --etcd-prefix for kine must not contain upper-case letters, or one of _%%\`, key)
	}
	return nil
}

// txn carries out a transaction.
func (k *kv) txn(ctx context.Context, req *pb.TxnRequest) (*pb.TxnResponse, error) {
	var write *pb.RequestOp // the one that goes to kine
	writes := false
	for _, op := range slices.Concat(req.Success, req.Failure) {
		key := writtenKey(op)
		writes = writes || key != nil
		if key == nil || k.inMemory(key) {
			continue
		}
		if write != nil {
			return nil, status.Error(codes.Unimplemented, "kine writes one key in a transaction")
		}
		if err := checkKey(key); err != nil {
			return nil, err
		}
		write = op
	}
	release, err := k.conn.take(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if writes && !isRenewal(ctx) {
		limited, cancel, err := k.conn.registration.Load().limit(ctx)
		if err != nil {
			return nil, err
		}
		defer cancel()
		ctx = limited
	}
	for {
		succeeded, header, again, err := k.attempt(ctx, req, write)
		if err != nil {
			return nil, err
		}
		if !again {
			return k.answer(ctx, req, succeeded, header)
		}
	}
}

// attempt compares, and writes the key that goes to kine. again reports that another program
// has changed it meanwhile, although the transaction does not compare its revision.
func (k *kv) attempt(ctx context.Context, req *pb.TxnRequest, write *pb.RequestOp) (succeeded bool,
	header *pb.ResponseHeader, again bool, err error) {
	known := map[string]*mvccpb.KeyValue{}
	lookup := func(key []byte) (*mvccpb.KeyValue, error) {
		if kv, ok := known[string(key)]; ok {
			return kv, nil
		}
		out, err := k.get(ctx, &pb.RangeRequest{Key: key})
		if err != nil || len(out.Kvs) == 0 {
			known[string(key)] = nil
			return nil, err
		}
		known[string(key)] = out.Kvs[0]
		return out.Kvs[0], nil
	}
	expected, compared := int64(0), false
	for _, c := range req.Compare {
		if c.GetTarget() == pb.Compare_MOD && c.GetResult() == pb.Compare_EQUAL &&
			write != nil && bytes.Equal(c.GetKey(), writtenKey(write)) {
			expected, compared = c.GetModRevision(), true // kine compares it
			continue
		}
		kv, err := lookup(c.GetKey())
		if err != nil || !holds(c, kv) {
			return false, nil, false, err
		}
	}
	if write == nil {
		return true, nil, false, nil
	}
	if !compared {
		kv, err := lookup(writtenKey(write))
		if err != nil {
			return false, nil, false, err
		}
		expected = kv.GetModRevision()
	}
	header, err = k.write(ctx, write, expected)
	return header != nil, header, header == nil && !compared && err == nil, err
}

// write writes a key if it has the expected revision, where zero means that it does not exist.
// It returns no header if the revision is another one.
func (k *kv) write(ctx context.Context, op *pb.RequestOp, expected int64) (*pb.ResponseHeader, error) {
	key := writtenKey(op)
	removed := op.GetRequestDeleteRange() != nil
	if removed && expected == 0 { // kine would delete the key, whatever its revision is
		out, err := k.get(ctx, &pb.RangeRequest{Key: key})
		if err != nil || len(out.Kvs) > 0 {
			return nil, err
		}
		return out.Header, nil
	}
	if removed {
		op = &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: key, PrevKv: true}}}
	}
	resp := &pb.TxnResponse{}
	if err := k.send(ctx, "Txn", &pb.TxnRequest{
		Compare: []*pb.Compare{{Key: key, Target: pb.Compare_MOD, Result: pb.Compare_EQUAL,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: expected}}},
		Success: []*pb.RequestOp{op},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	}, resp); err != nil {
		return nil, err
	}
	var first *mvccpb.KeyValue // the deleted key, or the one with another revision
	for _, r := range resp.Responses {
		for _, kv := range slices.Concat(r.GetResponseDeleteRange().GetPrevKvs(), r.GetResponseRange().GetKvs()) {
			first = kv
		}
	}
	switch {
	case resp.Succeeded && removed && first.GetModRevision() != expected:
		return nil, nil // kine reports success if the key has already been deleted
	case resp.Succeeded:
		return resp.Header, nil
	case expected != 0 && first.GetModRevision() == expected:
		// Kine reports an error of the database as if the revision were another one.
		return nil, status.Error(codes.Unavailable, "kine: the database has failed to write")
	}
	return nil, nil
}

// answer carries out the rest of a transaction, whose key is written.
func (k *kv) answer(ctx context.Context, req *pb.TxnRequest, succeeded bool, header *pb.ResponseHeader) (*pb.TxnResponse, error) {
	out := &pb.TxnResponse{Header: header, Succeeded: succeeded}
	ops := req.Success
	if !succeeded {
		ops = req.Failure
	}
	for _, op := range ops {
		resp := &pb.ResponseOp{}
		switch {
		case op.GetRequestRange() != nil:
			got, err := k.get(ctx, op.GetRequestRange())
			if err != nil {
				return nil, err
			}
			if out.Header == nil {
				out.Header = got.Header
			}
			resp.Response = &pb.ResponseOp_ResponseRange{ResponseRange: got}
		case op.GetRequestPut() != nil:
			if put := op.GetRequestPut(); k.inMemory(put.Key) {
				k.conn.kept[string(put.Key)] = &mvccpb.KeyValue{Key: put.Key, Value: put.Value,
					CreateRevision: 1, ModRevision: 1, Version: 1}
			}
			resp.Response = &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{}}
		default:
			if key := op.GetRequestDeleteRange().GetKey(); k.inMemory(key) {
				delete(k.conn.kept, string(key))
			}
			resp.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}
		}
		out.Responses = append(out.Responses, resp)
	}
	if out.Header == nil {
		out.Header = &pb.ResponseHeader{}
	}
	return out, nil
}

// holds reports whether a comparison holds for a key, which is nil if it does not exist.
func holds(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var order int
	switch c.GetTarget() {
	case pb.Compare_MOD:
		order = cmp.Compare(kv.GetModRevision(), c.GetModRevision())
	case pb.Compare_CREATE:
		order = cmp.Compare(kv.GetCreateRevision(), c.GetCreateRevision())
	case pb.Compare_VALUE:
		if kv == nil {
			return false
		}
		order = bytes.Compare(kv.Value, c.GetValue())
	default:
		return false // kine knows no versions
	}
	switch c.GetResult() {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	default:
		return order != 0
	}
}
