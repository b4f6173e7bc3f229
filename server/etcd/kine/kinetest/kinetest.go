// Package kinetest runs an etcd with the limits of kine, for tests. Building kine itself takes
// minutes; `make kine` does that.
//
// A [Server] accepts only the requests that kine accepts, and answers with its errors. It is as
// late as kine with watches, and as early with reports of their progress.
package kinetest

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"espalier.dev/server/etcd"
)

// lag is the time after which the revision of a write is known to watches. Its event is sent
// after the same time again.
const lag = 5 * time.Millisecond

// Between is a key that the server writes after it has read a page of a list.
const Between = "/kinetest/between"

// Server is an etcd with the limits of kine.
type Server struct {
	// Client is a connection to the etcd behind it, without limits.
	Client *clientv3.Client
	// URL is the address of the server.
	URL string

	t       testing.TB
	address string
	grpc    *grpc.Server
	reached atomic.Int64 // the revision that watches have reached
	watches atomic.Int64 // the last ID

	mu      sync.Mutex
	streams map[*watchStream]bool
}

// Start starts a server, which is stopped at the end of the test.
func Start(t testing.TB) *Server {
	t.Helper()
	member, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(member.Close)
	client, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{member.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Client: client, streams: map[*watchStream]bool{}}
	resp, err := client.Put(t.Context(), "compact_rev_key", "")
	if err != nil {
		t.Fatal(err)
	}
	s.reached.Store(resp.Header.Revision)
	ctx, cancel := context.WithCancel(context.Background())
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		s.poll(ctx, resp.Header.Revision+1)
	}()
	t.Cleanup(func() {
		cancel()
		<-polled
		_ = client.Close()
	})
	s.listen("127.0.0.1:0")
	t.Cleanup(func() { s.grpc.Stop() })
	return s
}

// listen serves at an address.
func (s *Server) listen(address string) {
	s.t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = l.Addr().String()
	s.URL = "http://" + s.address
	s.grpc = grpc.NewServer()
	pb.RegisterKVServer(s.grpc, &keys{server: s, etcd: pb.NewKVClient(s.Client.ActiveConnection())})
	pb.RegisterLeaseServer(s.grpc, &leases{})
	pb.RegisterWatchServer(s.grpc, &watcher{server: s})
	pb.RegisterMaintenanceServer(s.grpc, &maintenance{})
	go func(g *grpc.Server) { _ = g.Serve(l) }(s.grpc) // until Stop
}

// Restart closes all connections, and serves again.
func (s *Server) Restart() {
	s.t.Helper()
	s.grpc.Stop()
	s.listen(s.address)
}

// EndWatches ends all watches as kine does it when a client is slow.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for stream := range s.streams {
		stream.end()
	}
}

// poll follows all writes.
func (s *Server) poll(ctx context.Context, from int64) {
	for resp := range s.Client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(from)) {
		time.Sleep(lag)
		if n := len(resp.Events); n > 0 {
			s.reached.Store(resp.Events[n-1].Kv.ModRevision)
		}
	}
}

// errUnsupported is the error of kine for transactions that it does not know.
var errUnsupported = status.Error(codes.InvalidArgument, "etcdserver: unsupported operations in txn request")

type keys struct {
	pb.UnimplementedKVServer
	server *Server
	etcd   pb.KVClient
}

func header(revision int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: revision} }

func (k *keys) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	switch {
	case r.KeysOnly, r.Serializable, r.SortOrder != 0, r.SortTarget != 0, r.MinModRevision != 0,
		r.MaxModRevision != 0, r.MinCreateRevision != 0, r.MaxCreateRevision != 0:
		return nil, status.Error(codes.Unimplemented, "kine does not support an option of this request")
	case len(r.RangeEnd) == 0 && bytes.HasSuffix(r.Key, []byte("/")):
		return nil, status.Error(codes.Internal, "kine would list all keys")
	case len(r.RangeEnd) != 0:
		prefix := append([]byte{}, r.RangeEnd...)
		prefix[len(prefix)-1]--
		start := bytes.TrimRight(r.Key, "\x00")
		if !bytes.Equal(start, prefix) {
			r.Key = append(start, 0) // the first key is never included
		}
	}
	reached := k.server.reached.Load()
	out, err := k.etcd.Range(ctx, r)
	if err != nil {
		return nil, err
	}
	switch {
	case len(out.Kvs) == 0 && r.Revision > reached:
		return nil, rpctypes.ErrGRPCFutureRev
	case len(out.Kvs) == 0:
		out.Header = header(reached)
	case out.More: // the revision is that of a later count, and there may be a write in between
		later, err := k.server.Client.Put(ctx, Between, "")
		if err != nil {
			return nil, err
		}
		out.Header = header(later.Header.Revision)
	default:
		out.Header = header(out.Header.Revision)
	}
	return out, nil
}

