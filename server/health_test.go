package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSharedHealthCheck sends many health checks: at most one read of etcd runs at once, and
// its result is reused for a while.
func TestSharedHealthCheck(t *testing.T) {
	var reads, running atomic.Int64
	fails := errors.New("dead")
	result := fails
	c := &etcdCheck{read: func(context.Context) error {
		if running.Add(1) > 1 {
			t.Error("two reads at a time")
		}
		defer running.Add(-1)
		reads.Add(1)
		time.Sleep(20 * time.Millisecond)
		return result
	}}
	all := func(want error) {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if err := c.check(t.Context()); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			})
		}
		wg.Wait()
	}
	all(fails)
	result = nil
	all(nil)
	all(nil)
	if n := reads.Load(); n > 20 {
		t.Errorf("%d reads for 300 checks", n)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	c.healthy = time.Time{}
	if err := c.check(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("a client that hung up: %v", err)
	}
}
