package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"espalier.dev/server/backend"
	"espalier.dev/server/fairness"
	"espalier.dev/server/faults"
	"espalier.dev/server/rest"
	"espalier.dev/store"
)

// retryAfter is the Retry-After header, in seconds, of rejected requests.
const retryAfter = 1

// limiter limits the number of concurrent requests. It counts every user, including
// system:masters: k8s.io/apiserver's own filters exempt that group, but by default only its members
// have access. They have a tenth of the seats more than others, so that an administrator can remove what
// takes the others. Health checks and the server's own client are exempt: a request that waits for
// another request of the server must not hold the seat that the other needs.
//
// With priority and fairness, requests have waited in its queues before they get here. It gives out
// as many seats as the limits of reads and writes have together, and does not limit system:masters.
// So the limits apply to the requests that it exempts, and the others share a limit of their own,
// which they only reach if requests have left work behind: neither can starve the other. A request in a
// queue has no seat of the limiter, or a user who floods the server would take all of them.
//
// The limiter runs inside the timeout filter and counts the work that a timed-out request
// leaves behind: a request holds a seat until its work ends, not only until the client gets
// a response. Abandoned work has seats of its own, a tenth as many: a few requests whose work goes on
// take no seats of others. Work for which there is none of these keeps the seat of its request, because
// the memory of all work must have a bound.
//
// A list needs memory for its objects until the client has read them. So the stored bytes of the
// objects in all lists that are being answered are limited, too: a list takes them while it reads
// the objects, except for objects that it shares with another list. One that is larger than the
// limit is answered if there is no other.
type limiter struct {
	next        http.Handler
	longRunning apirequest.LongRunningRequestCheck
	serializer  runtime.NegotiatedSerializer

	reading, mutating, streaming seats
	// fairness is nil without priority and fairness. The requests that it limits share the seats fair.
	fairness *fairness.Control
	fair     seats
	// listed are the bytes of the objects in lists.
	listed seats
}

// seats returns the number of seats of priority and fairness, or zero without it.
func (o *Options) seats() int {
	if !o.EnablePriorityAndFairness || o.MaxRequestsInFlight == 0 || o.MaxMutatingRequestsInFlight == 0 || o.past() > 0 {
		return 0
	}
	return o.MaxRequestsInFlight + o.MaxMutatingRequestsInFlight
}

// shareSeats makes c divide the seats of requests among users, if it is to, and returns what does so.
func shareSeats(c *genericapiserver.Config, o *Options, stored *store.Store, r fairness.Reader) *fairness.Control {
	seats := o.seats()
	if seats == 0 {
		return nil
	}
	control := fairness.New(fairness.Config{Store: stored, Reader: r, Seats: seats})
	c.FlowControl = control
	c.StorageObjectCountTracker = fairness.NewCounts(stored, r)
	return control
}

