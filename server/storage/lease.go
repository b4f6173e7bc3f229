package storage

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// leaseReuse is how much longer than requested an object may live, so that its lease can
	// be shared with others. It is never more than a twentieth of the requested time.
	leaseReuse = time.Minute
	// leaseObjects is the maximum number of objects that share a lease.
	leaseObjects = 1000
)

// leases grants the leases of objects that expire. Objects that expire at about the same time
// share one, because etcd handles many leases badly.
type leases struct {
	client   *clientv3.Client
	maxReuse time.Duration

	mu      sync.Mutex
	id      clientv3.LeaseID
	expires time.Time
	objects int
}

// get returns a lease that expires after ttl seconds, or a little later. Zero means none.
func (l *leases) get(ctx context.Context, ttl uint64) (int64, error) {
	if ttl == 0 {
		return 0, nil
	}
	want := time.Duration(ttl) * time.Second
	reuse := min(want/20, l.maxReuse).Truncate(time.Second)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if left := l.expires.Sub(now); left >= want && left <= want+reuse && l.objects < leaseObjects {
		l.objects++
		return int64(l.id), nil
	}
	granted, err := l.client.Grant(ctx, int64((want + reuse).Seconds()))
	if err != nil {
		return 0, err
	}
	l.id, l.expires, l.objects = granted.ID, now.Add(want+reuse), 1
	return int64(l.id), nil
}
