// Package kine lets a server keep its data in kine, which stores the data of Kubernetes API
// servers in SQL databases behind the protocol of etcd.
//
// Kine supports only the part of the protocol that kube-apiserver needs, and differs from etcd
// in details. A [Conn] is a pair of gRPC interceptors below the etcd client. They translate
// requests and answers, so that the rest of the server need not know about kine.
//
// # Transactions
//
// A transaction of kine compares the revision of one key and writes that key. So a transaction
// of the server may write one key of kine, and any number of keys below a prefix that Conn
// keeps in memory: the fences of CRDs. Conn compares all other keys itself. It carries out one
// transaction at a time, so that nothing changes between the comparisons and the write.
//
// The write of the key is the moment when a transaction takes effect, and the keys in memory
// follow it. Therefore a crash leaves nothing half-written: the fences are lost as a whole, and
// the next server creates them from the CRDs when it starts, as for CRDs of kube-apiserver.
//
// A write that has been sent does not end with the request that has caused it, because a fence
// that changes afterwards must not be overtaken by the write. It ends with the answer, or with
// its own deadline, which kine also knows. A write that fails with that deadline may still
// take effect within moments.
//
// # One server alone
//
// Fences in memory, and comparisons outside of the database, are right only if one server
// writes. [Conn.Register] registers this server, and rejects others. See [Registration].
//
// # Revisions
//
// Kine answers a read that finds nothing with the revision that its watches have reached,
// which may be older than the last write. So Conn asks for the revision with a key that always
// exists. A page of a list comes with the revision of a later count. So Conn lists at a
// revision that it has asked for.
//
// In Postgres, a row with a lower revision can become visible after one with a higher revision,
// and a list or a watch that starts in between would miss it forever. That cannot happen to
// writes that follow each other.
//
// # Watches
//
// Kine reports the progress of a watch before it has sent all events, and it ends a watch
// without a word if the client is slow or the database fails. See [watchStream].
package kine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// compactKey is the key in which kine records its compactions. It always exists.
const compactKey = "compact_rev_key"

// Conn translates the requests of an etcd client that is connected to kine. It does nothing
// until [Conn.Detect] has found out that it is.
type Conn struct {
	memory       string
	detected     atomic.Bool
	registration atomic.Pointer[Registration]
	// turn has an element while a transaction is carried out. Its owner may use kept, the keys
	// in memory. queue has one for the next owner, so that many transactions do not delay the
	// renewal of the registration, which does not queue.
	turn, queue chan struct{}
	kept        map[string]*mvccpb.KeyValue
}

// New returns a Conn that keeps the keys with a prefix in memory.
func New(memory string) *Conn {
	return &Conn{memory: memory, turn: make(chan struct{}, 1), queue: make(chan struct{}, 1), kept: map[string]*mvccpb.KeyValue{}}
}

// DialOptions returns the options for the connection of the client.
func (c *Conn) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream)}
}

// Detect finds out whether the client is connected to kine: to something that has no
// transactions with several comparisons.
func (c *Conn) Detect(ctx context.Context, client *clientv3.Client) error {
	_, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(compactKey), ">", 0), clientv3.Compare(clientv3.ModRevision(compactKey), ">", 0)).
		Then(clientv3.OpGet(compactKey, clientv3.WithCountOnly())).
		Commit()
	if err == nil {
		return nil
	}
	switch status.Code(err) {
	case codes.PermissionDenied: // kine has no users
		return nil
	case codes.InvalidArgument:
	default:
		return fmt.Errorf("find out which transactions etcd supports: %w", err)
	}
	if urls := client.Endpoints(); len(urls) > 1 {
		return fmt.Errorf("%s are kine, which supports one server only: set one of them", strings.Join(urls, ", "))
	}
	c.detected.Store(true)
	return nil
}

// Detected reports whether the client is connected to kine. A nil Conn has not detected it.
func (c *Conn) Detected() bool { return c != nil && c.detected.Load() }

// take waits until no other transaction is carried out. The caller must call release.
func (c *Conn) take(ctx context.Context) (release func(), err error) {
	if !isRenewal(ctx) {
		select {
		case c.queue <- struct{}{}:
			defer func() { <-c.queue }()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// unary translates requests.
func (c *Conn) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !c.Detected() {
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	k := &kv{conn: c, send: func(ctx context.Context, method string, req, reply proto.Message) error {
		return failure(invoke(ctx, "/etcdserverpb.KV/"+method, req, reply, cc, opts...))
	}}
	var out proto.Message
	var err error
	switch req := req.(type) {
	case *pb.RangeRequest:
		out, err = k.read(ctx, req)
	case *pb.TxnRequest:
		out, err = k.txn(ctx, req)
	default:
		return failure(invoke(ctx, method, req, reply, cc, opts...))
	}
	if err == nil {
		proto.Merge(reply.(proto.Message), out)
	}
	return err
}

// failure returns an error of kine with a code that the client understands. Errors of the
// database have none.
func failure(err error) error {
	if status.Code(err) == codes.Unknown {
		return status.Error(codes.Unavailable, "kine: "+status.Convert(err).Message())
	}
	return err
}
