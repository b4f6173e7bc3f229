package memory

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maintenanceService is the maintenance service. It has a status and nothing to maintain.
type maintenanceService struct{ db *DB }

// unimplemented is the error of requests that make sense only for an etcd with a disk or members.
func unimplemented(what string) error {
	return status.Errorf(codes.Unimplemented, "an etcd in memory has no %s", what)
}

// Status returns the version and the size of the data, which is that of the keys and values
// without their history.
func (s *maintenanceService) Status(ctx context.Context, req *pb.StatusRequest, _ ...grpc.CallOption) (*pb.StatusResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	st := s.db.state.Load()
	return &pb.StatusResponse{
		Header: header(st.revision), Version: version.Version, DbSize: st.size, DbSizeInUse: st.size, Leader: memberID,
		RaftTerm: term, RaftIndex: uint64(st.revision), RaftAppliedIndex: uint64(st.revision),
	}, nil
}

// Alarm returns no alarms.
func (s *maintenanceService) Alarm(ctx context.Context, req *pb.AlarmRequest, _ ...grpc.CallOption) (*pb.AlarmResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	return &pb.AlarmResponse{Header: header(s.db.state.Load().revision)}, nil
}

// Defragment does nothing.
func (s *maintenanceService) Defragment(ctx context.Context, req *pb.DefragmentRequest, _ ...grpc.CallOption) (*pb.DefragmentResponse, error) {
	if err := s.db.check(ctx, req); err != nil {
		return nil, err
	}
	return &pb.DefragmentResponse{Header: header(s.db.state.Load().revision)}, nil
}

// Hash returns an error.
func (s *maintenanceService) Hash(context.Context, *pb.HashRequest, ...grpc.CallOption) (*pb.HashResponse, error) {
	return nil, unimplemented("hash")
}

// HashKV returns an error.
func (s *maintenanceService) HashKV(context.Context, *pb.HashKVRequest, ...grpc.CallOption) (*pb.HashKVResponse, error) {
	return nil, unimplemented("hash")
}

// Snapshot returns an error.
func (s *maintenanceService) Snapshot(context.Context, *pb.SnapshotRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[pb.SnapshotResponse], error) {
	return nil, unimplemented("snapshot file")
}

// MoveLeader returns an error.
func (s *maintenanceService) MoveLeader(context.Context, *pb.MoveLeaderRequest, ...grpc.CallOption) (*pb.MoveLeaderResponse, error) {
	return nil, unimplemented("other members")
}

// Downgrade returns an error.
func (s *maintenanceService) Downgrade(context.Context, *pb.DowngradeRequest, ...grpc.CallOption) (*pb.DowngradeResponse, error) {
	return nil, unimplemented("other versions")
}
