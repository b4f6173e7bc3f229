package definitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/backend"
	"espalier.dev/server/compiling"
	"espalier.dev/server/custom"
	"espalier.dev/server/fence"
	"espalier.dev/server/keys"
	"espalier.dev/server/progress"
	"espalier.dev/store"
)

// Config configures Definitions.
type Config struct {
	// Options are the options for compiling and validating CRDs.
	Options crd.Options
	// Warnings returns additional warnings for the writer of a valid CRD. Nil means none.
	Warnings func(context.Context, *api.CustomResourceDefinition) []string
	// Compliance checks the stored objects. Nil means that they are not checked.
	Compliance Compliance
	// Storage returns the storage options of CRDs.
	Storage generic.RESTOptionsGetter
	// Fences prevent objects from outliving their CRD.
	Fences *fence.Fences
	// Compiling limits the writes of CRDs whose rules take long to compile. Nil means that they are not limited.
	Compiling *compiling.Limits
	// Store has the stored CRDs in memory.
	Store *store.Store
	// Peers are the other servers on the same etcd. Nil means that there cannot be any.
	Peers Peers
	// From is what is known of the stored CRDs from the start, if etcd and the store are copies of
	// those of another server, with the same options. Nil means that nothing is known.
	From *State
	// ReadOnly keeps Definitions from writing: no status, no fences, no deletions.
	ReadOnly bool
	// Handler returns the handler of the resources, which has the storage of the CRDs. It is made
	// with the Definitions as its source, and called when they run.
	Handler func() *custom.Handler
}

// writes returns the storage of CRDs for requests of users.
func (c *Config) writes(s *registry.Store) rest.StandardStorage {
	if c.Compiling == nil {
		return s
	}
	return c.Compiling.Wrap(s.DefaultQualifiedResource, s)
}

// Definitions serves and reconciles the stored CRDs.
type Definitions struct {
	config   Config
	crds     keys.Prefix
	resource *custom.Fixed
	catalog  atomic.Pointer[crd.Catalog]
	progress *progress.Progress
	ready    chan struct{}
	kinds    *kinds
	// reconciled counts the CRDs that were read or reconciled.
	reconciled atomic.Uint64
	reader     *reader
	// leftOut has the names of the stored CRDs that cannot be read.
	leftOut sync.Map

	mu          sync.Mutex
	subscribers []func(c *crd.Catalog, names ...string)

	// turn is held while the reconciling goroutine works, so that State can read what is known.
	turn sync.Mutex
	// The following fields belong to the reconciling goroutine and the cleanups.
	known    map[string]*stored
	fenced   map[types.UID]bool // those that are known to have a fence
	again    chan string        // names of those to reconcile once more
	retries  map[string]*retry  // of writes of the status that have failed, by name
	holding  map[string]*held   // statuses that are not written yet, by name
	released chan *held         // those of holding that can be written
	cleaning sync.Map           // of UIDs
	cleanups sync.WaitGroup
}

var _ custom.Source = &Definitions{}

// New returns Definitions with an empty catalog; Run fills it.
func New(c Config) (*Definitions, error) {
	def, err := definition(c.Options.Semantics)
	if err != nil {
		return nil, fmt.Errorf("the definition of definitions: %w", err)
	}
	if c.Warnings == nil {
		c.Warnings = func(context.Context, *api.CustomResourceDefinition) []string { return nil }
	}
	d := &Definitions{config: c, crds: keys.Root(c.Store.Prefix()).CRDs(), reader: &reader{kinds: &kinds{options: c.Options}}, kinds: &kinds{options: c.Options, warnings: c.Warnings,
		compliance: c.Compliance}, progress: progress.New(), ready: make(chan struct{}), again: make(chan string),
		holding: map[string]*held{}, released: make(chan *held), known: map[string]*stored{},
		fenced: map[types.UID]bool{}, retries: map[string]*retry{}}
	d.catalog.Store(crd.NewCatalog())
	if c.From != nil {
		d.known = c.From.restore()
		d.config.From = nil
	}
	d.resource = &custom.Fixed{
		Definition: def,
		Storage:    c.Storage,
		Kinds:      d.kinds,
		Describe:   describe,
		WrapSubresource: func(_ string, s rest.Patcher) rest.Patcher {
			return &subresource{Patcher: s, definitions: d}
		},
		Wrap: func(s *registry.Store) rest.StandardStorage { return &crdStorage{s, d.config.writes(s), d} },
	}
	return d, nil
}

