package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Set has the rules of a server. The zero value is ready to use. It is safe for concurrent use.
//
// The set owns the watches that run (stream) from their start to their end: the goroutine of a
// request adds and removes its own. Removing a rule, or closing the set, releases what the
// rule holds; nothing else of the set outlives its request.
type Set struct {
	config Config

	// active is nil if there are no rules.
	active atomic.Pointer[[]*rule]

	mu      sync.Mutex
	rules   []*rule
	streams map[*stream]struct{}
	// floors are the revisions of the newest reads from the cache, by group and resource, since
	// there are rules for stale reads.
	floors map[string]int64
	closed bool
	// ended is closed with the set.
	ended chan struct{}
}

// rule is a rule that is installed. The set's mutex guards its counts.
type rule struct {
	Rule
	// base is the revision of the store when the rule was installed.
	base int64
	// nth counts the requests of each kind, for the decisions of the seed.
	nth           map[string]uint64
	matched, hits int
	// removed is closed when the rule is.
	removed chan struct{}
}

// Injection are rules that were installed together.
type Injection struct {
	set   *Set
	rules []*rule
}

// Count is what a rule has done.
type Count struct {
	Rule Rule
	// Matched is the number of requests that the rule has matched, whether its count and probability
	// selected them or not.
	Matched int
	// Hits is the number of requests to which the fault has happened.
	Hits int
}

// currentTime is how long the installation of rules waits for the store.
const currentTime = 10 * time.Second

// ErrStopped is returned when rules are installed in a server that has stopped.
var ErrStopped = errors.New("the server has stopped: install rules while it runs")

// Inject installs rules. They are asked in their order, after those that are installed already: a
// request is delayed by all that delay it, a watch is held by all that hold it, and of all other
// faults the first one happens. Watches that run are held and ended at once.
func (s *Set) Inject(rules ...Rule) (*Injection, error) {
	var errs []error
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i+1, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	base, err := s.base(rules)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrStopped
	}
	if err != nil {
		return nil, err
	}
	in := &Injection{set: s}
	for _, r := range rules {
		added := &rule{Rule: r, base: base, nth: map[string]uint64{}, removed: make(chan struct{})}
		added.Verbs = slices.Clone(r.Verbs)
		in.rules = append(in.rules, added)
	}
	s.setRules(append(slices.Clone(s.rules), in.rules...))
	// The watches that run, in the order of their start.
	running := make([]*stream, 0, len(s.streams))
	for w := range s.streams {
		running = append(running, w)
	}
	slices.SortFunc(running, func(a, b *stream) int { return a.started.Compare(b.started) })
	for _, w := range running {
		for _, r := range in.rules {
			if s.appliesToRunning(r, w) {
				w.apply(r, s.draw(r, &w.query.query))
			}
		}
	}
	return in, nil
}

// base returns the revision from which on reads may be stale. What was written before the rules
// are installed is part of it.
func (s *Set) base(rules []Rule) (int64, error) {
	s.mu.Lock()
	current := s.config.Current
	s.mu.Unlock()
	if current == nil || !slices.ContainsFunc(rules, func(r Rule) bool { return r.Fault == StaleRead }) {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), currentTime)
	defer cancel()
	base, err := current(ctx)
	if err != nil {
		return 0, fmt.Errorf("get the newest revision for %s: %w", StaleRead, err)
	}
	return base, nil
}

// appliesToRunning decides whether a rule applies to a watch that runs.
func (s *Set) appliesToRunning(r *rule, w *stream) bool {
	switch r.Fault {
	case EndWatch, Expired:
		// The events of a compressed watch cannot be counted.
		if r.After > 0 && w.compressed() {
			return false
		}
	case HoldEvents:
	default:
		return false
	}
	// The revision that etcd watches may expire at any time.
	q := w.query.query
	q.expires = true
	if !s.fires(r, &q) {
		return false
	}
	r.hits++
	return true
}

// setRules replaces the rules. The caller holds the mutex.
func (s *Set) setRules(rules []*rule) {
	s.rules = rules
	if len(rules) == 0 {
		s.active.Store(nil)
		s.floors = nil
		return
	}
	s.active.Store(&rules)
}

// done returns a channel that is closed with the set. The caller holds the mutex.
func (s *Set) done() chan struct{} {
	if s.ended == nil {
		s.ended = make(chan struct{})
	}
	return s.ended
}

