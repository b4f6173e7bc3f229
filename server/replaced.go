package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// An external etcd can lose its data, or get other data, while servers run. A server that went on
// would show its clients that all objects are deleted, and write into the new data. It stops
// instead: whether the new data is the intended one, only the operator knows.

// markerInterval is the time between checks that the data still has the key of the schema semantics.
const markerInterval = 2 * time.Second

// replacedError is the reason why a server stops when the data of etcd was replaced.
type replacedError struct{ reason string }

func (e *replacedError) Error() string {
	return "the data of etcd was replaced: " + e.reason + ": restart the server if this is intended"
}

// Is makes requests fail as if the store had noticed the replacement.
func (e *replacedError) Is(target error) bool { return target == store.ErrReplaced }

// guard notices that the data of etcd was replaced. From then on, all reads and writes fail before
// they are sent. A nil guard notices nothing.
type guard struct {
	// newest is the highest revision in an answer of etcd.
	newest atomic.Int64
	once   sync.Once
	// replaced is closed when err is set.
	replaced chan struct{}
	err      *replacedError
}

func newGuard() *guard { return &guard{replaced: make(chan struct{})} }

// Replaced returns a channel that is closed when the data was replaced.
func (g *guard) Replaced() <-chan struct{} {
	if g == nil {
		return nil
	}
	return g.replaced
}

// Err returns the error if the data was replaced.
func (g *guard) Err() error {
	select {
	case <-g.Replaced():
		return g.err
	default:
		return nil
	}
}

func (g *guard) fail(reason string) error {
	g.once.Do(func() {
		g.err = &replacedError{reason}
		klog.ErrorS(g.err, "The server stops, because its data is not there any more")
		close(g.replaced)
	})
	return g.Err()
}

// intercept checks the revision in each answer. Reads are linearizable, and writes have a new
// revision: it is never lower than one in an answer before the request.
func (g *guard) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !strings.HasPrefix(method, "/etcdserverpb.KV/") {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	if err := g.Err(); err != nil {
		return err
	}
	before := g.newest.Load()
	if err := invoke(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	answer, ok := reply.(interface{ GetHeader() *pb.ResponseHeader })
	if r, isRead := req.(*pb.RangeRequest); !ok || isRead && r.Serializable {
		return nil
	}
	revision := answer.GetHeader().GetRevision()
	if revision < before {
		return g.fail(fmt.Sprintf("its revision is %d, and was %d", revision, before))
	}
	for newest := before; newest < revision && !g.newest.CompareAndSwap(newest, revision); {
		newest = g.newest.Load()
	}
	return nil
}

// watch checks that the data has a key that every server records, until ctx ends: the revision
// does not show a replacement by data with a higher one.
func (g *guard) watch(ctx context.Context, client *clientv3.Client, root keys.Root) {
	ticker := time.NewTicker(markerInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-g.replaced:
			return
		case <-ctx.Done():
			return
		}
		timeout, cancel := context.WithTimeout(ctx, etcd.ConnectTimeout)
		resp, err := client.Get(timeout, root.Semantics(), clientv3.WithCountOnly())
		cancel()
		// If etcd does not answer, other checks fail.
		if err == nil && resp.Count == 0 {
			_ = g.fail(fmt.Sprintf("it has no key %s, which every server records", root.Semantics())) // run reads it
		}
	}
}
