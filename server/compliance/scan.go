package compliance

import (
	"context"
	"slices"
	"time"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/crd/compliance"
	"espalier.dev/internal/persistent"
	"espalier.dev/store"
)

// problems are the kinds of problems of one object.
type problems struct {
	compliance.KindSet
	// truncated is set if there are problems that were not listed.
	truncated bool
}

// mayHide reports whether the object may hold fields that are not served.
func (p problems) mayHide() bool { return p.truncated || p.Has(compliance.Unspecified) }

// result is what a scan has found. It is immutable.
type result struct {
	definition *crd.Definition
	// complete is set if counts and failing reflect all objects. Before, they reflect a part.
	complete bool
	counts   compliance.Counts
	// failing has the keys of the objects that do not comply. overflow is set if there are too
	// many: then it is empty.
	failing  persistent.Map[problems]
	overflow bool
	// err is the reason why the objects cannot be inspected.
	err error
}

// knows reports whether failing has all objects that do not comply.
func (r *result) knows() bool { return r != nil && r.complete && !r.overflow && r.err == nil }

// scan is the state of one CRD. It belongs to Run.
//
// A scan proceeds by key. It takes a new snapshot for every slice of work, because an old one
// would keep objects in memory that have changed since. The objects of the keys below cursor
// are counted; their later changes are events, which are applied. Later keys are not counted
// yet, and their events are ignored. The keys from start to cursor were counted in the newest
// slice, at the revision of its snapshot: their events up to that revision are part of the
// snapshot, and ignored. Before the next slice, the scanner takes in all events up to that
// revision, so that this is needed for one slice only.
type scan struct {
	result
	prefix string
	// inspector inspects what is written. slow is the one of the running scan, nil outside of
	// one: it has Programs of its own, because those of the Definition would stay in memory.
	inspector, slow *compliance.Inspector

	start, cursor string
	revision      int64
	// queued is set while the scan is in the queue, gone after the CRD was deleted.
	queued, gone bool
	// began is when the spec changed, worked the time spent.
	began  time.Time
	worked time.Duration

	// shown is set if the result is the published one.
	shown bool
	// written is the condition that this server has written last, for writtenCounts, at
	// writtenAt. stands is set while the counts have not asked for another condition since.
	written       *api.CustomResourceDefinitionCondition
	writtenCounts compliance.Counts
	writtenAt     time.Time
	stands        bool
}

// restart begins the scan of a CRD anew.
func (s *Scanner) restart(c *scan, d *crd.Definition) {
	c.result = result{definition: d}
	c.inspector = compliance.New(d)
	c.slow, c.start, c.cursor, c.revision = nil, "", "", 0
	c.began, c.worked, c.shown = time.Now(), 0, false
	c.written = nil // it may have been that of another CRD with the same name
	s.unpublished[c] = true
	s.enqueue(c)
}

func (s *Scanner) enqueue(c *scan) {
	if !c.queued {
		c.queued = true
		s.queue = append(s.queue, c)
	}
}

// counted reports whether an event at a revision changes what was counted of a key.
func (c *scan) counted(key string, revision int64) bool {
	return c.err == nil && (key < c.start || key < c.cursor && revision > c.revision)
}

// end is after all keys of the CRD.
func (c *scan) end() string { return c.prefix + "\xff" }

// work scans until a time. The error is that of ctx.
func (s *Scanner) work(ctx context.Context, until time.Time) error {
	for len(s.queue) > 0 && ctx.Err() == nil {
		c := s.queue[0]
		if !c.queued || c.gone {
			s.queue = slices.Delete(s.queue, 0, 1)
			continue
		}
		if c.revision > s.reached {
			return nil // there are events of the last slice
		}
		s.queue = slices.Delete(s.queue, 0, 1)
		if !s.advance(ctx, c, until) {
			s.queue = append(s.queue, c) // the others take turns
			return ctx.Err()
		}
		c.queued = false
	}
	return ctx.Err()
}

