package etcd

import (
	"context"
	"errors"
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
	// spaceBackoff is the delay after an attempt that failed, and between messages about it.
	spaceBackoff = time.Minute
	// reserve is the disk space that is kept free: etcd fails if it cannot extend a file.
	reserve = 3*segment + 16<<20
	// largestRequest is the space that must be free for writes to be accepted again. With less,
	// each large write would reach the quota again, and free no space.
	largestRequest = embed.DefaultMaxRequestBytes
)

// keepSpace rejects writes while the disk is almost full, and returns the space of deleted objects to
// the disk. If writes are rejected although there is space on the disk, it makes space in the database,
// and accepts them again.
func (m *Member) keepSpace(ctx context.Context) {
	timer := time.NewTimer(0) // the alarm may be that of an earlier process
	defer timer.Stop()
	// The first requests of a starting server do not wait for a defragmentation, of which a second
	// is the time for 100 MB or more.
	last := attempt{defragmented: time.Now(), took: min(time.Second, time.Duration(10*m.etcd.Server.Backend().Size()))}
	var reported time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		log := klog.FromContext(ctx)
		switch free, full := m.diskFull(); {
		case full && m.outOfSpace():
			if time.Since(reported) >= spaceBackoff {
				reported = time.Now()
				// Structured logs have no level for warnings.
				log.Error(errDiskFull, "etcd rejects writes until there is free space", "dir", m.dir, "freeBytes", free, "needed", 2*reserve)
			}
			m.tryShrink(ctx, &last)
		case full:
			if err := m.alarm(ctx, pb.AlarmRequest_ACTIVATE); err != nil {
				log.Error(err, "Cannot stop writes to etcd although the disk is almost full")
			}
		case !full && m.outOfSpace():
			m.tryMakeSpace(ctx, &last)
		}
		timer.Reset(spaceInterval)
	}
}

// attempt is the last attempt to make space.
type attempt struct {
	err      error
	at       time.Time
	revision int64 // of the database, after the attempt
	logged   time.Time
	// defragmented is when the database was last defragmented, and took how long it took.
	defragmented time.Time
	took         time.Duration
	// shrunk is the revision after the last attempt to return space to an almost full disk, shrinkErr its
	// error, and shrinkFailed when it was logged.
	shrunk       int64
	shrinkErr    error
	shrinkFailed time.Time
}

// tryMakeSpace makes space, unless an attempt would fail as the last one did. While writes are
// rejected, only deletions change the revision.
func (m *Member) tryMakeSpace(ctx context.Context, last *attempt) {
	same := m.etcd.Server.KV().Rev() == last.revision
	switch {
	case errors.Is(last.err, errInUse) && same:
		return
	case last.err != nil && !errors.Is(last.err, errInUse) &&
		!errors.Is(last.err, errTooEarly) && same && time.Since(last.at) < spaceBackoff:
		return
	}
	log := klog.FromContext(ctx)
	before := m.etcd.Server.Backend().Size()
	last.err = m.makeSpace(ctx, last)
	last.at, last.revision = time.Now(), m.etcd.Server.KV().Rev()
	if errors.Is(last.err, errInUse) {
		m.inUse.Store(last.revision)
	}
	switch {
	case last.err == nil:
		last.logged = time.Time{}
		log.Info("The etcd database was full; there is space now, and it accepts writes again",
			"bytesBefore", before, "bytes", m.etcd.Server.Backend().Size(), "quota", m.quota)
	case time.Since(last.logged) >= spaceBackoff && ctx.Err() == nil:
		last.logged = time.Now()
		log.Error(last.err, "The etcd database is full and rejects writes", "bytes", before, "quota", m.quota)
	}
}

// shrinkReserve is the disk space that is left to etcd's log while the copy of a defragmentation is on an
// almost full disk.
const shrinkReserve = 2 * segment

// tryShrink returns unused space of the database to an almost full disk, after each change of the
// database: while writes are rejected, only deletions change it. If that fails, it is tried again after a
// while, because there may be more space on the disk by then.
func (m *Member) tryShrink(ctx context.Context, last *attempt) {
	if m.etcd.Server.KV().Rev() == last.shrunk && (last.shrinkErr == nil || time.Since(last.shrinkFailed) < spaceBackoff) {
		return
	}
	log := klog.FromContext(ctx)
	before := m.etcd.Server.Backend().Size()
	err := m.shrink(ctx, last)
	if errors.Is(err, errTooEarly) {
		return
	}
	last.shrunk, last.shrinkErr = m.etcd.Server.KV().Rev(), err
	switch size := m.etcd.Server.Backend().Size(); {
	case err != nil && ctx.Err() == nil && time.Since(last.shrinkFailed) >= spaceBackoff:
		last.shrinkFailed = time.Now()
		log.Error(err, "Cannot return space of the etcd database to the disk", "bytes", size)
	case size < before:
		log.Info("Unused space of the etcd database was returned to the disk", "bytesBefore", before, "bytes", size)
	}
}

