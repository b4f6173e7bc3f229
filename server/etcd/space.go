package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"k8s.io/klog/v2"
)

const (
	// spaceInterval is how often the member looks whether it has run out of space.
	// It looks at a flag in memory.
	spaceInterval = time.Second
	// spaceBackoff is how long it waits after an attempt that made no room.
	spaceBackoff = time.Minute
)

// keepSpace makes room whenever the quota is reached.
func (m *Member) keepSpace(ctx context.Context) {
	timer := time.NewTimer(spaceInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := spaceInterval
		if m.outOfSpace() {
			log := klog.FromContext(ctx)
			before := m.etcd.Server.Backend().Size()
			if err := m.makeSpace(ctx); err != nil {
				log.Error(err, "The database is full and refuses writes", "bytes", before, "quota", m.quota)
				next = spaceBackoff
			} else {
				log.Info("The database was full; its history was given up and it accepts writes again",
					"bytesBefore", before, "bytes", m.etcd.Server.Backend().Size(), "quota", m.quota)
			}
		}
		timer.Reset(next)
	}
}

// outOfSpace says whether etcd refuses writes because the quota is reached.
func (m *Member) outOfSpace() bool {
	for _, a := range m.etcd.Server.Alarms() {
		if a.Alarm == pb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// makeSpace forgets all history, gives back to the file system what that frees, and,
// if there is room now, lets etcd accept writes.
func (m *Member) makeSpace(ctx context.Context) error {
	s := m.etcd.Server
	if rev := s.KV().Rev(); rev > s.KV().FirstRev() {
		if _, err := s.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true}); err != nil {
			return fmt.Errorf("compact the database: %w", err)
		}
	}
	s.Backend().ForceCommit()
	if err := s.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment the database: %w", err)
	}
	if size := s.Backend().Size(); size >= m.quota {
		return fmt.Errorf("%d bytes are in use without any history, the quota is %d: delete objects or raise the quota", size, m.quota)
	}
	_, err := s.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(s.MemberID()),
		Action:   pb.AlarmRequest_DEACTIVATE,
		Alarm:    pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("tell etcd that there is room: %w", err)
	}
	return nil
}
