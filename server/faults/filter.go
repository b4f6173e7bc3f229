package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
	"k8s.io/apiserver/pkg/server/routine"

	"espalier.dev/server/backend"
	"espalier.dev/server/rest"
)

// Config is what a [Set] needs of its server.
type Config struct {
	// Serializer encodes errors.
	Serializer runtime.NegotiatedSerializer
	// Revision returns the revision that reads from the cache return, and Current waits until that is
	// the newest one.
	Revision func() int64
	Current  func(context.Context) (int64, error)
	// MaxBody is the size limit of a body.
	MaxBody int64
}

// Wrap returns a handler that applies the rules to requests before next handles them. Users and
// RequestInfos must be known. Without rules, a request other than a watch costs the load of a
// pointer.
func (s *Set) Wrap(next http.Handler, c Config) http.Handler {
	s.mu.Lock()
	s.config = c
	s.streams = map[*stream]struct{}{}
	ended := s.done()
	s.mu.Unlock()
	return &filter{set: s, next: next, ended: ended}
}

type filter struct {
	set   *Set
	next  http.Handler
	ended <-chan struct{}
}

func (f *filter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if f.set.active.Load() == nil && !strings.Contains(req.URL.RawQuery, "watch") {
		f.next.ServeHTTP(w, req)
		return
	}
	q, ok := newRequest(req)
	if !ok {
		f.next.ServeHTTP(w, req)
		return
	}
	if q.verb == "create" && q.name == "" && f.set.active.Load() != nil {
		q.name = nameIn(rest.PeekBody(req, f.set.config.MaxBody))
	}
	var watch *stream
	if q.verb == "watch" && req.Header.Get("Upgrade") == "" {
		watch = newStream(w, q, f.set.config)
	}
	p := f.set.plan(q, watch)
	for _, d := range p.delays {
		if !f.sleep(req.Context(), d) {
			break
		}
	}
	switch {
	case p.fault == nil && watch != nil, p.fault != nil && watch != nil && (p.fault.Fault == EndWatch || p.fault.Fault == Expired):
		f.watch(watch, req)
	case p.fault == nil:
		if p.asOf != 0 {
			req = req.WithContext(backend.WithAsOf(req.Context(), p.asOf))
		}
		f.next.ServeHTTP(w, req)
		if p.cached {
			f.set.read(&q.query)
		}
	default:
		if watch != nil {
			f.set.end(watch)
		}
		f.fail(w, req, q, p.fault)
	}
}

// fail answers a request with a fault.
func (f *filter) fail(w http.ResponseWriter, req *http.Request, q *request, r *rule) {
	switch r.Fault {
	case CloseBefore:
		f.set.hit(r)
		panic(http.ErrAbortHandler)
	case CloseAfter, LostAnswer:
		answer := &recorder{header: http.Header{}}
		f.next.ServeHTTP(answer, req)
		if answer.code/100 != 2 {
			answer.send(w)
			return
		}
		f.set.hit(r)
		if r.Fault == CloseAfter {
			panic(http.ErrAbortHandler)
		}
	default:
		f.set.hit(r)
	}
	f.set.answer(w, req, q, r)
}

// sleep waits. It reports false if the request or the set has ended.
func (f *filter) sleep(ctx context.Context, d delay) bool {
	timer := time.NewTimer(d.time)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.rule.removed:
	case <-f.ended:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// watch handles a watch. The handler may serve it after it has returned, in a task.
func (f *filter) watch(w *stream, req *http.Request) {
	ctx, cancel := context.WithCancel(req.Context())
	w.setCancel(cancel)
	finish := func() {
		cancel()
		f.set.end(w)
		w.finish()
	}
	serving := false
	defer func() {
		if !serving {
			finish()
		}
	}()
	req = req.WithContext(ctx)
	if f.set.active.Load() != nil && req.Header.Get("Accept-Encoding") != "" {
		// The events of a compressed watch cannot be counted.
		req.Header = maps.Clone(req.Header)
		req.Header.Del("Accept-Encoding")
	}
	f.next.ServeHTTP(responsewriter.WrapForHTTP1Or2(w), req)
	if t := routine.TaskFrom(ctx); t != nil && t.Func != nil {
		serving = true
		serve := t.Func
		t.Func = func() {
			defer finish()
			serve()
		}
	}
}

// request is a request that rules may match.
type request struct {
	query
	// revision is the parameter resourceVersion.
	revision string
	info     *apirequest.RequestInfo
}

// newRequest returns what rules match. It reports false for requests that no rule matches.
func newRequest(req *http.Request) (*request, bool) {
	info, ok := apirequest.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest {
		return nil, false
	}
	who, ok := apirequest.UserFrom(req.Context())
	if !ok || who.GetName() == user.APIServerUser {
		return nil, false
	}
	q := &request{info: info, query: query{
		user: who.GetName(), verb: info.Verb, group: info.APIGroup, resource: info.Resource, subresource: info.Subresource,
		namespace: info.Namespace, name: info.Name,
	}}
	if req.URL.RawQuery == "" {
		return q, true
	}
	values, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, false // the answer is an error
	}
	q.revision = values.Get("resourceVersion")
	newer := q.revision != "" && q.revision != "0"
	q.dryRun = values.Has("dryRun")
	switch q.verb {
	case "watch":
		q.expires = newer && values.Get("sendInitialEvents") != "true"
	case "list":
		match := values.Get("resourceVersionMatch")
		q.expires = values.Get("continue") != "" || newer &&
			(match == string(metav1.ResourceVersionMatchExact) || match == "" && values.Get("limit") != "")
	}
	exact := values.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
	q.cached = (q.verb == "get" || q.verb == "list") && q.subresource == "" && q.revision == "0" && values.Get("continue") == "" && !exact
	return q, true
}

