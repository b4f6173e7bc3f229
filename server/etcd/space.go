package etcd

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/klog/v2"
)

const (
	// spaceInterval is the time between checks for lack of space. The check reads a flag in
	// memory.
	spaceInterval = time.Second
	// spaceBackoff is the delay after an attempt that freed no space.
	spaceBackoff = time.Minute
	// reserve is the disk space that is kept free: etcd fails if it cannot extend a file.
	reserve = 3*segment + 16<<20
	// largestRequest is the space that must be free for writes to be accepted again. With less,
	// each large write would reach the quota again, and free no space.
	largestRequest = embed.DefaultMaxRequestBytes
)

// keepSpace rejects writes while the disk is almost full, and frees space when the quota is
// reached.
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
		log := klog.FromContext(ctx)
		switch free, full := m.diskFull(); {
		case full && !m.outOfSpace():
			log.Info("The disk is almost full; etcd rejects writes until there is free space", "dir", m.dir, "freeBytes", free, "needed", 2*reserve)
			if err := m.alarm(ctx, pb.AlarmRequest_ACTIVATE); err != nil {
				log.Error(err, "Cannot stop writes to etcd although the disk is almost full")
			}
		case !full && m.outOfSpace():
			before := m.etcd.Server.Backend().Size()
			if err := m.makeSpace(ctx); err != nil {
				log.Error(err, "The etcd database is full and rejects writes", "bytes", before, "quota", m.quota)
				next = spaceBackoff
			} else {
				log.Info("The etcd database was full; its history was compacted and it accepts writes again",
					"bytesBefore", before, "bytes", m.etcd.Server.Backend().Size(), "quota", m.quota)
			}
		}
		timer.Reset(next)
	}
}

// diskFull returns the free disk space, and whether it is too little: less than the reserve,
// or, before writes are accepted again, less than twice the reserve.
func (m *Member) diskFull() (free uint64, full bool) {
	free, ok := m.free(m.dir)
	limit := uint64(reserve)
	if m.outOfSpace() {
		limit *= 2
	}
	return free, ok && free < limit
}

// outOfSpace reports whether etcd rejects writes because the quota is reached or the disk is
// full.
func (m *Member) outOfSpace() bool {
	for _, a := range m.etcd.Server.Alarms() {
		if a.Alarm == pb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// makeSpace compacts all history, returns the freed space to the file system, and makes etcd
// accept writes again if there is space.
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
	if size := s.Backend().Size(); size+largestRequest > m.quota {
		return fmt.Errorf("%d bytes are in use after compaction, the quota is %d: delete objects or raise the quota", size, m.quota)
	}
	return m.alarm(ctx, pb.AlarmRequest_DEACTIVATE)
}

// alarm activates or deactivates etcd's alarm for lack of space.
func (m *Member) alarm(ctx context.Context, action pb.AlarmRequest_AlarmAction) error {
	_, err := m.etcd.Server.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(m.etcd.Server.MemberID()),
		Action:   action,
		Alarm:    pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("set the space alarm of etcd: %w", err)
	}
	return nil
}
