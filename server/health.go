package server

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
)

const (
	// healthTimeout is how long a health check waits for etcd.
	healthTimeout = 2 * time.Second
	// healthyFor is how long the answer of a healthy etcd is good for. Health checks need
	// no credentials, so their number must not become the load of etcd.
	healthyFor = 500 * time.Millisecond
)

// etcdCheck reports whether etcd answers. At most one read is under way at a time: who
// asks meanwhile gets its result.
type etcdCheck struct {
	read func(context.Context) error

	mu      sync.Mutex
	healthy time.Time // when etcd answered last
	running *etcdRead // nil if no read is under way
}

// etcdRead is a read that is under way until done is closed.
type etcdRead struct {
	done chan struct{}
	err  error
}

// newCheck returns a check of the database.
func (db *database) newCheck(prefix string) *etcdCheck {
	key := path.Join("/", prefix, "health")
	return &etcdCheck{read: func(ctx context.Context) error {
		_, err := db.client.Get(ctx, key)
		return err
	}}
}

// named returns a health check with the given name.
func (c *etcdCheck) named(name string) healthz.HealthChecker {
	return healthz.NamedCheck(name, func(r *http.Request) error { return c.check(r.Context()) })
}

func (c *etcdCheck) check(ctx context.Context) error {
	c.mu.Lock()
	if time.Since(c.healthy) < healthyFor {
		c.mu.Unlock()
		return nil
	}
	r := c.running
	if r == nil {
		r = &etcdRead{done: make(chan struct{})}
		c.running = r
		// The read outlives a client that hangs up: others wait for it. healthTimeout ends it.
		go c.run(context.WithoutCancel(ctx), r)
	}
	c.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.err != nil {
		return fmt.Errorf("etcd does not answer: %w", r.err)
	}
	return nil
}

// run reads, and keeps the result.
func (c *etcdCheck) run(ctx context.Context, r *etcdRead) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r.err = c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err == nil {
		c.healthy = time.Now()
	}
	c.running = nil
	close(r.done)
}
