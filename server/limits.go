package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"espalier.dev/server/resources"
	"espalier.dev/store"
)

const (
	// retryAfter is the Retry-After header, in seconds, of rejected requests.
	retryAfter = 1
	// objectsPerSeat is the number of objects for which a list costs as much as one other
	// request.
	objectsPerSeat = 100
	// listShare bounds the share of a limit that one list can take: with 10, ten of the
	// largest lists run concurrently.
	listShare = 10
)

// limiter limits the number of concurrent requests. It counts every user, including
// system:masters: k8s.io/apiserver's own filters exempt that group, but here only its members
// have access. Health checks and the server's own client are exempt: a request that waits for
// another request of the server must not hold the seat that the other needs.
//
// The limiter runs inside the timeout filter and counts the work that a timed-out request
// leaves behind: a request holds its seat until its work ends, not only until the client gets
// a response.
type limiter struct {
	next        http.Handler
	longRunning apirequest.LongRunningRequestCheck
	serializer  runtime.NegotiatedSerializer
	// objects returns the number of stored objects of a resource, or most if there are more.
	objects func(resource runtimeschema.GroupResource, most int64) int64

	reading, mutating, streaming seats
}

// seats is one limit. The zero value means no limit.
type seats struct {
	limit int64
	taken *semaphore.Weighted
	// flag is the name of the flag that sets the limit.
	flag string
}

func newSeats(flag string, limit int) seats {
	if limit == 0 {
		return seats{flag: flag}
	}
	return seats{limit: int64(limit), taken: semaphore.NewWeighted(int64(limit)), flag: flag}
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

// limitRequests makes c limit requests according to the options, instead of with the limits of
// k8s.io/apiserver, and reject them until the server is ready.
func limitRequests(c *genericapiserver.Config, o *Options, stored *store.Store, ready <-chan struct{}) {
	c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = 0, 0
	c.BuildHandlerChainFunc = func(next http.Handler, c *genericapiserver.Config) http.Handler {
		return boundTransfers(whenReady(ready, c.Serializer, genericapiserver.DefaultBuildHandlerChain(&limiter{
			next:        next,
			longRunning: c.LongRunningFunc,
			serializer:  c.Serializer,
			objects:     func(r runtimeschema.GroupResource, most int64) int64 { return objectCount(stored, r, most) },
			reading:     newSeats("max-requests-inflight", o.MaxRequestsInFlight),
			mutating:    newSeats("max-mutating-requests-inflight", o.MaxMutatingRequestsInFlight),
			streaming:   newSeats("max-long-running-requests-inflight", o.MaxLongRunningRequestsInFlight),
		}, c)), c)
	}
}

// objectCount returns the number of stored objects of a resource, or most if there are more.
func objectCount(s *store.Store, r runtimeschema.GroupResource, most int64) (n int64) {
	for range s.Snapshot().Range(s.Prefix()+r.Group+"/"+r.Resource+"/", "") {
		if n++; n == most {
			break
		}
	}
	return n
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, ok := apirequest.RequestInfoFrom(req.Context())
	if !ok || exempt(req.Context(), info) {
		l.next.ServeHTTP(w, req)
		return
	}
	s := l.reading
	switch {
	case l.longRunning(req, info):
		s = l.streaming
	case mutates(info):
		s = l.mutating
	}
	giveBack := s.take(l.cost(req, info, s))
	if giveBack == nil {
		l.reject(w, req, info, s)
		return
	}
	ctx, answered := resources.WithWork(req.Context(), giveBack)
	defer answered()
	l.next.ServeHTTP(w, req.WithContext(ctx))
}

// exempt reports whether a request is a health check or comes from the server itself.
func exempt(ctx context.Context, info *apirequest.RequestInfo) bool {
	if !info.IsResourceRequest && slices.ContainsFunc(healthPaths(), func(path string) bool {
		return info.Path == path || strings.HasPrefix(info.Path, path+"/")
	}) {
		return true
	}
	u, ok := apirequest.UserFrom(ctx)
	return ok && u.GetName() == user.APIServerUser
}

// mutates reports whether a request can change stored data. The verb of a non-resource
// request is its HTTP method.
func mutates(info *apirequest.RequestInfo) bool {
	switch info.Verb {
	case "get", "list", "watch", "head", "options":
		return false
	}
	return true
}

// cost returns the number of seats for a request. A list needs memory for the objects that it
// returns.
func (l *limiter) cost(req *http.Request, info *apirequest.RequestInfo, s seats) int64 {
	if info.Verb != "list" || info.Name != "" {
		return 1
	}
	most := objectsPerSeat * max(1, s.limit/listShare)
	if page, err := strconv.ParseInt(req.URL.Query().Get("limit"), 10, 64); err == nil && page > 0 {
		most = min(most, page)
	}
	n := l.objects(runtimeschema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, most)
	return min(1+n/objectsPerSeat, max(1, s.limit/listShare))
}

// reject responds to a request for which there is no seat.
func (l *limiter) reject(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, s seats) {
	metrics.RecordDroppedRequest(req, info, metrics.APIServerComponent, mutates(info))
	metrics.RecordRequestTermination(req, info, metrics.APIServerComponent, http.StatusTooManyRequests)
	// A Status with retryAfterSeconds becomes the header Retry-After.
	err := apierrors.NewTooManyRequests(fmt.Sprintf("the server is working on as many requests as --%s allows (%d): try again later", s.flag, s.limit), retryAfter)
	responsewriters.ErrorNegotiated(err, l.serializer, runtimeschema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
}
