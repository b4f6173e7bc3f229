package aggregator

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// A server that hangs keeps each request until its deadline. So that it does not take all seats of this server,
// from all users, the requests that wait for one service have at most one of serviceShare seats of this server, and
// those that wait for any other server one of totalShare: several may hang at once, for example because they run on the
// same machine. A quarter is enough for a server that answers: at 10 ms each, 100 seats are 10,000 requests a second.
const serviceShare, totalShare = 4, 2

// retryAfter is the Retry-After header, in seconds, of rejected requests.
const retryAfter = 1

// seats counts the requests that wait for other servers. Long-running ones do not count.
type seats struct {
	mu    sync.Mutex
	taken map[seat]int
}

// seat is what a request counts for. A service may have several API services, which hang together. The empty name
// means all services.
type seat struct {
	service  types.NamespacedName
	mutating bool
}

// take takes a seat for a request to another server. giveBack returns it.
func (a *Aggregator) take(ctx context.Context, b *backend) (giveBack func(), err error) {
	if longRunning(ctx) {
		return func() {}, nil
	}
	limit, flag, mutating := a.config.MaxReads, "max-requests-inflight", false
	if info, ok := apirequest.RequestInfoFrom(ctx); ok && a.config.Mutates(info) {
		limit, flag, mutating = a.config.MaxWrites, "max-mutating-requests-inflight", true
	}
	if limit == 0 {
		return func() {}, nil
	}
	s, service := &a.seats, b.service.Spec.Service
	one := seat{types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, mutating}
	all := seat{mutating: mutating}
	s.mu.Lock()
	defer s.mu.Unlock()
	if most := max(limit/serviceShare, 1); s.taken[one] >= most {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d requests are waiting for the service %s of the API service %s, which is its share of --%s (%d): try again later",
			most, one.service, b.service.Name, flag, limit), retryAfter)
	}
	if most := max(limit/totalShare, 1); s.taken[all] >= most {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("%d requests are waiting for the servers of API services, %s among them, which is their share of --%s (%d): try again later",
			most, b.service.Name, flag, limit), retryAfter)
	}
	s.taken[one]++
	s.taken[all]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, of := range []seat{one, all} {
			if s.taken[of]--; s.taken[of] == 0 {
				delete(s.taken, of) // services come and go
			}
		}
	}, nil
}

// reject answers a request for which there is no seat.
func (a *Aggregator) reject(err error, b *backend, w http.ResponseWriter, req *http.Request) {
	if info, ok := apirequest.RequestInfoFrom(req.Context()); ok {
		metrics.RecordDroppedRequest(req, info, component, a.config.Mutates(info))
		metrics.RecordRequestTermination(req, info, component, http.StatusTooManyRequests)
	}
	responsewriters.ErrorNegotiated(err, a.config.Serializer, b.groupVersion(), w, req)
}