// Resource returns the resource customresourcedefinitions.
func (d *Definitions) Resource() *custom.Fixed { return d.resource }

// Catalog returns the current catalog.
func (d *Definitions) Catalog() *crd.Catalog { return d.catalog.Load() }

// Ready returns a channel that is closed when all CRDs that were stored at the start are in
// the catalog.
func (d *Definitions) Ready() <-chan struct{} { return d.ready }

// Loaded returns how often the schemas of a CRD were decoded to serve it.
func (d *Definitions) Loaded() uint64 { return d.reader.loaded.Load() }

// Progress returns a number that grows with every CRD that is read or reconciled.
func (d *Definitions) Progress() uint64 { return d.reconciled.Load() }

// Subscribe has f called with every new catalog, one after the other, and the names of the
// CRDs that have changed. No names mean that all may have changed.
func (d *Definitions) Subscribe(f func(c *crd.Catalog, names ...string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, f)
}

func (d *Definitions) publish(c *crd.Catalog, names ...string) {
	d.catalog.Store(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.subscribers {
		f(c, names...)
	}
}

// refreshTime bounds how long somebody who asks for what does not exist waits for the storage
// to say so.
const refreshTime = 2 * time.Second

// Refresh asks the storage about a definition, and waits until the catalog is as new as
// the answer. It returns an error if the definition is stored but cannot be read: its objects
// exist.
func (d *Definitions) Refresh(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	if _, err := d.config.Store.Sync(ctx); err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("cannot find out whether the CRD %s exists: %v", name, err))
	}
	if e := d.config.Store.Get(d.crds.Key("", name)); e != nil {
		// A slower CRD is not served yet.
		_ = d.progress.Wait(ctx, uint64(e.Revision))
	}
	if _, ok := d.leftOut.Load(name); ok {
		return d.unreadableError(name, nil)
	}
	return nil
}

// Await waits until the catalog has all changes of CRDs up to a revision that has changed one.
func (d *Definitions) Await(ctx context.Context, revision int64) error {
	return d.progress.Wait(ctx, uint64(revision))
}

func (d *Definitions) storage() (*crdStorage, func(), error) {
	s, release, err := d.config.Handler().Storage(d.resource.Definition, "v1")
	if err != nil {
		return nil, nil, err
	}
	return s.(*crdStorage), release, nil
}

// Run follows the stored CRDs until ctx ends or the watch fails.
func (d *Definitions) Run(ctx context.Context) error {
	// Cleanups end with this run, and restart with the next one. A cleanup that waits for a
	// finalizer must not block the reconciler.
	defer d.cleanups.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := d.follow(ctx)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("lost track of the CRDs: %w", err)
	}
	return nil
}

// follow follows the stored CRDs. It returns when ctx or the store ends.
func (d *Definitions) follow(ctx context.Context) error {
	s, release, err := d.storage()
	if err != nil {
		return err
	}
	defer release()
	select {
	case <-d.config.Store.Loaded():
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		err := d.followFrom(ctx, s, d.config.Store.Snapshot())
		expired := (*store.ExpiredError)(nil)
		if !errors.Is(err, store.ErrSlow) && !errors.As(err, &expired) {
			return err
		}
		klog.FromContext(ctx).Info("Reading all CRDs again", "reason", err.Error())
	}
}

