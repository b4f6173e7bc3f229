package backend

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/store"
)

const (
	// leaseReuse is how much longer than requested an object may live, so that its lease can
	// be shared with others. It is never more than a twentieth of the requested time.
	leaseReuse = time.Minute
	// leaseObjects is the maximum number of objects that share a lease.
	leaseObjects = 1000
	// leaseTime is the longest time that a write waits for its lease.
	leaseTime = 10 * time.Second
)

// leases grants the leases of objects that expire. Objects that expire at about the same time
// share one, because etcd handles many leases badly.
type leases struct {
	store    *store.Store
	maxReuse time.Duration

	// turn has an element while a writer uses the fields below, so that others wait no longer
	// than leaseTime if etcd does not answer.
	turn    chan struct{}
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
	limited, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-limited.Done():
		return 0, l.failure(ctx, limited.Err())
	}
	now := time.Now()
	if left := l.expires.Sub(now); left >= want && left <= want+reuse && l.objects < leaseObjects {
		l.objects++
		return int64(l.id), nil
	}
	granted, err := l.store.Client().Grant(limited, int64((want + reuse).Seconds()))
	if err != nil {
		return 0, l.failure(ctx, err)
	}
	l.id, l.expires, l.objects = granted.ID, now.Add(want+reuse), 1
	return int64(l.id), nil
}

// failure returns the error of a request to etcd whose time is limited.
func (l *leases) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Failure(&store.UnavailableError{Err: err})
	}
	return Failure(l.store.Full(ctx, err))
}
