package fairness

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/flowcontrol"
	flowinformers "k8s.io/client-go/informers/flowcontrol/v1"
	listers "k8s.io/client-go/listers/flowcontrol/v1"
	"k8s.io/client-go/tools/cache"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/keys"
	"espalier.dev/store"
)

// The resources that configure the queues.
var (
	schemas = v1.SchemeGroupVersion.WithResource("flowschemas")
	levels  = v1.SchemeGroupVersion.WithResource("prioritylevelconfigurations")
)

// k8s.io/apiserver wants informers. The types in this file are as much of them as it uses, and read the
// store: an informer with a client would decode each object twice, and need a connection. A call of any
// other method of the embedded interfaces, which are nil, would panic.

// factory returns the informers of a Control.
type factory struct {
	informers.SharedInformerFactory
	c *Control
}

func (f factory) Flowcontrol() flowcontrol.Interface { return group{c: f.c} }

type group struct {
	flowcontrol.Interface
	c *Control
}

func (g group) V1() flowinformers.Interface { return version{c: g.c} }

type version struct {
	flowinformers.Interface
	c *Control
}

func (v version) FlowSchemas() flowinformers.TypedFlowSchemaInformer { return schemaInformer{c: v.c} }
func (v version) PriorityLevelConfigurations() flowinformers.TypedPriorityLevelConfigurationInformer {
	return levelInformer{c: v.c}
}

type schemaInformer struct {
	flowinformers.TypedFlowSchemaInformer
	c *Control
}

func (i schemaInformer) Informer() cache.SharedIndexInformer { return i.c.schemas }
func (i schemaInformer) Lister() listers.FlowSchemaLister {
	return listers.NewFlowSchemaLister(i.c.schemas.objects)
}

type levelInformer struct {
	flowinformers.TypedPriorityLevelConfigurationInformer
	c *Control
}

func (i levelInformer) Informer() cache.SharedIndexInformer { return i.c.levels }
func (i levelInformer) Lister() listers.PriorityLevelConfigurationLister {
	return listers.NewPriorityLevelConfigurationLister(i.c.levels.objects)
}

// informer has the stored objects of a resource. Only the goroutine of follow changes them.
type informer struct {
	cache.SharedIndexInformer
	resource schema.GroupResource
	prefix   keys.Prefix
	reader   Reader
	objects  cache.Indexer
	handlers []cache.ResourceEventHandler
	// changed is called for each object that was created or changed. It may be nil.
	changed func(kind.Object)
	synced  atomic.Bool
}

func newInformer(c Config, of schema.GroupVersionResource) *informer {
	return &informer{
		resource: of.GroupResource(), prefix: keys.Root(c.Store.Prefix()).Builtin(of.GroupResource()), reader: c.Reader,
		objects: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
	}
}

// HasSynced reports whether all stored objects are known.
func (i *informer) HasSynced() bool { return i.synced.Load() }

// AddEventHandler adds a handler. It must be called before the informer knows an object.
func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	return registered{i: i}, nil
}

type registered struct {
	cache.ResourceEventHandlerRegistration
	i *informer
}

func (r registered) HasSynced() bool { return r.i.HasSynced() }

// reset makes the objects those of a snapshot.
func (i *informer) reset(snap *store.Snapshot) {
	stored := map[string]bool{}
	for entry := range snap.Range(string(i.prefix), "") {
		stored[keys.Name(entry.Key)] = true
		i.put(entry)
	}
	for _, name := range i.objects.ListKeys() {
		if !stored[name] {
			i.remove(name)
		}
	}
	i.synced.Store(true)
}

// put takes in an object. One that cannot be decoded, for example because the key that it is encrypted
// with is missing, stays as it was.
func (i *informer) put(entry *store.Entry) {
	decoded, err := i.reader.Decode(i.resource, entry)
	obj, ok := decoded.(kind.Object)
	if err != nil || !ok {
		return
	}
	old, exists, _ := i.objects.GetByKey(obj.GetName())
	_ = i.objects.Update(obj) // fails for objects without metadata
	if i.changed != nil {
		i.changed(obj)
	}
	for _, h := range i.handlers {
		if exists {
			h.OnUpdate(old, obj)
		} else {
			h.OnAdd(obj, !i.synced.Load())
		}
	}
}

func (i *informer) remove(name string) {
	old, exists, _ := i.objects.GetByKey(name)
	if !exists {
		return
	}
	_ = i.objects.Delete(old) // as above
	for _, h := range i.handlers {
		h.OnDelete(old)
	}
}

// take takes in the changes that a watcher has received.
func (i *informer) take(w *store.Watcher) error {
	for {
		events, _, err := w.Poll()
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if e.Entry != nil {
				i.put(e.Entry)
			} else {
				i.remove(keys.Name(e.Old.Key))
			}
		}
	}
}

// follow keeps the objects of the informers up to date until ctx or the store ends.
func (c *Control) follow(ctx context.Context, synced func()) error {
	for {
		err := c.watch(ctx, synced)
		if expired := (*store.ExpiredError)(nil); !errors.Is(err, store.ErrSlow) && !errors.As(err, &expired) {
			return err
		}
	}
}

func (c *Control) watch(ctx context.Context, synced func()) error {
	snap := c.config.Store.Snapshot()
	ofSchemas, err := c.config.Store.Watch(string(c.schemas.prefix), snap.Revision)
	if err != nil {
		return err
	}
	defer ofSchemas.Stop()
	ofLevels, err := c.config.Store.Watch(string(c.levels.prefix), snap.Revision)
	if err != nil {
		return err
	}
	defer ofLevels.Stop()
	// A flow schema should not be seen before its priority level.
	c.levels.reset(snap)
	c.schemas.reset(snap)
	snap = nil // it keeps old entries in memory
	synced()
	for {
		if err := c.levels.take(ofLevels); err != nil {
			return err
		}
		if err := c.schemas.take(ofSchemas); err != nil {
			return err
		}
		select {
		case <-ofSchemas.Ready():
		case <-ofLevels.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
