package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
)

const (
	// healthTimeout is the time that a health check waits for etcd.
	healthTimeout = 2 * time.Second
	// healthyFor is the time that a positive result is cached. Health checks need no
	// credentials, so they must not be able to overload etcd.
	healthyFor = 500 * time.Millisecond
)

// etcdCheck checks that etcd answers. It runs at most one read; concurrent checks share its
// result.
type etcdCheck struct {
	read func(context.Context) error

	mu      sync.Mutex
	healthy time.Time // time of etcd's last answer
	running *etcdRead // nil if no read is running
}

// etcdRead is a read that runs until done is closed.
type etcdRead struct {
	done chan struct{}
	err  error
}

// newCheck returns a check of the database.
func (db *database) newCheck() *etcdCheck {
	return &etcdCheck{read: func(ctx context.Context) error {
		_, err := db.client.Get(ctx, db.root.Health())
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
		// Other checks wait for the read, so it does not end with the client. healthTimeout
		// ends it.
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

// run reads, and stores the result.
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