// followFrom takes in all CRDs of a snapshot, and then the changes after it.
func (d *Definitions) followFrom(ctx context.Context, s *crdStorage, snapshot *store.Snapshot) error {
	w, err := d.config.Store.Watch(string(d.crds), snapshot.Revision)
	if err != nil {
		return err
	}
	defer w.Stop()
	d.turn.Lock()
	err = d.replace(ctx, s, snapshot)
	d.turn.Unlock()
	if err != nil {
		return err
	}
	d.reach(uint64(snapshot.Revision))
	select {
	case <-d.ready:
	default:
		close(d.ready)
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case name := <-d.again:
			d.turn.Lock()
			d.reconcile(ctx, s, name)
			d.turn.Unlock()
		case h := <-d.released:
			d.turn.Lock()
			d.release(ctx, s, h)
			d.turn.Unlock()
		case <-w.Ready():
			events, _, err := w.Poll()
			if err != nil {
				return err
			}
			for i, e := range events {
				d.turn.Lock()
				d.take(ctx, s, e)
				d.turn.Unlock()
				// A transaction may have written several CRDs.
				if i+1 == len(events) || events[i+1].Revision != e.Revision {
					d.reach(uint64(e.Revision))
				}
			}
		}
	}
}

// take takes in a change of a stored CRD.
func (d *Definitions) take(ctx context.Context, s *crdStorage, e *store.Event) {
	name := keys.Name(e.Key())
	if e.Entry == nil {
		d.drop(ctx, s, name)
		d.leftOut.Delete(name)
		return
	}
	next := d.read(e.Entry, d.known[name])
	if next == nil {
		d.leaveOut(ctx, name, nil)
		d.drop(ctx, s, name)
		return
	}
	old := d.known[name]
	if old != nil && old.crd.UID != next.crd.UID {
		delete(d.fenced, old.crd.UID)
	}
	d.known[name] = next
	d.leftOut.Delete(name)
	d.reconcile(ctx, s, name)
	if old != nil && !equality.Semantic.DeepEqual(old.crd.Status.AcceptedNames, next.crd.Status.AcceptedNames) {
		d.offerNames(ctx, s, next.crd)
	}
}

// offerNames reconciles the CRDs that may have waited for the names of another one.
func (d *Definitions) offerNames(ctx context.Context, s *crdStorage, of *api.CustomResourceDefinition) {
	for _, peer := range d.Catalog().Waiting(of.Spec.Group) {
		if peer.Name() != of.Name {
			d.reconcile(ctx, s, peer.Name())
		}
	}
}

// leaveOut notes that a stored CRD cannot be read. Its objects stay as they are.
func (d *Definitions) leaveOut(ctx context.Context, name string, err error) {
	d.leftOut.Store(name, true)
	klog.FromContext(ctx).Error(err, "A stored CRD cannot be read and is not served: repair or delete it", "name", name, "key",
		d.crds.Key("", name))
}

// replace makes the CRDs of a snapshot the known ones.
func (d *Definitions) replace(ctx context.Context, s *crdStorage, snapshot *store.Snapshot) error {
	names, all, err := d.readAll(ctx, snapshot)
	if err != nil {
		return err
	}
	if err := d.adoptAll(ctx, all); err != nil {
		return err
	}
	known := make(map[string]*stored, len(all))
	defs := make([]*crd.Definition, 0, len(all))
	corrupt := map[string]bool{}
	for i, c := range all {
		if c == nil {
			d.leaveOut(ctx, names[i], nil)
			corrupt[names[i]] = true
			continue
		}
		known[names[i]] = c
		defs = append(defs, c.define())
	}
	d.known = known
	d.publish(crd.NewCatalog(defs...))
	d.leftOut.Range(func(name, _ any) bool {
		if !corrupt[name.(string)] {
			d.leftOut.Delete(name)
		}
		return true
	})
	for name, k := range known {
		if !k.settled {
			d.reconcile(ctx, s, name)
		}
		k.settled = false
	}
	return nil
}

// drop removes a CRD from the catalog. Other CRDs may have waited for its names.
func (d *Definitions) drop(ctx context.Context, s *crdStorage, name string) {
	gone := d.known[name]
	delete(d.known, name)
	d.publish(d.Catalog().Without(name), name)
	if gone == nil {
		return
	}
	delete(d.fenced, gone.crd.UID)
	delete(d.retries, name)
	delete(d.holding, name)
	d.offerNames(ctx, s, gone.crd)
}

