package fence

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/utils/clock"
)

// startCompactor starts a compactor of k8s.io/apiserver. It has a client of its own, whose
// transactions are those of a [compactionKV]. compacted returns the revision of the last compaction.
func startCompactor(client *clientv3.Client, interval time.Duration) (compacted func() int64, stop func()) {
	own := clientv3.NewCtxClient(client.Ctx())
	own.KV, own.Watcher = compactionKV{client.KV}, client.Watcher
	c := etcd3.NewCompactor(own, interval, clock.RealClock{}, nil)
	return c.CompactRevision, c.Stop
}

// compactionKV makes the compactor begin anew if the key of the last compaction was deleted. The
// compactor expects that the key exists if its version is another one, and panics without it.
type compactionKV struct{ clientv3.KV }

// Txn returns a transaction.
func (k compactionKV) Txn(ctx context.Context) clientv3.Txn { return &compactionTxn{k.KV.Txn(ctx)} }

type compactionTxn struct{ clientv3.Txn }

// If, Then and Else return the transaction itself, so that Commit is its own.

func (t *compactionTxn) If(c ...clientv3.Cmp) clientv3.Txn  { t.Txn = t.Txn.If(c...); return t }
func (t *compactionTxn) Then(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Then(o...); return t }
func (t *compactionTxn) Else(o ...clientv3.Op) clientv3.Txn { t.Txn = t.Txn.Else(o...); return t }

// Commit returns a key of version 0 in place of one that does not exist: the version that the
// compactor expects of a key that it may create.
func (t *compactionTxn) Commit() (*clientv3.TxnResponse, error) {
	resp, err := t.Txn.Commit()
	if err != nil || resp.Succeeded {
		return resp, err
	}
	for _, r := range resp.Responses {
		if found := r.GetResponseRange(); found != nil && len(found.Kvs) == 0 {
			r.Response = &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Header: found.Header, Kvs: []*mvccpb.KeyValue{{Value: []byte("0")}}}}
		}
	}
	return resp, nil
}