// shrink compacts all history, and defragments the database if that frees space, and the disk has the
// space for the copy.
func (m *Member) shrink(ctx context.Context, last *attempt) error {
	b := m.etcd.Server.Backend()
	if time.Since(last.defragmented) < defragShare*last.took {
		return errTooEarly
	}
	if free, ok := m.free(m.dir); ok && free < shrinkReserve {
		return fmt.Errorf("the disk has %d bytes of free space, %d are needed to compact the database: free space on the disk", free, shrinkReserve)
	}
	if err := m.compact(ctx); err != nil {
		return err
	}
	if b.Size()-b.SizeInUse() < largestRequest {
		return nil
	}
	if free, ok := m.free(m.dir); ok && free < uint64(b.SizeInUse())+shrinkReserve {
		return fmt.Errorf("the disk has %d bytes of free space, %d are needed to defragment the database: free space on the disk, or delete objects",
			free, b.SizeInUse()+shrinkReserve)
	}
	return m.defragment(last)
}

// compact removes all history from the database.
func (m *Member) compact(ctx context.Context) error {
	s := m.etcd.Server
	if rev := s.KV().Rev(); rev > s.KV().FirstRev() {
		if _, err := s.Compact(ctx, &pb.CompactionRequest{Revision: rev, Physical: true}); err != nil {
			return fmt.Errorf("compact the database: %w", err)
		}
	}
	s.Backend().ForceCommit()
	return nil
}

// defragment returns unused space of the database to the file system.
func (m *Member) defragment(last *attempt) error {
	began := time.Now()
	err := m.etcd.Server.Backend().Defrag()
	last.defragmented, last.took = time.Now(), time.Since(began)
	if err != nil {
		return fmt.Errorf("defragment the database: %w", err)
	}
	return nil
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

var (
	// errInUse is the reason why no space can be made until objects are deleted.
	errInUse = errors.New("delete objects or raise the quota")
	// errTooEarly is returned if the database was defragmented recently.
	errTooEarly = errors.New("it is compacted and defragmented soon")
	errDiskFull = errors.New("the disk is almost full")
)

// defragShare is the longest share of the time that the database is being defragmented, because
// reads wait meanwhile: with 10, a tenth.
const defragShare = 10

// makeSpace makes etcd accept writes again if there is space. If necessary, it compacts all
// history, and returns the freed space to the file system. There may be space already: the quota
// may have been raised since the last start, or the disk enlarged.
func (m *Member) makeSpace(ctx context.Context, last *attempt) error {
	b := m.etcd.Server.Backend()
	if b.Size()+largestRequest > m.quota {
		if time.Since(last.defragmented) < defragShare*last.took {
			return errTooEarly
		}
		if err := m.compact(ctx); err != nil {
			return err
		}
		// The copy is beside the database until it is complete.
		if free, ok := m.free(m.dir); ok && free < uint64(b.SizeInUse())+reserve {
			return fmt.Errorf("the disk has %d bytes of free space, %d are needed to defragment the database: free space on the disk, or raise the quota",
				free, b.SizeInUse()+reserve)
		}
		if err := m.defragment(last); err != nil {
			return err
		}
		if size := b.Size(); size+largestRequest > m.quota {
			return fmt.Errorf("%d bytes are in use after compaction, the quota is %d: %w", size, m.quota, errInUse)
		}
	}
	return m.alarm(ctx, pb.AlarmRequest_DEACTIVATE)
}

// Advice returns what to do while the member rejects writes for lack of space. It is for clients,
// so it does not name the data directory.
func (m *Member) Advice() string {
	if _, full := m.diskFull(); full {
		return fmt.Sprintf("Delete objects, or free space on the disk of the server: it accepts writes again by itself when %d MB are free", 2*reserve>>20)
	}
	const advice = "Delete objects, or start the server with a larger --quota-backend-bytes: it compacts and defragments the database, and accepts writes again, by itself"
	if m.inUse.Load() == m.etcd.Server.KV().Rev() {
		return "All of the space is in use. " + advice
	}
	return advice
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