func (k *keys) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if len(r.Compare) != 1 || r.Compare[0].Target != pb.Compare_MOD || r.Compare[0].Result != pb.Compare_EQUAL ||
		len(r.Success) != 1 || len(r.Failure) != 1 || r.Failure[0].GetRequestRange() == nil {
		return nil, errUnsupported
	}
	put, removed := r.Success[0].GetRequestPut(), r.Success[0].GetRequestDeleteRange()
	switch {
	case put != nil && put.Lease != 0:
		// A lease of kine is a time to live. Kine ignores that of keys without a slash.
		ttl := put.Lease
		put.Lease = 0
		if bytes.HasPrefix(put.Key, []byte("/")) {
			lease, err := k.server.Client.Grant(ctx, ttl)
			if err != nil {
				return nil, err
			}
			put.Lease = int64(lease.ID)
		}
	case put == nil && removed == nil:
		return nil, errUnsupported
	}
	out, err := k.etcd.Txn(ctx, r)
	if err != nil {
		return nil, err
	}
	out.Header = header(out.Header.Revision)
	if removed != nil && !out.Succeeded && len(out.Responses[0].GetResponseRange().Kvs) == 0 {
		// It is enough for kine that the key is gone.
		return &pb.TxnResponse{Header: out.Header, Succeeded: true, Responses: []*pb.ResponseOp{
			{Response: &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: &pb.DeleteRangeResponse{}}},
		}}, nil
	}
	return out, nil
}

type leases struct{ pb.UnimplementedLeaseServer }

func (*leases) LeaseGrant(_ context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return &pb.LeaseGrantResponse{Header: header(0), ID: r.TTL, TTL: r.TTL}, nil
}

type maintenance struct {
	pb.UnimplementedMaintenanceServer
}

func (*maintenance) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: header(0), DbSize: 1, Version: "3.5.13"}, nil
}

type watcher struct {
	pb.UnimplementedWatchServer
	server *Server
}

// watchStream is a stream of watches.
type watchStream struct {
	pb.Watch_WatchServer
	mu   sync.Mutex // guards sending
	stop map[int64]context.CancelFunc
}

func (w *watchStream) send(resp *pb.WatchResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.Send(resp) // the client is gone
}

// end ends all watches without an error.
func (w *watchStream) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, stop := range w.stop {
		stop()
		_ = w.Send(&pb.WatchResponse{Header: header(0), WatchId: id}) // the client is gone
	}
	clear(w.stop)
}

func (w *watcher) Watch(stream pb.Watch_WatchServer) error {
	s := &watchStream{Watch_WatchServer: stream, stop: map[int64]context.CancelFunc{}}
	w.server.mu.Lock()
	w.server.streams[s] = true
	w.server.mu.Unlock()
	defer func() {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		delete(w.server.streams, s)
	}()
	var watches sync.WaitGroup
	defer watches.Wait()
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		if create := req.GetCreateRequest(); create != nil {
			if !strings.HasSuffix(string(create.Key), "/") {
				return status.Error(codes.InvalidArgument, "kine watches keys that begin with a prefix")
			}
			id := w.server.watches.Add(1)
			ctx, cancel := context.WithCancel(stream.Context())
			s.mu.Lock()
			s.stop[id] = cancel
			s.mu.Unlock()
			watches.Go(func() { w.follow(ctx, s, id, create) })
		}
		if cancel := req.GetCancelRequest(); cancel != nil {
			s.mu.Lock()
			if stop := s.stop[cancel.WatchId]; stop != nil {
				stop()
				delete(s.stop, cancel.WatchId)
			}
			s.mu.Unlock()
			s.send(&pb.WatchResponse{Header: header(0), WatchId: cancel.WatchId})
		}
		if req.GetProgressRequest() != nil {
			// The events up to this revision may be on their way.
			s.send(&pb.WatchResponse{Header: header(w.server.reached.Load()), WatchId: clientv3.InvalidWatchID})
		}
	}
}

// follow sends the events of a watch.
func (w *watcher) follow(ctx context.Context, s *watchStream, id int64, r *pb.WatchCreateRequest) {
	s.send(&pb.WatchResponse{Header: header(0), WatchId: id, Created: true})
	for resp := range w.server.Client.Watch(ctx, string(r.Key), clientv3.WithPrefix(), clientv3.WithRev(r.StartRevision)) {
		if resp.CompactRevision != 0 {
			s.send(&pb.WatchResponse{Header: header(0), WatchId: id, Canceled: true,
				CancelReason: rpctypes.ErrCompacted.Error(), CompactRevision: resp.CompactRevision})
			return
		}
		time.Sleep(2 * lag)
		out := &pb.WatchResponse{Header: header(resp.Header.Revision), WatchId: id, Events: resp.Events}
		if len(out.Events) > 0 && ctx.Err() == nil {
			s.send(out)
		}
	}
}
