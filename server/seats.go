package server

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// seats is one limit. The zero value means no limit.
type seats struct {
	limit int64
	taken *semaphore.Weighted
	// flag is the name of the flag that sets the limit.
	flag string
	// The limit of requests has others beside it. abandoned is for work that outlives its request. reserved
	// is for requests of administrators for which there is no other seat.
	abandoned, reserved *semaphore.Weighted
}

func newSeats(flag string, limit int64) seats {
	if limit == 0 {
		return seats{flag: flag}
	}
	return seats{limit: limit, taken: semaphore.NewWeighted(limit), flag: flag}
}

// newRequestSeats returns the seats for requests.
func newRequestSeats(flag string, limit int64) seats {
	s := newSeats(flag, limit)
	spare := max(1, limit/10)
	s.abandoned, s.reserved = semaphore.NewWeighted(spare), semaphore.NewWeighted(spare)
	return s
}

// fairSlack is the number of seats that the limiter has beyond those of priority and fairness, which rounds
// the share of each priority level up. Without it, requests that have waited for a seat could be rejected.
const fairSlack = 64

// newFairSeats returns the seats for the requests that share limit seats of priority and fairness.
func newFairSeats(limit int64) seats {
	s := newRequestSeats("max-requests-inflight and --max-mutating-requests-inflight", limit)
	s.taken = semaphore.NewWeighted(limit + fairSlack)
	return s
}

// take returns a function that returns the seats, or nil if there are not enough.
func (s seats) take(n int64) (giveBack func()) {
	if s.limit == 0 {
		return func() {}
	}
	if !s.taken.TryAcquire(n) {
		return nil
	}
	return func() { s.taken.Release(n) }
}

// busy returns the error for a request for which there are not enough. A Status with
// retryAfterSeconds becomes the header Retry-After.
func (s seats) busy(of string) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf("the server is working on as many %s as --%s allows (%d): try again later", of,
		s.flag, s.limit), retryAfter)
}

// sit takes a seat for a request until its work has ended: the request calls leave. It returns nil if
// there is no seat.
func (s seats) sit(ctx context.Context) (leave func()) {
	taken := &seat{of: s}
	switch {
	case s.limit == 0:
	case s.taken.TryAcquire(1):
		taken.in = s.taken
	case isAdministrator(ctx) && s.reserved.TryAcquire(1):
		taken.in = s.reserved
	default:
		return nil
	}
	stop := context.AfterFunc(ctx, taken.abandon)
	return func() {
		stop()
		taken.leave()
	}
}

func isAdministrator(ctx context.Context) bool {
	u, ok := apirequest.UserFrom(ctx)
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

// seat is the seat of a request.
type seat struct {
	of seats

	mu sync.Mutex
	// in has the seat. It is nil if there is no limit.
	in              *semaphore.Weighted
	abandoned, left bool
}

// abandon frees the seat for other requests, if there is one for abandoned work. It is called when the
// request has ended, because of its timeout or its client, and its work may have not.
func (s *seat) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return
	}
	s.abandoned = true
	abandonedRequests().Inc()
	if s.in != nil && s.of.abandoned.TryAcquire(1) {
		s.in.Release(1)
		s.in = s.of.abandoned
	}
}

func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	if s.abandoned {
		abandonedRequests().Dec()
	}
	if s.in != nil {
		s.in.Release(1)
	}
}

// abandonedRequests registers the metric on first use, because the registry is global.
var abandonedRequests = sync.OnceValue(func() *metrics.Gauge {
	g := metrics.NewGauge(&metrics.GaugeOpts{
		Name: "espalier_abandoned_requests", StabilityLevel: metrics.ALPHA,
		Help: "Number of requests that have ended, because of their timeout or their client, and on which the server still works.",
	})
	legacyregistry.MustRegister(g)
	return g
})
