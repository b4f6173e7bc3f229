package memory

import (
	"bytes"
	"cmp"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func validRange(req *pb.RangeRequest) error {
	if len(req.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	_, order := pb.RangeRequest_SortOrder_name[int32(req.SortOrder)]
	if _, target := pb.RangeRequest_SortTarget_name[int32(req.SortTarget)]; !order || !target {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func validPut(req *pb.PutRequest) error {
	switch {
	case len(req.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case req.IgnoreValue && len(req.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case req.IgnoreLease && req.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func validDelete(req *pb.DeleteRangeRequest) error {
	if len(req.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// validTxn returns an error if a transaction is invalid, whatever is stored. A transaction inside
// may have as many operations as the one around it has left.
func validTxn(req *pb.TxnRequest, maxOps int) error {
	n := max(len(req.GetCompare()), len(req.GetSuccess()), len(req.GetFailure()))
	if n > maxOps {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range req.GetCompare() {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{req.GetSuccess(), req.GetFailure()} {
		for _, op := range ops {
			if err := validOp(op, maxOps-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func validOp(op *pb.RequestOp, maxOps int) error {
	switch r := op.GetRequest().(type) {
	case *pb.RequestOp_RequestRange:
		return validRange(r.RequestRange)
	case *pb.RequestOp_RequestPut:
		return validPut(r.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return validDelete(r.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return validTxn(r.RequestTxn, maxOps)
	}
	return rpctypes.ErrGRPCKeyNotFound
}

// written are the keys that operations may write.
type written struct {
	puts    map[string]bool
	deletes []span
}

// put adds a key, and returns an error if it was added before or is deleted.
func (w *written) put(key string) error {
	if w.puts[key] {
		return rpctypes.ErrGRPCDuplicateKey
	}
	for _, s := range w.deletes {
		if s.contains(key) {
			return rpctypes.ErrGRPCDuplicateKey
		}
	}
	w.puts[key] = true
	return nil
}

// writtenBy returns the keys that operations may write, or an error if they may write one twice.
// As in etcd, deletions without an end are not noticed, nor a key that is put by one transaction
// inside and deleted by a later one.
func writtenBy(ops []*pb.RequestOp) (*written, error) {
	w := &written{puts: map[string]bool{}}
	for _, op := range ops {
		if del := op.GetRequestDeleteRange(); del != nil {
			if s := newSpan(del.Key, del.RangeEnd); s.one || s.end != "" {
				w.deletes = append(w.deletes, s)
			}
		}
	}
	for _, op := range ops {
		inner := op.GetRequestTxn()
		if inner == nil {
			continue
		}
		success, err := writtenBy(inner.Success)
		if err != nil {
			return nil, err
		}
		failure, err := writtenBy(inner.Failure)
		if err != nil {
			return nil, err
		}
		for key := range success.puts {
			if err := w.put(key); err != nil {
				return nil, err
			}
		}
		for key := range failure.puts {
			if success.puts[key] {
				continue // only one of them is carried out
			}
			if err := w.put(key); err != nil {
				return nil, err
			}
		}
		w.deletes = append(append(w.deletes, success.deletes...), failure.deletes...)
	}
	for _, op := range ops {
		if put := op.GetRequestPut(); put != nil {
			if err := w.put(string(put.Key)); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// readOnly reports whether a transaction only reads, whatever the comparisons say. A transaction
// inside counts as a write.
func readOnly(req *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{req.Success, req.Failure} {
		for _, op := range ops {
			if op.GetRequestRange() == nil {
				return false
			}
		}
	}
	return true
}

// branch is the decision of a transaction, and those of the transactions inside.
type branch struct {
	succeeded bool
	ops       []*pb.RequestOp
	inner     []*branch // one for each operation, nil for those that are not transactions
}

// decide compares, all before the first operation is carried out.
func (s *State) decide(req *pb.TxnRequest) *branch {
	b := &branch{succeeded: true, ops: req.Success}
	for _, c := range req.Compare {
		if !s.holds(c) {
			b.succeeded, b.ops = false, req.Failure
			break
		}
	}
	b.inner = make([]*branch, len(b.ops))
	for i, op := range b.ops {
		if inner := op.GetRequestTxn(); inner != nil {
			b.inner[i] = s.decide(inner)
		}
	}
	return b
}

// holds reports whether a comparison holds for all keys of its range. For one without keys, it
// compares with zero, but a value with nothing.
func (s *State) holds(c *pb.Compare) bool {
	found := false
	for i := range newSpan(c.Key, c.RangeEnd).in(s.keys()) {
		found = true
		if !holdsFor(c, i) {
			return false
		}
	}
	return found || c.Target != pb.Compare_VALUE && holdsFor(c, &item{})
}

func holdsFor(c *pb.Compare, i *item) bool {
	var order int
	switch c.Target {
	case pb.Compare_VALUE:
		order = bytes.Compare(i.value, c.GetValue())
	case pb.Compare_CREATE:
		order = cmp.Compare(i.create, c.GetCreateRevision())
	case pb.Compare_MOD:
		order = cmp.Compare(i.mod, c.GetModRevision())
	case pb.Compare_VERSION:
		order = cmp.Compare(i.version, c.GetVersion())
	case pb.Compare_LEASE:
		order = cmp.Compare(i.lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return order == 0
	case pb.Compare_NOT_EQUAL:
		return order != 0
	case pb.Compare_GREATER:
		return order > 0
	case pb.Compare_LESS:
		return order < 0
	}
	return true
}

// checkOps returns an error if an operation cannot be carried out: nothing must be written then.
func (s *State) checkOps(b *branch) error {
	for i, op := range b.ops {
		var err error
		switch r := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			err = s.checkRange(r.RequestRange)
		case *pb.RequestOp_RequestPut:
			err = s.checkPut(r.RequestPut)
		case *pb.RequestOp_RequestTxn:
			err = s.checkOps(b.inner[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRange differs from State.at in revisions below zero.
func (s *State) checkRange(req *pb.RangeRequest) error {
	switch {
	case req.Revision > s.revision:
		return rpctypes.ErrGRPCFutureRev
	case req.Revision != 0 && req.Revision < s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

func (s *State) checkPut(req *pb.PutRequest) error {
	if req.Lease != 0 {
		if _, ok := s.leases.Get(idKey(req.Lease)); !ok {
			return rpctypes.ErrGRPCLeaseNotFound
		}
	}
	if req.IgnoreValue || req.IgnoreLease {
		if _, ok := s.keys().Get(string(req.Key)); !ok {
			return rpctypes.ErrGRPCKeyNotFound
		}
	}
	return nil
}
