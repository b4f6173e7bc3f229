// Package compliance checks whether stored objects comply with their CRDs, which may have
// changed since the objects were written.
//
// A [Scanner] inspects the objects of a CRD after its spec has changed, and afterwards those
// that are written. Its results are the condition Compliant of the CRD, metrics, the resource
// noncompliantobjects ([Scanner.Resource]), and the warnings for a client that is about to
// specify a field at which objects hold data ([Scanner.Warnings]).
//
// # Cost
//
// One goroutine does everything. It works for some milliseconds, then pauses for three times as
// long: a scan takes a quarter of a core at most. Requests never wait for it. It reads the
// entries of the store, which are in memory anyway, and decodes one at a time. Of an object it
// keeps nothing, except the key and the kinds of problems of one that does not comply, for a
// limited number per CRD. Above that, it only counts.
//
// # Crashes and other servers
//
// Nothing but the condition is stored. After a restart, all objects are inspected again: that
// costs less than to store, for each object, which state of it has been inspected with which
// state of its CRD. Until the scan is complete, the condition stays as it was.
//
// Several servers on one etcd scan independently. Inspection is a function of the CRD and the
// object, so their counts are equal when they have seen the same changes. A server writes the
// condition when its own counts have changed and the stored condition differs from them, in a
// transaction that fails if the CRD has changed meanwhile. After the last change of an object,
// the last server to notice it leaves the right condition, and the others find nothing to
// write. A server that has another opinion, for example because it cannot decrypt an object,
// writes once and not again until its counts change: servers do not overwrite each other
// forever.
package compliance

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/keys"
	"espalier.dev/server/progress"
	"espalier.dev/store"
)

// Config configures a Scanner.
type Config struct {
	// Store has all stored objects in memory.
	Store *store.Store
	// Options are the options for compiling CRDs.
	Options crd.Options
	// Catalog returns the newest catalog.
	Catalog func() *crd.Catalog
	// Write writes the condition of a CRD. It fails if the CRD has changed, apart from its
	// status, or is being deleted.
	Write func(context.Context, *crd.Definition, api.CustomResourceDefinitionCondition) error

	// Interval is the minimum time between two writes of the condition of a CRD. Zero means
	// two seconds.
	Interval time.Duration
	// MaxFailing is the maximum number of keys per CRD that are kept. Zero means 10,000.
	MaxFailing int
}

// The limits of the work of a scanner.
const (
	// slice is the time after which a scan pauses, and rest how many times longer the pause is.
	slice = 5 * time.Millisecond
	rest  = 3
	// patience is the time after which the condition of a changed CRD becomes Unknown if the
	// scan is not complete.
	patience = 10 * time.Second
	// totals is the minimum time between two writes of a condition if only the number of all
	// objects has changed.
	totals = time.Minute
	// writeTime limits the time of a write of a condition, and writesTime is the time after
	// which further ones wait until the scanner has taken in new events.
	writeTime  = 10 * time.Second
	writesTime = 100 * time.Millisecond
)

// Scanner checks stored objects. One goroutine runs Run; all other methods are safe for
// concurrent use.
type Scanner struct {
	config Config
	// changed has an element if there may be a new catalog.
	changed chan struct{}
	// position is the revision up to which the results reflect the store.
	position *progress.Progress

	mu      sync.Mutex
	results map[string]*result // by name of the CRD

	// The following fields belong to Run.
	catalog *crd.Catalog
	// synced and syncCost are when the catalog was compared last, and how long it took.
	synced   time.Time
	syncCost time.Duration
	scans    map[string]*scan // by name of the CRD
	// queue has the scans that are not complete, unpublished those whose results or condition
	// may have changed.
	queue       []*scan
	unpublished map[*scan]bool
	reached     int64
}

// New returns a Scanner.
func New(c Config) *Scanner {
	if c.Interval == 0 {
		c.Interval = 2 * time.Second
	}
	if c.MaxFailing == 0 {
		c.MaxFailing = 10_000
	}
	return &Scanner{
		config: c, changed: make(chan struct{}, 1), position: progress.New(), results: map[string]*result{},
		scans: map[string]*scan{}, unpublished: map[*scan]bool{},
	}
}

// Changed tells the scanner that there is a new catalog. It returns immediately.
func (s *Scanner) Changed(*crd.Catalog, ...string) {
	select {
	case s.changed <- struct{}{}:
	default: // it knows already
	}
}

// Run scans until ctx or the store ends.
func (s *Scanner) Run(ctx context.Context) error {
	select {
	case <-s.config.Store.Loaded():
	case <-ctx.Done():
		return ctx.Err()
	}
	defer s.forgetAll()
	resume := int64(0)
	for {
		err := s.follow(ctx, resume)
		expired := (*store.ExpiredError)(nil)
		switch {
		case errors.Is(err, store.ErrSlow) && resume != s.reached:
			resume = s.reached // the events may still be in the window
		case errors.Is(err, store.ErrSlow), errors.As(err, &expired):
			klog.FromContext(ctx).V(2).Info("Inspecting all stored objects again", "reason", err.Error())
			resume = 0
		default:
			return err
		}
	}
}

