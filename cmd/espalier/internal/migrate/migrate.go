// Package migrate rewrites the stored objects of CRDs, through the API of Espalier or any
// Kubernetes cluster.
//
// A server stores an object in the storage version, pruned and defaulted, whenever it is
// written. So a migration writes every object without a change: it sends a patch that is empty
// apart from the UID and resource version that the object must have. If the object is already
// stored as it would be now, the server does nothing; a concurrent write is never overwritten.
// After all objects, status.storedVersions of the CRD becomes the storage version.
//
// A migration may end at any point, and run again: there is no state but that of the server.
// With a [Backup], objects that were written before are not written again.
package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"espalier.dev/cmd/espalier/internal/source"
	"espalier.dev/crd/compliance"
	"espalier.dev/schema"
)

// Object is an object as the server returned it.
type Object struct {
	Namespace, Name, UID, ResourceVersion string
	JSON                                  json.RawMessage
}

// newObject returns the object of a JSON text.
func newObject(text []byte) (*Object, error) {
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("cannot decode the object: %w", err)
	}
	return &Object{o.Namespace, o.Name, string(o.UID), o.ResourceVersion, text}, nil
}

// String returns the namespace and the name.
func (o *Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// Result is the result of migrating an object.
type Result string

// The results.
const (
	// Rewritten objects were not stored as they should be.
	Rewritten Result = "rewritten"
	// Unchanged objects were stored as they should be.
	Unchanged Result = "unchanged"
	// Accepted objects would be accepted by the server. It is the result of a dry run if it is
	// not known how an object is stored.
	Accepted Result = "accepted"
	// Skipped objects were written by an earlier run, according to the backup.
	Skipped Result = "skipped"
	// Overtaken objects were written by others, again and again. Their writes had the effect
	// of a migration.
	Overtaken Result = "overtaken"
	// Deleted objects were deleted in the meantime.
	Deleted Result = "deleted"
	// Failed objects were rejected by the server.
	Failed Result = "failed"
)

// Outcome is what happened to an object.
type Outcome struct {
	CRD    string
	Object *Object
	Result Result
	// Err is why the object failed.
	Err error
	// Known is set if it is known how the object was stored. If it was not stored as it should
	// be, Stored is its text, and Found what was wrong with it. Otherwise they are nil.
	Known  bool
	Stored []byte
	Found  *compliance.Report
}

// Drops returns the problems of the stored object that the write removes.
func (o *Outcome) Drops() (drops []compliance.Problem) {
	if o.Found == nil {
		return nil
	}
	for _, p := range o.Found.Problems {
		if p.Kind == compliance.Unspecified || p.Kind == compliance.Malformed {
			drops = append(drops, p)
		}
	}
	return drops
}

// Counts are the numbers of objects of a CRD by result.
type Counts struct {
	Objects int64
	Of      map[Result]int64
	// DroppedFields is the number of fields that were dropped, or would be in a dry run, and
	// DroppedFrom the number of objects that had them. With a backup, they include earlier
	// runs. They are zero if it is not known what is stored.
	DroppedFields, DroppedFrom int64
}

// Migration migrates objects.
type Migration struct {
	Client *Client
	// Backup gets every object before it is written. It may be nil.
	Backup *Backup
	// DryRun makes the server check all writes, but store nothing.
	DryRun bool
	// Concurrency is the number of objects that are written at the same time.
	Concurrency int
	// Limiter limits the rate of writes. It may be nil.
	Limiter flowcontrol.RateLimiter
	// Stored is the storage of the server, or a snapshot of it. Through the API, data that is
	// stored but not served cannot be seen: without Stored, which may be nil, it is not known
	// what is dropped.
	Stored source.Source
	// Semantics are the schema semantics of the server, for the report of what is dropped.
	Semantics schema.Semantics
	// Report is called with the outcome of each object, in the order of the objects. It is
	// not called concurrently.
	Report func(*Outcome) error
}

// Run migrates all objects of a CRD. It goes on if the server rejects an object; then it does not
// update status.storedVersions. An error means that not all objects were migrated: Run can be
// called again.
func (m *Migration) Run(ctx context.Context, r *Resource) (*Counts, error) {
	run := &run{Migration: m, resource: r, counts: &Counts{Of: map[Result]int64{}}}
	err := run.all(ctx)
	return run.counts, err
}

// run is a migration of one CRD.
type run struct {
	*Migration
	resource *Resource
	counts   *Counts
	// stored is nil if it is not known how objects are stored.
	stored *index
}

func (m *run) all(ctx context.Context) (err error) {
	r := m.resource
	if err := r.check(); err != nil {
		return err
	}
	if m.Stored != nil {
		if m.stored, err = newIndex(ctx, m.Stored, r, m.Semantics); err != nil {
			return fmt.Errorf("cannot read the stored objects of the CRD %s: %w", r.CRD.Name, err)
		}
		defer func() { err = errors.Join(err, m.stored.close()) }()
	}
	if m.Backup != nil && !m.DryRun {
		if err := m.Backup.begin(r); err != nil {
			return err
		}
	}
	err = m.Client.list(ctx, r.path(r.Version, "", ""), func(items []json.RawMessage) error {
		// An old list must not be read with a new schema.
		if _, err := m.Client.again(ctx, r); err != nil {
			return err
		}
		return m.page(ctx, items)
	})
	if apierrors.IsNotFound(err) {
		if _, changed := m.Client.again(ctx, r); changed != nil {
			return changed
		}
	}
	m.countDrops()
	switch {
	case err != nil:
		return fmt.Errorf("cannot migrate the objects of the CRD %s: %w", r.CRD.Name, err)
	case m.DryRun || m.counts.Of[Failed] > 0:
		return nil
	}
	if err := m.Client.finish(ctx, r); err != nil {
		return err
	}
	if m.Backup != nil {
		return m.Backup.append(true, &record{Type: recordDone, CRD: r.CRD.Name, UID: string(r.CRD.UID), Generation: r.CRD.Generation})
	}
	return nil
}

// page migrates some objects. All goroutines end before it returns.
func (m *run) page(ctx context.Context, items []json.RawMessage) error {
	outcomes := make([]*Outcome, len(items))
	var before []*record
	for i, item := range items {
		o, err := newObject(item)
		if err != nil {
			return err
		}
		outcomes[i] = &Outcome{CRD: m.resource.CRD.Name, Object: o}
		if m.Backup != nil && !m.DryRun && m.Backup.isWritten(m.resource.CRD.Name, o) {
			outcomes[i].Result = Skipped
			continue
		}
		if err := m.inspect(ctx, outcomes[i]); err != nil {
			return err
		}
		before = append(before, m.before(outcomes[i]))
	}
	if err := m.keep(before...); err != nil {
		return err
	}
	group, workers := errgroup.WithContext(ctx)
	group.SetLimit(max(1, m.Concurrency))
	for _, o := range outcomes {
		if o.Result == "" {
			group.Go(func() error { return m.object(workers, o) })
		}
	}
	failure := group.Wait()
	return errors.Join(failure, m.report(outcomes))
}

// report counts and reports outcomes. Without a result, the run has ended before the object was
// migrated.
func (m *run) report(outcomes []*Outcome) error {
	var forbidden error
	for _, o := range outcomes {
		if o.Result == "" {
			continue
		}
		m.counts.Objects++
		m.counts.Of[o.Result]++
		m.drops(o)
		if m.Report != nil {
			if err := m.Report(o); err != nil {
				return err
			}
		}
		if apierrors.IsForbidden(o.Err) {
			forbidden = o.Err
		}
	}
	if forbidden != nil && m.counts.Of[Failed] == m.counts.Objects {
		return forbidden // the others will fail too
	}
	return nil
}

// drops counts what the write of an object drops.
func (m *run) drops(o *Outcome) {
	n := len(o.Drops())
	v := version{o.Object.UID, o.Object.ResourceVersion}
	switch {
	case n == 0:
	case m.Backup == nil || m.DryRun:
		if o.Result != Failed {
			m.counts.DroppedFields += int64(n)
			m.counts.DroppedFrom++
		}
	case o.Result == Failed:
		delete(m.Backup.done[o.CRD].drops, v)
	}
}

// countDrops counts what this run and earlier ones have dropped, according to the backup.
func (m *run) countDrops() {
	if m.Backup == nil || m.DryRun {
		return
	}
	m.Backup.mu.Lock()
	defer m.Backup.mu.Unlock()
	for _, n := range m.Backup.done[m.resource.CRD.Name].drops {
		m.counts.DroppedFields += int64(n)
		m.counts.DroppedFrom++
	}
}

// inspect finds out how an object is stored.
func (m *run) inspect(ctx context.Context, o *Outcome) (err error) {
	o.Known, o.Stored, o.Found = false, nil, nil
	if m.stored == nil {
		return nil
	}
	if o.Stored, o.Known, err = m.stored.find(o.Object); err != nil || o.Stored == nil {
		return err
	}
	found, err := m.stored.inspector.Inspect(ctx, o.Stored)
	o.Found = &found
	return err
}

// before returns the record of an object that is about to be written.
func (m *run) before(o *Outcome) *record {
	rec := &record{Type: recordBefore, CRD: o.CRD, Namespace: o.Object.Namespace, Name: o.Object.Name, UID: o.Object.UID,
		ResourceVersion: o.Object.ResourceVersion, Object: o.Object.JSON, Dropped: len(o.Drops())}
	if json.Valid(o.Stored) {
		rec.Stored = o.Stored
	}
	return rec
}

// keep writes records to the backup, if there is one.
func (m *run) keep(before ...*record) error {
	if m.Backup == nil || m.DryRun || len(before) == 0 {
		return nil
	}
	if err := m.Backup.append(true, before...); err != nil {
		return err
	}
	m.Backup.mu.Lock()
	defer m.Backup.mu.Unlock()
	for _, rec := range before {
		m.Backup.replay(rec)
	}
	return nil
}

// object migrates an object that is in the backup, and sets the result. The error means that the
// run cannot go on.
func (m *run) object(ctx context.Context, o *Outcome) error {
	path := m.resource.path(m.resource.Version, o.Object.Namespace, o.Object.Name)
	for range maxConflicts {
		err := m.write(ctx, path, o)
		switch {
		case err == nil:
			return nil
		case apierrors.IsNotFound(err):
			o.Result = Deleted
			return nil
		case isFatal(ctx, err):
			return err
		case !apierrors.IsConflict(err):
			o.Result, o.Err = Failed, err
			return nil
		}
		// Another writer was faster. Write what it has written.
		text, getErr := m.Client.get(ctx, path, nil)
		if apierrors.IsNotFound(getErr) {
			o.Result = Deleted
			return nil
		}
		if getErr != nil {
			return getErr
		}
		latest, getErr := newObject(text)
		if getErr != nil {
			return getErr
		}
		if latest.ResourceVersion == o.Object.ResourceVersion {
			o.Result, o.Err = Failed, err // the conflict is another one
			return nil
		}
		o.Object = latest
		if err := m.inspect(ctx, o); err != nil {
			return err
		}
		if err := m.keep(m.before(o)); err != nil {
			return err
		}
	}
	o.Result = Overtaken
	return nil
}

// write writes an object without a change, if it still has its resource version.
func (m *run) write(ctx context.Context, path string, o *Outcome) error {
	if m.Limiter != nil {
		if err := m.Limiter.Wait(ctx); err != nil {
			return err
		}
	}
	query := url.Values{"fieldManager": {manager}}
	if m.DryRun {
		query.Set("dryRun", metav1.DryRunAll)
	}
	text, err := m.Client.patch(ctx, path, query, map[string]any{
		"metadata": map[string]any{"uid": o.Object.UID, "resourceVersion": o.Object.ResourceVersion},
	})
	if err != nil {
		return err
	}
	written, err := newObject(text)
	if err != nil {
		return err
	}
	switch {
	case m.DryRun && !o.Known:
		o.Result = Accepted
	case m.DryRun && o.Stored == nil, !m.DryRun && written.ResourceVersion == o.Object.ResourceVersion:
		o.Result = Unchanged
	default:
		o.Result = Rewritten
	}
	if m.Backup == nil || m.DryRun {
		return nil
	}
	return m.Backup.append(false, &record{Type: recordAfter, CRD: o.CRD, Namespace: written.Namespace, Name: written.Name, UID: written.UID,
		ResourceVersion: o.Object.ResourceVersion, New: written.ResourceVersion})
}

// isFatal reports whether an error means that the run cannot go on.
func isFatal(ctx context.Context, err error) bool {
	status := (*apierrors.StatusError)(nil)
	return ctx.Err() != nil || !errors.As(err, &status) || isUnavailable(err) || apierrors.IsUnauthorized(err)
}

func isUnavailable(err error) bool {
	unavailable := (*UnavailableError)(nil)
	return errors.As(err, &unavailable)
}
