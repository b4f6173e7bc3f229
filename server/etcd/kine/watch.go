package kine

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// everything is the range of all keys that kine can watch: those that begin with a slash.
var everything = keyRange{[]byte("/"), []byte("0")}

// stream translates watches.
func (c *Conn) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !c.Detected() || method != pb.Watch_Watch_FullMethodName {
		return streamer(ctx, desc, cc, method, opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	inner, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &watchStream{ClientStream: inner, cancel: cancel, watches: map[int64]keyRange{}}, nil
}

// watchStream is a stream of watches.
//
// Kine records the revision that its watches have reached before it gives them the events, so
// the progress that it reports may be that of events which are still on their way. A client
// that believes it would ignore them. Events are in the order of their revisions, though. So
// every watch on kine is one of all keys, and an event that the client has not asked for becomes
// a report of progress up to its revision. The last write of all is always such an event, or
// one for the client, so requests for progress need no answer.
//
// Kine ends a watch with an empty answer. The stream fails then, and the client watches again
// from the last revision that it has received.
type watchStream struct {
	grpc.ClientStream
	cancel context.CancelFunc
	// next is the answer after the last one, or nil. Only RecvMsg uses it.
	next *pb.WatchResponse

	mu       sync.Mutex
	creating []keyRange // requested watches in their order; kine answers one at a time
	watches  map[int64]keyRange
}

// SendMsg translates a request. One goroutine calls it, and another one RecvMsg.
func (s *watchStream) SendMsg(m any) error {
	req, ok := m.(*pb.WatchRequest)
	if !ok {
		return s.ClientStream.SendMsg(m)
	}
	s.mu.Lock()
	switch create := req.GetCreateRequest(); {
	case create != nil:
		s.creating = append(s.creating, keyRange{create.Key, create.RangeEnd})
		req = &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{
			Key: everything.key, RangeEnd: everything.end, StartRevision: create.StartRevision,
		}}}
	case req.GetCancelRequest() != nil:
		delete(s.watches, req.GetCancelRequest().WatchId)
	case req.GetProgressRequest() != nil:
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	return s.ClientStream.SendMsg(req)
}

// RecvMsg receives an answer.
func (s *watchStream) RecvMsg(m any) error {
	resp, ok := m.(*pb.WatchResponse)
	if !ok {
		return s.ClientStream.RecvMsg(m)
	}
	if s.next != nil {
		proto.Merge(resp, s.next)
		s.next = nil
		return nil
	}
	for {
		proto.Reset(resp)
		if err := s.ClientStream.RecvMsg(resp); err != nil {
			s.cancel()
			return err
		}
		forward, err := s.translate(resp)
		if err != nil {
			s.cancel() // the stream of kine goes on
			return err
		}
		if forward {
			return nil
		}
	}
}

// translate translates an answer, and reports whether the client gets it.
func (s *watchStream) translate(resp *pb.WatchResponse) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if resp.Created && len(s.creating) > 0 {
		s.watches[resp.WatchId] = s.creating[0]
		s.creating = s.creating[1:]
		return true, nil
	}
	watched, ok := s.watches[resp.WatchId]
	switch {
	case resp.Canceled:
		delete(s.watches, resp.WatchId)
		return true, nil
	case !ok:
		return false, nil // the client has ended it
	case len(resp.Events) == 0 && resp.GetHeader().GetRevision() == 0:
		return false, status.Error(codes.Unavailable, "kine has ended a watch")
	case len(resp.Events) == 0:
		return false, nil
	}
	last := resp.Events[len(resp.Events)-1].Kv
	events := resp.Events[:0]
	for _, e := range resp.Events {
		if watched.contains(e.Kv.Key) {
			events = append(events, e)
		}
	}
	clear(resp.Events[len(events):])
	resp.Events = events
	resp.Header.Revision = last.ModRevision
	if len(events) > 0 && events[len(events)-1].Kv.ModRevision < last.ModRevision {
		s.next = &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: last.ModRevision}, WatchId: resp.WatchId}
	}
	return true, nil
}