// limitRequests makes c limit requests according to the options, instead of with the limits of
// k8s.io/apiserver, and reject them until the server is ready.
func limitRequests(c *genericapiserver.Config, o *Options, ready <-chan struct{}, stored *store.Store) {
	c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = 0, 0
	abandonedRequests() // register the metric
	c.BuildHandlerChainFunc = func(next http.Handler, c *genericapiserver.Config) http.Handler {
		if revision := o.past(); revision > 0 {
			next = readOnly(revision, next, c.Serializer)
		}
		if o.Faults != nil {
			next = o.Faults.Wrap(next, faults.Config{Serializer: c.Serializer, Revision: stored.Revision, Current: stored.Sync,
				MaxBody: maxRequestBody})
		}
		l := &limiter{
			next:        next,
			longRunning: c.LongRunningFunc,
			serializer:  c.Serializer,
			reading:     newRequestSeats("max-requests-inflight", int64(o.MaxRequestsInFlight)),
			mutating:    newRequestSeats("max-mutating-requests-inflight", int64(o.MaxMutatingRequestsInFlight)),
			streaming:   newRequestSeats("max-long-running-requests-inflight", int64(o.MaxLongRunningRequestsInFlight)),
			listed:      newSeats("max-list-bytes-inflight", o.MaxListBytesInFlight),
		}
		if control, ok := c.FlowControl.(*fairness.Control); ok {
			l.fairness = control
			l.fair = newFairSeats(int64(o.seats()))
		}
		return boundTransfers(whenReady(ready, c.Serializer, genericapiserver.DefaultBuildHandlerChain(l, c)), c)
	}
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	info, ok := apirequest.RequestInfoFrom(req.Context())
	if !ok || exempt(req.Context(), info) {
		l.next.ServeHTTP(w, req)
		return
	}
	if err := checkSelectors(info); err != nil {
		responsewriters.ErrorNegotiated(err, l.serializer,
			runtimeschema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
		return
	}
	s := l.reading
	switch {
	case l.longRunning(req, info):
		s = l.streaming
	case l.fairness != nil && !l.fairness.Exempts(w.Header()):
		s = l.fair
	case mutates(info):
		s = l.mutating
	}
	ctx := req.Context()
	leave := s.sit(ctx)
	if leave == nil {
		l.reject(w, req, info, s)
		return
	}
	finished := leave
	if lists(info) {
		b := &budget{of: l.listed}
		listed, done := backend.WithBudget(ctx, b)
		ctx, finished = listed, func() { leave(); done(); b.giveBack() }
	}
	ctx, answered := rest.WithWork(ctx, finished)
	defer answered()
	l.next.ServeHTTP(w, req.WithContext(ctx))
}

// maxSelectorParts is the largest number of requirements and values of the selectors of a request.
// A watch keeps them, in many times the memory of their text, and compares every object with them.
const maxSelectorParts = 5000

// checkSelectors returns an error if the selectors of a request are too large.
func checkSelectors(info *apirequest.RequestInfo) error {
	n := strings.Count(info.LabelSelector, ",") + strings.Count(info.FieldSelector, ",")
	if n < maxSelectorParts {
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the selectors have %d requirements and values, more than %d", n+1, maxSelectorParts))
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

// lists reports whether a request returns many objects. The deletion of a collection returns what
// it has deleted.
func lists(info *apirequest.RequestInfo) bool {
	return info.IsResourceRequest && (info.Verb == "list" || info.Verb == "deletecollection")
}

// budget is what a request has taken of the bytes of lists. It is not safe for concurrent use.
type budget struct {
	of seats
	// used are the bytes of its objects, taken those that it holds.
	used, taken int64
	// copied are those of its objects that are not stored.
	copied int64
}

const (
	// freeBytes is what the lists of a request may need without being counted, no more than other
	// requests do: small lists are answered when the bytes are used up.
	freeBytes = 1 << 20
	// bytesPerTake is the least that is taken at once.
	bytesPerTake = 1 << 20
	// objectOverhead is what an object needs in addition to its stored bytes.
	objectOverhead = 1 << 10
)

// Spend takes the bytes for an object of a list, and reports whether they are counted.
func (b *budget) Spend(n int) (counted bool, err error) {
	b.used += int64(n) + objectOverhead
	switch {
	case b.of.limit == 0, b.used <= b.taken, b.taken == b.of.limit:
		return true, nil
	case b.used <= freeBytes:
		return false, nil
	}
	more := min(max(b.used-b.taken, bytesPerTake), b.of.limit-b.taken)
	if b.of.take(more) == nil {
		return false, b.of.busy("bytes of lists")
	}
	b.taken += more
	return true, nil
}

// maxCopies limits the bytes that a list may need for defaults and conversions beyond the limit of all lists.
const maxCopies = 512 << 20

// SpendCopy takes bytes for what a list needs beside the stored objects.
func (b *budget) SpendCopy(n int) error {
	if n == 0 {
		return nil
	}
	if b.copied += int64(n); b.of.limit > 0 && b.copied > b.of.limit+maxCopies {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"the list needs more than %d bytes for defaults and conversions of its objects: request it in pages, with limit", b.of.limit+maxCopies))
	}
	_, err := b.Spend(n)
	return err
}

// Leave returns a function that gives back bytes of an object later than the others.
func (b *budget) Leave(n int) (giveBack func()) {
	left := min(int64(n), b.taken)
	b.taken -= left
	return func() { (&budget{of: b.of, taken: left}).giveBack() }
}

// giveBack returns what was taken.
func (b *budget) giveBack() {
	if b.taken > 0 {
		b.of.taken.Release(b.taken)
	}
}

// reject responds to a request for which there is no seat.
func (l *limiter) reject(w http.ResponseWriter, req *http.Request, info *apirequest.RequestInfo, s seats) {
	metrics.RecordDroppedRequest(req, info, metrics.APIServerComponent, mutates(info))
	metrics.RecordRequestTermination(req, info, metrics.APIServerComponent, http.StatusTooManyRequests)
	err := s.busy("requests")
	responsewriters.ErrorNegotiated(err, l.serializer, runtimeschema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, req)
}
