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
	// reserve is how much of the disk is left alone: etcd cannot go on when it cannot
	// extend a file, so it is not let to get there.
	reserve = 3*segment + 16<<20
)

// keepSpace lets nobody write when the disk is almost full, and makes room when the
// quota is reached.
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
			log.Info("The disk is almost full; the database rejects writes until there is room", "dir", m.dir, "freeBytes", free, "needed", 2*reserve)
			if err := m.alarm(ctx, pb.AlarmRequest_ACTIVATE); err != nil {
				log.Error(err, "The database goes on without room on the disk")
			}
		case !full && m.outOfSpace():
			before := m.etcd.Server.Backend().Size()
			if err := m.makeSpace(ctx); err != nil {
				log.Error(err, "The database is full and rejects writes", "bytes", before, "quota", m.quota)
				next = spaceBackoff
			} else {
				log.Info("The database was full; its history was given up and it accepts writes again",
					"bytesBefore", before, "bytes", m.etcd.Server.Backend().Size(), "quota", m.quota)
			}
		}
		timer.Reset(next)
	}
}

// diskFull says what the disk has left, and whether that is too little: less than the
// reserve, or, for writes to be accepted again, than twice that.
func (m *Member) diskFull() (free uint64, full bool) {
	free, ok := m.free(m.dir)
	limit := uint64(reserve)
	if m.outOfSpace() {
		limit *= 2
	}
	return free, ok && free < limit
}

// outOfSpace reports whether etcd rejects writes because the quota is reached, or the disk
// is full.
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
	return m.alarm(ctx, pb.AlarmRequest_DEACTIVATE)
}

// alarm tells etcd that there is no room, or that there is again.
func (m *Member) alarm(ctx context.Context, action pb.AlarmRequest_AlarmAction) error {
	_, err := m.etcd.Server.Alarm(ctx, &pb.AlarmRequest{
		MemberID: uint64(m.etcd.Server.MemberID()),
		Action:   action,
		Alarm:    pb.AlarmType_NOSPACE,
	})
	if err != nil {
		return fmt.Errorf("tell etcd about its space: %w", err)
	}
	return nil
}
