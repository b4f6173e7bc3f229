// Package peers coordinates the servers that share one etcd: a CRD becomes Established only
// when every live server can serve it.
//
// Each server registers: it has a key in etcd, outside the prefix of the resources, that is
// bound to a lease. The value is the progress of the server, the revision up to which its
// catalog has all changes of CRDs. A server publishes its progress only while others are
// registered.
//
// Before a server writes that a CRD is Established, it calls [Peers.Reached] with the revision
// of the CRD. Reached reads the registrations from etcd, after the CRD was written there. So it
// sees every server that was registered before the CRD was written. All of those must have
// made as much progress, lose their lease, or be stalled. A server that registers later is not
// ready until its catalog has all CRDs that were stored when it registered, see [Peers.Check].
//
// # Failures
//
// A full etcd grants no leases, so a server cannot register. It is ready without a registration
// when its catalog has all CRDs, because no server can write that a CRD is Established. It
// registers as soon as there is space.
//
// A server that crashes or is paused loses its lease, and the others stop waiting for it. If it
// crashes between two steps of a registration, there is a lease without a key, which expires.
// The file with the lease lets the next server in the same data directory revoke the lease of
// its predecessor, so that a restart does not wait for it to expire.
//
// A server that keeps its lease but makes no progress is stalled after the duration of a
// lease. The others ignore it until it makes progress.
//
// A server that loses its lease, because it was paused or etcd was unreachable, is not ready
// until it has registered again and its catalog has all CRDs that were stored then. It cannot
// publish progress with the old lease, and cannot write objects with the schemas that it had: the
// transactions of its writes require its registration, see [Peers.Registration].
//
// A server that is partitioned from etcd, but not from clients, is left out when its lease
// expires. It is not ready, so load balancers stop using it. A client that ignores this gets an
// error from every write and from every consistent read, and 503 for resources of CRDs that
// the server does not know, because it cannot ask etcd whether they exist.
//
// Several servers reconcile the same CRD. All of them wait for each other, and the
// first one writes the status. The writes of the others conflict and have no effect.
//
// No decision compares the clocks of two machines. etcd measures leases. A server
// measures with its own monotonic clock how long another one has made no progress.
package peers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"espalier.dev/server/keys"
)

// DefaultLease is the default duration of a lease. A server that crashes delays new CRDs by at
// most that time.
const DefaultLease = 10 * time.Second

// Config configures Peers.
type Config struct {
	// Client is the connection to etcd.
	Client *clientv3.Client
	// Root is the root of the keys of objects.
	Root keys.Root
	// Lease is the duration of a lease in whole seconds; zero means DefaultLease.
	Lease time.Duration
	// File is the path of a file that records the lease of this server for the next server in
	// the same data directory.
	File string
}

// Peers is the registration of a server, and its view of the others.
type Peers struct {
	client *clientv3.Client
	// servers is the prefix of registrations, crds that of CRDs.
	servers, crds string
	lease         time.Duration
	file          string
	joined        chan struct{} // closed when the server is registered for the first time

	mu       sync.Mutex
	progress int64
	// key is the key of this server, or empty if it is not registered. required is the
	// progress that it needs to be ready.
	key      string
	required int64
	// full is set while the server cannot be registered because etcd has no space left.
	full bool
	// others are the other servers at a revision, by key.
	others   map[string]*peer
	revision int64
	changed  chan struct{} // closed when a field above changes
}

// peer is another server.
type peer struct {
	progress int64
	// lagging is the time when this server first waited for the peer to make progress; zero
	// if it has not. stalled is set when that is too long ago.
	lagging time.Time
	stalled bool
}

// New returns Peers. Nothing is registered until Run.
func New(c Config) *Peers {
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	return &Peers{
		client: c.Client, servers: c.Root.Servers(), crds: string(c.Root.CRDs()), lease: c.Lease, file: c.File,
		joined: make(chan struct{}), changed: make(chan struct{}), others: map[string]*peer{},
	}
}

// Joined returns a channel that is closed when the server has been registered and its catalog
// has all CRDs that were stored then.
func (p *Peers) Joined() <-chan struct{} { return p.joined }

// Check returns an error while other servers do not wait for this one, or while its catalog
// may lack CRDs for which they did not.
func (p *Peers) Check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.key == "" && !p.full:
		return errors.New("the server is not registered in etcd")
	case p.progress < p.required:
		return fmt.Errorf("the CRDs are known up to revision %d, not %d", p.progress, p.required)
	}
	return nil
}

// Registration returns the key of this server in etcd. A transaction that requires the key fails if the
// server has lost its lease, even if it does not know: it was paused, and goes on with the CRDs that it
// had. While its catalog may lack CRDs, there is no such key.
func (p *Peers) Registration() (key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.key == "" || p.progress < p.required {
		return p.servers // the prefix of the keys, and never a key
	}
	return p.key
}

// Reach records that the catalog has all changes of CRDs up to a revision. It is lower than the
// last one only if the data of etcd was replaced by older data.
func (p *Peers) Reach(revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision != p.progress {
		p.progress = revision
		p.notify()
	}
}

// notify wakes up everyone who waits for a change. The caller holds the lock.
func (p *Peers) notify() {
	if (p.key != "" || p.full) && p.progress >= p.required {
		select {
		case <-p.joined:
		default:
			close(p.joined)
		}
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reached reports whether all live servers have a CRD in their catalogs. The revision is that
// of a stored CRD.
func (p *Peers) Reached(ctx context.Context, revision int64) (bool, error) {
	if err := p.refresh(ctx); err != nil {
		return false, err
	}
	lag, _, _ := p.lag(ctx, revision, false)
	return !lag, nil
}

// Await waits until all live servers have a CRD in their catalogs. It returns an error if etcd
// cannot be read, or that of ctx.
func (p *Peers) Await(ctx context.Context, revision int64) error {
	expired := true // at first, every server counts that etcd has
	for {
		if expired {
			if err := p.refresh(ctx); err != nil {
				return err
			}
		}
		lag, left, changed := p.lag(ctx, revision, expired)
		if !lag {
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
			// Nobody is stalled by what this server has not heard: read again.
			expired = true
		case <-changed:
			expired = false
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// lag reports whether a live server lags behind a revision, and how long it may do so. If the
// view of the others is fresh, those whose time has expired count as stalled. changed is
// closed when the result may have changed.
func (p *Peers) lag(ctx context.Context, revision int64, fresh bool) (lag bool, left time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, other := range p.others {
		if other.progress >= revision {
			continue
		}
		if other.lagging.IsZero() {
			other.lagging = time.Now()
		}
		remaining := p.lease - time.Since(other.lagging)
		if remaining <= 0 && fresh && !other.stalled {
			other.stalled = true
			klog.FromContext(ctx).Info("A server has stalled: new CRDs do not wait for it", "key",
				key, "progress", other.progress, "needed", revision)
		}
		if other.stalled {
			continue
		}
		if remaining = max(remaining, 0); !lag || remaining < left {
			lag, left = true, remaining
		}
	}
	return lag, left, p.changed
}

// refresh reads the registrations from etcd. The read is linearizable: it sees everything
// that was written before.
func (p *Peers) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.lease)
	defer cancel()
	resp, err := p.client.Get(ctx, p.servers, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("list the servers of this etcd: %w", err)
	}
	p.replace(resp.Header.Revision, resp.Kvs)
	return nil
}

// parse returns the progress in the value of a key. A value that is no number is that of a
// server that has made none.
func parse(value []byte) int64 {
	n, _ := strconv.ParseInt(string(value), 10, 64)
	return n
}
