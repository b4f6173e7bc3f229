package definitions

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	"espalier.dev/api"
	"espalier.dev/crd"
	"espalier.dev/server/fence"
	"espalier.dev/server/resources"
	"espalier.dev/store"
)

// Config configures Definitions.
type Config struct {
	// Options are the options for compiling and validating CRDs.
	Options crd.Options
	// Warnings returns additional warnings for the writer of a valid CRD. Nil means none.
	Warnings func(context.Context, *api.CustomResourceDefinition) []string
	// Storage returns the storage options of CRDs.
	Storage generic.RESTOptionsGetter
	// Fences prevent objects from outliving their CRD.
	Fences *fence.Fences
	// Store has the stored CRDs in memory.
	Store *store.Store
	// Peers are the other servers on the same etcd. Nil means that there cannot be any.
	Peers Peers
}

// Definitions serves and reconciles the stored CRDs.
type Definitions struct {
	config   Config
	builtin  *resources.Builtin
	catalog  atomic.Pointer[crd.Catalog]
	progress *progress
	ready    chan struct{}
	// decoded counts the definitions that were read from the storage, reconciled those that
	// were taken in.
	decoded, reconciled atomic.Uint64
	// undecodable says that a stored CRD could not be decoded, and alarm has an element when
	// that was found out.
	undecodable atomic.Bool
	alarm       chan struct{}
	// leftOut has the stored CRDs that cannot be read, by name.
	leftOut sync.Map

	mu          sync.Mutex
	subscribers []func(*crd.Catalog)

	// The following fields belong to the reconciling goroutine and the cleanups.
	handler  *resources.Handler
	known    map[string]*api.CustomResourceDefinition
	fenced   map[types.UID]bool // those that are known to have a fence
	again    chan string        // names of those to reconcile once more
	retries  map[string]*retry  // of writes of the status that have failed, by name
	holding  map[string]*held   // statuses that are not written yet, by name
	released chan *held         // those of holding that can be written
	cleaning sync.Map           // of UIDs
	cleanups sync.WaitGroup
}

var _ resources.Source = &Definitions{}

// New returns Definitions with an empty catalog; Run fills it.
func New(c Config) (*Definitions, error) {
	def, err := definition(c.Options.Semantics)
	if err != nil {
		return nil, fmt.Errorf("the definition of definitions: %w", err)
	}
	if c.Warnings == nil {
		c.Warnings = func(context.Context, *api.CustomResourceDefinition) []string { return nil }
	}
	// What is stored is never changed: definitions can share it with the cache.
	c.Options.Shared = true
	d := &Definitions{config: c, progress: newProgress(), ready: make(chan struct{}), again: make(chan string), holding: map[string]*held{}, released: make(chan *held), alarm: make(chan struct{}, 1), known: map[string]*api.CustomResourceDefinition{}, fenced: map[types.UID]bool{}, retries: map[string]*retry{}}
	d.catalog.Store(crd.NewCatalog())
	d.builtin = &resources.Builtin{
		Definition: def,
		Storage:    &decrypting{RESTOptionsGetter: c.Storage, failed: d.foundUndecodable},
		Kinds:      &kinds{options: c.Options, warnings: c.Warnings, decoded: &d.decoded, undecodable: d.foundUndecodable},
		Describe:   describe,
		WrapSubresource: func(_ string, s rest.Patcher) rest.Patcher {
			return &subresource{Patcher: s, definitions: d}
		},
		Wrap: func(s *registry.Store) rest.StandardStorage { return &crdStorage{Store: s, definitions: d} },
	}
	return d, nil
}

// Builtin returns the resource customresourcedefinitions.
func (d *Definitions) Builtin() *resources.Builtin { return d.builtin }

// Catalog returns the current catalog.
func (d *Definitions) Catalog() *crd.Catalog { return d.catalog.Load() }

// Ready returns a channel that is closed when all CRDs that were stored at the start are in
// the catalog.
func (d *Definitions) Ready() <-chan struct{} { return d.ready }

// Decoded returns the number of CRDs that were decoded from the storage.
func (d *Definitions) Decoded() uint64 { return d.decoded.Load() }

// Progress returns a number that grows with every CRD that is decoded or reconciled.
func (d *Definitions) Progress() uint64 {
	if d.undecodable.Load() {
		// Decoding all CRDs repeatedly is not progress.
		return d.reconciled.Load()
	}
	return d.decoded.Load() + d.reconciled.Load()
}

// foundUndecodable notes that a stored CRD cannot be decoded.
func (d *Definitions) foundUndecodable() {
	d.undecodable.Store(true)
	select {
	case d.alarm <- struct{}{}:
	default: // it is noted already
	}
}

// Subscribe has f called with every new catalog, one after the other.
func (d *Definitions) Subscribe(f func(*crd.Catalog)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subscribers = append(d.subscribers, f)
}