// advance inspects the next objects of a CRD until a time, at least one. It reports whether
// the scan has ended.
func (s *Scanner) advance(ctx context.Context, c *scan, until time.Time) (ended bool) {
	began := time.Now()
	defer func() {
		c.worked += time.Since(began)
		c.shown = false
		if ended {
			c.slow = nil
			scanMetrics().scanned(c.worked)
		}
		s.unpublished[c] = true
	}()
	snapshot := s.config.Store.Snapshot()
	c.start, c.revision = c.cursor, snapshot.Revision
	n := 0
	for e := range snapshot.Range(c.prefix, c.cursor) {
		if n > 0 && time.Now().After(until) {
			c.cursor = e.Key
			return false
		}
		n++
		if c.slow == nil {
			own, err := c.definition.With(s.config.Options)
			if err != nil {
				c.fail(err)
				return true
			}
			c.slow = compliance.New(own)
		}
		found, err := inspect(ctx, c.slow, e)
		if ctx.Err() != nil {
			c.cursor = e.Key
			return false
		}
		if err != nil {
			c.fail(err)
			return true
		}
		c.counts.AddKinds(found.KindSet, 1)
		c.keep(e.Key, found, s.config.MaxFailing)
	}
	c.cursor, c.complete = c.end(), true
	return true
}

// fail gives up on a CRD whose objects cannot be inspected, until its spec changes.
func (c *scan) fail(err error) {
	c.result = result{definition: c.definition, err: err}
	c.start, c.cursor = "", ""
}

// apply takes in a change of an object that was counted.
func (s *Scanner) apply(ctx context.Context, c *scan, e *store.Event) error {
	c.shown = false
	s.unpublished[c] = true
	var before, after problems
	var err error
	if e.Old != nil {
		if before, _ = c.failing.Get(e.Key()); c.overflow {
			before, err = inspect(ctx, c.inspector, e.Old)
		}
		if err == nil {
			c.counts.AddKinds(before.KindSet, -1)
		}
	}
	if e.Entry != nil && err == nil {
		if after, err = inspect(ctx, c.inspector, e.Entry); err == nil {
			c.counts.AddKinds(after.KindSet, 1)
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.fail(err)
		return nil
	}
	c.keep(e.Key(), after, s.config.MaxFailing)
	if c.overflow && c.complete && c.counts.Failing <= int64(s.config.MaxFailing/2) {
		s.restart(c, c.definition) // the keys can be kept again
	}
	return nil
}

// keep keeps the key of an object that does not comply.
func (c *scan) keep(key string, found problems, most int) {
	switch {
	case c.overflow:
	case found.KindSet == 0:
		c.failing = c.failing.Delete(key)
	default:
		if c.failing = c.failing.Set(key, found); c.failing.Len() > most {
			c.failing, c.overflow = persistent.Map[problems]{}, true
		}
	}
}

// inspect inspects a stored object. The error is not about the object.
func inspect(ctx context.Context, with *compliance.Inspector, e *store.Entry) (problems, error) {
	r, err := report(ctx, with, e)
	return problems{r.Kinds(), r.Truncated}, err
}

// report is inspect with all details.
func report(ctx context.Context, with *compliance.Inspector, e *store.Entry) (compliance.Report, error) {
	if e.Err != nil {
		return compliance.Report{Problems: []compliance.Problem{{Kind: compliance.Unreadable, Message: e.Err.Error()}}}, nil
	}
	return with.Inspect(ctx, e.Value)
}

// show publishes the results that have changed.
func (s *Scanner) show() {
	for c := range s.unpublished {
		if c.shown {
			continue
		}
		c.shown = true
		shown := c.result
		s.mu.Lock()
		s.results[c.definition.Name()] = &shown
		s.mu.Unlock()
		if c.complete {
			scanMetrics().set(c.definition.Name(), c.counts)
		}
	}
}

// result returns what is known about a CRD, or nil.
func (s *Scanner) result(name string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.results[name]
}