// follow scans and follows the store after a revision. If it is zero, it begins anew.
func (s *Scanner) follow(ctx context.Context, after int64) error {
	anew := after == 0
	if anew {
		after = s.config.Store.Snapshot().Revision
	}
	w, err := s.config.Store.Watch(s.config.Store.Prefix(), after)
	if err != nil {
		return err
	}
	defer w.Stop()
	if anew {
		s.reached = after
		// A CRD whose first object was among the lost events has no scan yet.
		s.catalog, s.synced = nil, time.Time{}
		for _, c := range s.scans {
			s.restart(c, c.definition)
		}
	}
	var resume time.Time // when the next slice of a scan may begin
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := s.drain(ctx, w); err != nil {
			return err
		}
		s.sync()
		if resume, err = s.turn(ctx, resume); err != nil {
			return err
		}
		var due <-chan time.Time
		if next := s.next(s.publish(ctx), resume); !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-w.Ready():
		case <-s.changed:
		case <-due:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// turn scans for the time of a slice, unless it is earlier than resume, and returns when the next
// slice may begin.
func (s *Scanner) turn(ctx context.Context, resume time.Time) (time.Time, error) {
	now := time.Now()
	if now.Before(resume) {
		return resume, nil
	}
	err := s.work(ctx, now.Add(slice))
	return time.Now().Add(rest * time.Since(now)), err
}

// next returns when there is something to do: when a condition is due, or zero if none is, when the
// next slice of a scan may begin, or when the catalog may be compared.
func (s *Scanner) next(due, resume time.Time) time.Time {
	if len(s.queue) > 0 && (due.IsZero() || resume.Before(due)) {
		due = resume
	}
	if s.stale() && (due.IsZero() || s.nextSync().Before(due)) {
		due = s.nextSync()
	}
	return due
}

// drain takes in the events that a watcher has received.
func (s *Scanner) drain(ctx context.Context, w *store.Watcher) error {
	for {
		events, revision, err := w.Poll()
		if err != nil {
			return err
		}
		for _, e := range events {
			if c := s.scanOf(e.Key()); c != nil && c.counted(e.Key(), e.Revision) {
				if err := s.apply(ctx, c, e); err != nil {
					return err
				}
			}
		}
		s.reached = revision
		if len(events) == 0 {
			// The results are published before the position: who waits for it finds them.
			s.show()
			s.position.Reach(uint64(revision))
			return ctx.Err()
		}
	}
}

// scanOf returns the scan of the CRD to which a key belongs, or nil.
func (s *Scanner) scanOf(key string) *scan {
	at, _ := keys.Root(s.config.Store.Prefix()).Parse(key)
	name := at.Resource.String() // empty for other keys
	if c := s.scans[name]; c != nil {
		return c
	}
	if s.catalog == nil {
		return nil
	}
	// CRDs without objects have no scan. This is the first object: the scan finds it.
	if d := s.catalog.Get(name); d != nil {
		s.begin(d)
	}
	return nil
}

// stale reports whether the catalog has changed.
func (s *Scanner) stale() bool { return s.config.Catalog() != s.catalog }

// nextSync returns when the next comparison of the catalog may begin: with many CRDs, it is
// expensive.
func (s *Scanner) nextSync() time.Time { return s.synced.Add(20 * s.syncCost) }

// sync takes in a new catalog: it begins the scans of new CRDs, restarts those of CRDs whose
// spec has changed, and forgets those of deleted ones. A change of the status restarts nothing.
func (s *Scanner) sync() {
	now := time.Now()
	if !s.stale() || now.Before(s.nextSync()) {
		return
	}
	old := s.catalog
	s.catalog = s.config.Catalog()
	for name, c := range s.scans {
		switch d := s.catalog.Get(name); {
		case d == nil:
			s.forget(c)
		case d == c.definition:
		case d.Equivalent(c.definition) && d.CRD().Generation == c.definition.CRD().Generation:
			c.definition = d
			s.unpublished[c] = true // its condition may be missing
		default:
			s.restart(c, d)
		}
	}
	var snapshot *store.Snapshot
	for _, d := range s.catalog.All() {
		if s.scans[d.Name()] != nil || old != nil && old.Get(d.Name()) == d {
			continue
		}
		if snapshot == nil {
			snapshot = s.config.Store.Snapshot()
		}
		condition := crd.Condition(&d.CRD().Status, api.Compliant)
		if condition != nil && condition.Status != api.ConditionTrue || s.hasObjects(snapshot, d) {
			s.begin(d)
		}
	}
	s.synced = time.Now()
	s.syncCost = s.synced.Sub(now)
}

// prefix returns the prefix of the keys of a CRD's objects.
func (s *Scanner) prefix(d *crd.Definition) keys.Prefix {
	return keys.Root(s.config.Store.Prefix()).Custom(d.GroupResource())
}

func (s *Scanner) hasObjects(snapshot *store.Snapshot, d *crd.Definition) bool {
	for range snapshot.Range(string(s.prefix(d)), "") {
		return true
	}
	return false
}

// begin begins the scan of a CRD.
func (s *Scanner) begin(d *crd.Definition) {
	c := &scan{prefix: string(s.prefix(d))}
	s.scans[d.Name()] = c
	s.restart(c, d)
}

// forget forgets a CRD.
func (s *Scanner) forget(c *scan) {
	delete(s.scans, c.definition.Name())
	delete(s.unpublished, c)
	c.queued = false // work skips it
	c.gone = true
	s.mu.Lock()
	delete(s.results, c.definition.Name())
	s.mu.Unlock()
	scanMetrics().forget(c.definition.Name())
}

// forgetAll removes what a run leaves behind, because the metrics are those of the process.
func (s *Scanner) forgetAll() {
	for _, c := range maps.Clone(s.scans) {
		s.forget(c)
	}
	s.catalog, s.queue, s.synced = nil, nil, time.Time{}
}