// nameIn returns the name of an object in a body, JSON or protobuf, or nothing.
func nameIn(body []byte) string {
	if raw, ok := bytes.CutPrefix(body, []byte("k8s\x00")); ok {
		// All kinds begin with the same field.
		var envelope runtime.Unknown
		var object metav1.PartialObjectMetadata
		if envelope.Unmarshal(raw) != nil || object.Unmarshal(envelope.Raw) != nil {
			return ""
		}
		return object.Name
	}
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	return object.Metadata.Name
}

// delay is a delay of a request by a rule.
type delay struct {
	time time.Duration
	rule *rule
}

// plan is what happens to a request.
type plan struct {
	delays []delay
	// fault is the rule whose fault happens, other than a delay, a hold or a stale read, or nil.
	fault *rule
	// asOf is the revision of a read from the cache, or zero.
	asOf int64
	// cached is set for reads that may be newer than asOf.
	cached bool
}

// plan decides what happens to a request, and adds a watch to those that run.
func (s *Set) plan(q *request, watch *stream) plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if watch != nil {
		s.streams[watch] = struct{}{}
	}
	var p plan
	stale := false
	for _, r := range s.rules {
		stale = stale || r.Fault == StaleRead
		if !s.fires(r, &q.query) {
			continue
		}
		switch r.Fault {
		case Delay:
			r.hits++
			p.delays = append(p.delays, delay{s.draw(r, &q.query).delay, r})
			continue
		case StaleRead:
			if p.asOf == 0 {
				p.asOf = s.asOf(r, &q.query)
			}
			continue
		case HoldEvents:
			if watch != nil {
				r.hits++
				watch.apply(r, s.draw(r, &q.query))
			}
			continue
		case EndWatch, Expired:
			if watch != nil {
				r.hits++
				watch.apply(r, s.draw(r, &q.query))
			}
		}
		if watch == nil && (r.Fault == EndWatch || r.Fault == Expired && q.verb == "watch") {
			continue // a web socket
		}
		p.fault = r
		p.asOf = 0
		return p
	}
	if stale && p.asOf == 0 && (q.verb == "get" || q.verb == "list") && q.revision != "" {
		if q.cached {
			p.asOf = s.pin(&q.query, s.config.Revision())
		} else {
			p.cached = true
		}
	}
	return p
}

// asOf returns the revision of a stale read. The caller holds the mutex.
func (s *Set) asOf(r *rule, q *query) int64 {
	now, at := s.config.Revision(), r.base
	if r.Behind > 0 {
		at = max(at, now-r.Behind)
	}
	if at = s.pin(q, at); at < now {
		r.hits++
	}
	return at
}

// pin returns the revision of a read from the cache: at, or that of an earlier read if it is
// newer. The caller holds the mutex.
func (s *Set) pin(q *query, at int64) int64 {
	key := q.resource + "." + q.group
	at = max(at, s.floors[key])
	if s.floors == nil {
		s.floors = map[string]int64{}
	}
	s.floors[key] = at
	return at
}

// read notes that a read has returned the newest state.
func (s *Set) read(q *query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rules) > 0 {
		s.pin(q, s.config.Revision())
	}
}

// end removes a watch from those that run.
func (s *Set) end(w *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, w)
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header returns the header.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader sets the status code.
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

// Write adds to the body.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// send sends the answer.
func (r *recorder) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	if r.code != 0 {
		w.WriteHeader(r.code)
	}
	_, _ = w.Write(r.body.Bytes()) // the client may have gone
}