// reconcile computes the status of a CRD, updates the catalog, and then writes the status: a
// resource is served before clients see that it is established.
func (d *Definitions) reconcile(ctx context.Context, s *crdStorage, name string) {
	k := d.known[name]
	if k == nil {
		return
	}
	d.reconciled.Add(1)
	c, current := k.crd, k.define()
	if c.Status.ObservedGeneration != c.Generation {
		if err := current.Load(); err != nil {
			d.leaveOut(ctx, name, err)
			d.publish(d.Catalog().Without(name), name)
			d.cleanUp(ctx, c)
			return
		}
	}
	status := crd.Status(c.Status, current, d.Catalog(), transition())
	changed := !equality.Semantic.DeepEqual(status, c.Status)
	if changed {
		status = d.withCompliance(status, current)
	}
	if !changed && c.DeletionTimestamp == nil && !d.fenced[c.UID] && !d.config.ReadOnly {
		// Another server wrote the CRD. A write of the status by this server includes the
		// fence.
		d.adopt(ctx, c)
	}
	if changed {
		next := *c
		next.Status = status
		current = current.Renew(&next)
		k.definition, k.defined = current, nil
	}
	if d.Catalog().Get(name) != current {
		d.publish(d.Catalog().With(current), name)
	}
	if changed && !d.config.ReadOnly && !d.hold(ctx, c, status) {
		d.writeStatus(ctx, s, c, status)
	}
	d.cleanUp(ctx, c)
}

// writeStatus stores a status that was computed from c. If the CRD has changed since, its
// event causes another reconciliation.
func (d *Definitions) writeStatus(ctx context.Context, s *crdStorage,
	c *api.CustomResourceDefinition, status api.CustomResourceDefinitionStatus) {
	patience, cancel := context.WithTimeout(ctx, time.Minute) // a large CRD on a busy machine
	defer cancel()
	k := d.known[c.Name]
	if k == nil || k.crd != c {
		return
	}
	err := s.replaceStatus(patience, c, k.entry.Load(), &status)
	switch {
	case err == nil:
		d.fenced[c.UID] = true
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
	default:
		d.retryAfter(ctx, c.Name, err, "Cannot write the status of a CRD")
		return
	}
	delete(d.retries, c.Name)
}

// The pauses between the writes of a status that fail.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// fullRetry is the longest pause if etcd has no space left. The attempt costs little, and must
	// follow soon when there is space.
	fullRetry = 4 * time.Second
)

// retry is the next reconciliation of a CRD whose status could not be written.
type retry struct {
	pause time.Duration
	timer *time.Timer
}

// retryAfter logs why a write for a CRD has failed, and reconciles the CRD again. A full etcd is
// logged elsewhere.
func (d *Definitions) retryAfter(ctx context.Context, name string, err error, message string) {
	log := klog.FromContext(ctx)
	if backend.IsFull(err) {
		pause := d.retry(ctx, name, fullRetry)
		log.V(2).Info(message, "name", name, "reason", err.Error(), "retryAfter", pause)
		return
	}
	log.Error(err, message, "name", name, "retryAfter", d.retry(ctx, name, lastRetry))
}

// retry reconciles a CRD again after a pause, which grows with every failure. It returns the
// pause.
func (d *Definitions) retry(ctx context.Context, name string, longest time.Duration) time.Duration {
	next := &retry{pause: firstRetry}
	if last := d.retries[name]; last != nil {
		last.timer.Stop() // an event was faster
		next.pause = min(2*last.pause, longest)
	}
	next.timer = time.AfterFunc(next.pause, func() {
		select {
		case d.again <- name:
		case <-ctx.Done():
		}
	})
	d.retries[name] = next
	return next.pause
}

// sameButRevision reports whether two states of a CRD with the same schemas differ only in
// fields that do not affect serving.
func sameButRevision(a, b *api.CustomResourceDefinition) bool {
	return a == b || a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		slices.Equal(a.Finalizers, b.Finalizers) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Status, b.Status) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
