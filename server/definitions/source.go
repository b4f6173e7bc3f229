package definitions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"espalier.dev/api"
	"espalier.dev/server/fence"
	"espalier.dev/server/resources"
)

// source reads the stored CRDs for the reconciler.
type source interface {
	list(ctx context.Context) (*api.CustomResourceDefinitionList, error)
	// watch returns the changes after a resource version.
	watch(ctx context.Context, after string) (watch.Interface, error)
	// alarm receives an element when the source becomes unusable.
	alarm() <-chan struct{}
}

// errUndecodable is the reason why CRDs cannot be read through the watch cache.
var errUndecodable = errors.New("a stored CRD cannot be decoded")

// cachedSource reads through the storage that serves requests and shares the CRDs with its
// watch cache. A CRD that cannot be decoded makes it unusable.
type cachedSource struct {
	store       *crdStorage
	definitions *Definitions
}

// cachePoll is the interval of checks whether the watch cache is filled.
const cachePoll = time.Millisecond

func (c *cachedSource) list(ctx context.Context) (*api.CustomResourceDefinitionList, error) {
	// Without its cache, the storage would read and decode all CRDs again.
	for c.store.ReadinessCheck() != nil {
		if c.definitions.undecodable.Load() {
			return nil, errUndecodable
		}
		select {
		case <-time.After(cachePoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	// The CRD that could not be decoded is gone. If it is not, it is detected again from here.
	c.definitions.undecodable.Store(false)
	select {
	case <-c.definitions.alarm:
	default:
	}
	list, err := c.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	items, ok := list.(*api.CustomResourceDefinitionList)
	if !ok {
		return nil, fmt.Errorf("expected a list of CRDs, got %T", list)
	}
	return items, nil
}

func (c *cachedSource) watch(ctx context.Context, after string) (watch.Interface, error) {
	return c.store.Watch(ctx, &metainternalversion.ListOptions{ResourceVersion: after, AllowWatchBookmarks: true})
}

// alarm is raised before the cache ends its watches, because the cache retries for half a minute.
func (c *cachedSource) alarm() <-chan struct{} { return c.definitions.alarm }

// storedSource reads CRDs directly from etcd. CRDs that cannot be decoded have only a name,
// and are unreadable.
type storedSource struct {
	definitions *Definitions
	kind        resources.Kind
}

func newStoredSource(d *Definitions) (*storedSource, error) {
	kind, err := d.builtin.Kinds.Kind(d.builtin.Definition.Version(api.Version))
	return &storedSource{definitions: d, kind: kind}, err
}

func (s *storedSource) list(ctx context.Context) (*api.CustomResourceDefinitionList, error) {
	items := &api.CustomResourceDefinitionList{}
	revision, err := s.definitions.config.Fences.ListDefinitions(ctx, func(one fence.Stored) {
		// The cache decodes them repeatedly too without making progress, so progress is counted here.
		s.definitions.reconciled.Add(1)
		items.Items = append(items.Items, *s.decode(one))
	})
	items.ResourceVersion = strconv.FormatInt(revision, 10)
	return items, err
}

func (s *storedSource) decode(one fence.Stored) *api.CustomResourceDefinition {
	c := &api.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: one.Name}}
	if !one.Deleted {
		if obj, err := s.kind.DecodeStored(one.Value); err == nil {
			if decoded, err := hub(obj); err == nil {
				c = decoded
			}
		}
	}
	c.ResourceVersion = strconv.FormatInt(one.Revision, 10)
	return c
}

func (s *storedSource) watch(ctx context.Context, after string) (watch.Interface, error) {
	from, err := strconv.ParseInt(after, 10, 64)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &storedWatch{cancel: cancel, events: make(chan watch.Event)}
	go w.run(ctx, s, from)
	return w, nil
}

// alarm is never raised: CRDs that cannot be decoded do not block the others.
func (s *storedSource) alarm() <-chan struct{} { return nil }

// storedWatch is a watch of a storedSource. It runs until Stop or until etcd fails.
type storedWatch struct {
	cancel context.CancelFunc
	events chan watch.Event
}

func (w *storedWatch) run(ctx context.Context, s *storedSource, after int64) {
	defer close(w.events)
	send := func(e watch.Event) {
		select {
		case w.events <- e:
		case <-ctx.Done():
		}
	}
	err := s.definitions.config.Fences.WatchDefinitions(ctx, after, func(one fence.Stored) {
		typ := watch.Modified
		if one.Deleted {
			typ = watch.Deleted
		}
		send(watch.Event{Type: typ, Object: s.decode(one)})
	})
	send(watch.Event{Type: watch.Error, Object: &apierrors.NewInternalError(err).ErrStatus})
}

func (w *storedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop ends the watch and returns when it has ended.
func (w *storedWatch) Stop() {
	w.cancel()
	for range w.events {
		// run closes the channel when it ends.
	}
}