func (d *Definitions) publish(c *crd.Catalog) {
	d.catalog.Store(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.subscribers {
		f(c)
	}
}

// refreshTime bounds how long somebody who asks for what does not exist waits for the storage
// to say so.
const refreshTime = 2 * time.Second

// Refresh asks the storage about a definition, and waits until the catalog is as new as
// the answer. It returns an error if the definition is stored but cannot be read: its objects
// exist.
func (d *Definitions) Refresh(ctx context.Context, name string) error {
	s, release, err := d.storage()
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	obj, err := s.Get(ctx, name, &metav1.GetOptions{})
	if err == nil {
		d.settle(ctx, obj)
	}
	if _, ok := d.leftOut.Load(name); ok {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the stored CRD %s cannot be read: repair or delete the value of %s in etcd", name, d.config.Fences.DefinitionKey(name)))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("cannot find out whether the CRD %s exists: %v", name, err))
	}
	return nil
}

func (d *Definitions) storage() (*crdStorage, func(), error) {
	if d.handler == nil {
		return nil, nil, errors.New("definitions are not running")
	}
	s, release, err := d.handler.Storage(d.builtin.Definition, "v1")
	if err != nil {
		return nil, nil, err
	}
	return s.(*crdStorage), release, nil
}

// Attach sets the handler that serves the resources. It must be called before Run.
func (d *Definitions) Attach(h *resources.Handler) {
	d.handler = h
	h.Install(d.builtin)
	d.Subscribe(h.Changed)
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

// follow follows the stored CRDs through the watch cache, or, if there are some that cannot be
// decoded, as they are in etcd: the cache has all or none of them.
func (d *Definitions) follow(ctx context.Context) error {
	s, release, err := d.storage()
	if err != nil {
		return err
	}
	defer release()
	err = d.followSource(ctx, s, &cachedSource{store: s, definitions: d})
	if err == nil || ctx.Err() != nil || !d.undecodable.Load() {
		return err
	}
	klog.FromContext(ctx).Info("The CRDs that can be read are followed without the watch cache", "reason", err.Error())
	stored, err := newStoredSource(d)
	if err != nil {
		return err
	}
	return d.followSource(ctx, s, stored)
}

// followSource lists the definitions, then watches them. It returns when the watch fails.
func (d *Definitions) followSource(ctx context.Context, s *crdStorage, from source) error {
	items, err := from.list(ctx)
	if err != nil {
		return fmt.Errorf("listing definitions: %w", err)
	}
	if err := d.adoptAll(ctx, items.Items); err != nil {
		return err
	}
	d.replace(ctx, s, items)
	d.reach(revision(items.ResourceVersion))
	select {
	case <-d.ready:
	default:
		close(d.ready)
	}
	at := items.ResourceVersion
	for ctx.Err() == nil {
		w, err := from.watch(ctx, at)
		if err != nil {
			return fmt.Errorf("watching definitions: %w", err)
		}
		at, err = d.drain(ctx, s, w, from.alarm(), at)
		w.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// drain takes in the events of a watch until it ends or there is an alarm, and returns the
// revision that it got to.
func (d *Definitions) drain(ctx context.Context, s *crdStorage, w watch.Interface, alarm <-chan struct{}, at string) (string, error) {
	for {
		var e watch.Event
		select {
		case name := <-d.again:
			d.reconcile(ctx, s, name)
			continue
		case h := <-d.released:
			d.release(ctx, s, h)
			continue
		case <-alarm:
			return at, errUndecodable
		case next, ok := <-w.ResultChan():
			if !ok {
				return at, nil
			}
			e = next
		}
		if e.Type == watch.Error {
			return at, apierrors.FromObject(e.Object)
		}
		obj := e.Object
		if cached, ok := obj.(runtime.CacheableObject); ok {
			obj = cached.GetObject()
		}
		c, ok := obj.(*api.CustomResourceDefinition)
		if !ok {
			return at, fmt.Errorf("expected a CRD from the watch, got %T", obj)
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			if unreadable(c) {
				d.leaveOut(ctx, c)
				d.drop(ctx, s, c.Name)
				break
			}
			d.known[c.Name] = c
			d.reconcile(ctx, s, c.Name)
			d.leftOut.Delete(c.Name)
		case watch.Deleted:
			d.drop(ctx, s, c.Name)
			d.leftOut.Delete(c.Name)
		}
		at = c.ResourceVersion
		d.reach(revision(at))
	}
}

// leaveOut notes that a stored CRD cannot be read. Its objects stay as they are.
func (d *Definitions) leaveOut(ctx context.Context, c *api.CustomResourceDefinition) {
	d.leftOut.Store(c.Name, c)
	klog.FromContext(ctx).Error(nil, "A stored CRD cannot be read and is not served: repair or delete it", "name", c.Name, "key", d.config.Fences.DefinitionKey(c.Name))
}

// undecodableNames returns the sorted names of the stored CRDs that cannot be decoded.
func (d *Definitions) undecodableNames() (names []string) {
	d.leftOut.Range(func(name, c any) bool {
		if undecodable(c.(*api.CustomResourceDefinition)) {
			names = append(names, name.(string))
		}
		return true
	})
	slices.Sort(names)
	return names
}

// replace makes a list of definitions the known ones.
func (d *Definitions) replace(ctx context.Context, s *crdStorage, list *api.CustomResourceDefinitionList) {
	listed := make(map[string]*api.CustomResourceDefinition, len(list.Items))
	defs := make([]*crd.Definition, 0, len(list.Items))
	corrupt := map[string]bool{}
	for i := range list.Items {
		c := &list.Items[i]
		d.reconciled.Add(1)
		if unreadable(c) {
			d.leaveOut(ctx, c)
			corrupt[c.Name] = true
			continue
		}
		listed[c.Name] = c
		if def, err := crd.New(c, d.config.Options); err == nil {
			defs = append(defs, def)
		}
	}
	d.known = listed
	d.publish(crd.NewCatalog(defs...))
	d.leftOut.Range(func(name, _ any) bool {
		if !corrupt[name.(string)] {
			d.leftOut.Delete(name)
		}
		return true
	})
	for name := range listed {
		d.reconcile(ctx, s, name)
	}
}

// drop removes a CRD from the catalog. Other CRDs may have waited for its names.
func (d *Definitions) drop(ctx context.Context, s *crdStorage, name string) {
	gone := d.known[name]
	delete(d.known, name)
	d.publish(d.Catalog().Without(name))
	if gone == nil {
		return
	}
	delete(d.fenced, gone.UID)
	delete(d.retries, name)
	delete(d.holding, name)
	for _, peer := range d.Catalog().Waiting(gone.Spec.Group) {
		d.reconcile(ctx, s, peer.Name())
	}
}

// reconcile computes the status of a CRD, updates the catalog, and then writes the status: a
// resource is served before clients see that it is established.
func (d *Definitions) reconcile(ctx context.Context, s *crdStorage, name string) {
	logger := klog.FromContext(ctx).WithValues("name", name)
	c := d.known[name]
	if c == nil {
		return
	}
	d.reconciled.Add(1)
	current := d.Catalog().Get(name)
	if current == nil || !sameButRevision(current.CRD(), c) {
		var err error
		if current, err = crd.New(c, d.config.Options); err != nil {
			logger.Error(err, "A CRD is not served")
			d.publish(d.Catalog().Without(name))
			d.cleanUp(ctx, c)
			return
		}
	}
	status := crd.Status(c.Status, current, d.Catalog(), metav1.Now())
	changed := !reflect.DeepEqual(status, c.Status)
	if !changed && c.DeletionTimestamp == nil && !d.fenced[c.UID] {
		// Another server wrote the CRD. A write of the status by this server includes the
		// fence.
		d.adopt(ctx, c)
	}
	if changed {
		next := *c
		next.Status = status
		def, err := crd.New(&next, d.config.Options)
		if err != nil {
			logger.Error(err, "A CRD is not served")
			return
		}
		current = def
	}
	if d.Catalog().Get(name) != current {
		d.publish(d.Catalog().With(current))
	}
	if changed && !d.hold(ctx, c, status) {
		d.writeStatus(ctx, s, c, status)
	}
	d.cleanUp(ctx, c)
}

// writeStatus stores a status that was computed from c. If the CRD has changed since, its
// event causes another reconciliation.
func (d *Definitions) writeStatus(ctx context.Context, s *crdStorage, c *api.CustomResourceDefinition, status api.CustomResourceDefinitionStatus) {
	patience, cancel := context.WithTimeout(ctx, time.Minute) // a large CRD on a busy machine
	defer cancel()
	out, err := s.rewrite(patience, c.Name, only(c.UID, c.ResourceVersion), false, func(stored *api.CustomResourceDefinition, _ runtime.Object) error {
		stored.Status = status
		return nil
	})
	switch {
	case err == nil:
		d.fenced[c.UID] = true
		if written, err := hub(out); err == nil {
			d.known[c.Name] = written
		}
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), ctx.Err() != nil:
	default:
		pause := d.retry(ctx, c.Name)
		klog.FromContext(ctx).Error(err, "Cannot write the status of a CRD", "name", c.Name, "retryAfter", pause)
		return
	}
	delete(d.retries, c.Name)
}

// The pauses between the writes of a status that fail.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
)

// retry is the next reconciliation of a CRD whose status could not be written.
type retry struct {
	pause time.Duration
	timer *time.Timer
}

// retry reconciles a CRD again after a pause, which grows with every failure. It returns the
// pause.
func (d *Definitions) retry(ctx context.Context, name string) time.Duration {
	next := &retry{pause: firstRetry}
	if last := d.retries[name]; last != nil {
		last.timer.Stop() // an event was faster
		next.pause = min(2*last.pause, lastRetry)
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

// sameButRevision reports whether two states of a CRD differ only in fields that do not
// affect serving.
func sameButRevision(a, b *api.CustomResourceDefinition) bool {
	return a.UID == b.UID && a.Generation == b.Generation && (a.DeletionTimestamp == nil) == (b.DeletionTimestamp == nil) &&
		reflect.DeepEqual(a.Finalizers, b.Finalizers) && reflect.DeepEqual(a.Annotations, b.Annotations) &&
		reflect.DeepEqual(a.Status, b.Status) && reflect.DeepEqual(a.Spec, b.Spec)
}