// Close removes all rules, releases all that they hold, and ends all delays, because the server
// stops.
func (s *Set) Close() {
	s.mu.Lock()
	all := s.rules
	if !s.closed {
		s.closed = true
		close(s.done())
	}
	s.mu.Unlock()
	s.remove(all)
}

// remove removes rules, and releases what they hold.
func (s *Set) remove(rules []*rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(s.rules), func(r *rule) bool { return slices.Contains(rules, r) })
	for _, r := range s.rules {
		if slices.Contains(rules, r) {
			close(r.removed)
		}
	}
	s.setRules(left)
	for w := range s.streams {
		w.release(rules)
	}
}

// Remove removes the rules: they apply to no further requests, delays end, and the events that
// they hold back are sent. It may be called more than once. The counts remain.
func (in *Injection) Remove() { in.set.remove(in.rules) }

// Counts returns what each rule has done.
func (in *Injection) Counts() []Count {
	in.set.mu.Lock()
	defer in.set.mu.Unlock()
	counts := make([]Count, 0, len(in.rules))
	for _, r := range in.rules {
		counts = append(counts, Count{Rule: r.Rule, Matched: r.matched, Hits: r.hits})
	}
	return counts
}

// Hits returns the number of requests to which a fault of the rules has happened.
func (in *Injection) Hits() int {
	n := 0
	for _, c := range in.Counts() {
		n += c.Hits
	}
	return n
}

// query is what rules match.
type query struct {
	user, verb, group, resource, subresource, namespace, name string
	// dryRun, expires and cached describe the parameters of the request: it stores nothing; it
	// watches from a resourceVersion on, or lists the state at one; it reads from the cache, at any
	// resourceVersion.
	dryRun, expires, cached bool
}

// key identifies requests of the same kind.
func (q *query) key() string {
	return fmt.Sprintf("%s\x00%s\x00%s.%s/%s\x00%s\x00%s", q.user, q.verb, q.resource, q.group, q.subresource, q.namespace, q.name)
}

// matches reports whether a rule matches a request, without regard to its count.
func (r *rule) matches(q *query) bool {
	verbs, _ := verbsOf(r.Fault)
	if !slices.Contains(verbs, q.verb) || len(r.Verbs) > 0 && !slices.Contains(r.Verbs, q.verb) {
		return false
	}
	if r.User != "" && r.User != q.user || r.Namespace != "" && r.Namespace != q.namespace || r.Name != "" && r.Name != q.name ||
		!matchesResource(r.Resource, q.group, q.resource, q.subresource) {
		return false
	}
	switch r.Fault {
	case LostAnswer, CloseAfter:
		return !q.dryRun
	case StaleRead:
		return q.cached
	case Expired:
		return q.expires
	}
	return true
}

// fires counts a request that a rule matches, and decides whether the fault happens. The caller
// holds the mutex.
func (s *Set) fires(r *rule, q *query) bool {
	if !r.matches(q) {
		return false
	}
	r.matched++
	if r.Probability > 0 {
		r.nth[q.key()]++
	}
	if r.First > 0 && r.matched > r.First || r.Nth > 0 && r.matched != r.Nth {
		return false
	}
	return r.Probability == 0 || s.random(r, q, 0).Float64() < r.Probability
}

// random returns the numbers for the latest request of a kind: those with the same salt are the
// same for the same seed.
func (s *Set) random(r *rule, q *query, salt uint64) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(q.key())) // never fails
	return rand.New(rand.NewPCG(r.Seed^salt<<32, h.Sum64()+r.nth[q.key()]*0x9e3779b97f4a7c15))
}

// drawn are the parameters of a fault that has happened.
type drawn struct {
	delay time.Duration
	after int
}

// draw returns the parameters of a fault that happens to a request. The caller holds the mutex.
func (s *Set) draw(r *rule, q *query) drawn {
	d := drawn{delay: r.Delay, after: r.After}
	if r.Probability == 0 {
		return d
	}
	random := s.random(r, q, 1)
	if d.delay > 0 {
		// A duration of zero would hold events without limit.
		d.delay = 1 + time.Duration(random.Int64N(int64(d.delay)))
	}
	if d.after > 0 {
		d.after = random.IntN(d.after + 1)
	}
	return d
}

// hit counts a fault that has happened.
func (s *Set) hit(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.hits++
}
