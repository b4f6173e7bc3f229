package builtin

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds/kind"
	"espalier.dev/server/builtin/bootstrap"
	"espalier.dev/server/roles/defaults"
	"espalier.dev/store"
)

// Storage returns the storage of a resource, for writes of the server itself. They pass the rules
// of the kind, but no admission.
func (h *Handler) Storage(gvr runtimeschema.GroupVersionResource) (rest.StandardStorage, error) {
	s, _, err := h.Scoped(gvr)
	return s, err
}

// Scoped returns the storage of a resource, and the scope of requests for it, which admission
// needs.
func (h *Handler) Scoped(gvr runtimeschema.GroupVersionResource) (rest.StandardStorage, *handlers.RequestScope, error) {
	r := h.resources[gvr]
	if r == nil {
		return nil, nil, fmt.Errorf("there is no resource %s", gvr)
	}
	e, err := h.endpoint(r)
	if err != nil {
		return nil, nil, err
	}
	return e.storage, &e.scope, nil
}

// endpointOf returns the endpoint of an object.
func (h *Handler) endpointOf(obj kind.Object) (*endpoint, error) {
	types, err := h.types()
	if err != nil {
		return nil, err
	}
	gvks, _, err := types.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	r := h.stored[gvks[0]]
	if r == nil {
		return nil, fmt.Errorf("%s is not stored", gvks[0])
	}
	return h.endpoint(r)
}

// Bootstrap creates the objects that exist on every server from the start, if they are missing,
// and makes the endpoints of the server and the given roles and bindings current. Other servers
// may do so at the same time. Everything that is stored must be in memory.
func (h *Handler) Bootstrap(ctx context.Context, c *bootstrap.Config, roles []defaults.Object) error {
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error { return h.reconcileAll(within, roles, false) })
	group.Go(func() error {
		if err := h.ensureAll(within, bootstrap.Namespaces(), false); err != nil {
			return err
		}
		objects := c.Objects()
		endpoints := c.Endpoints()
		group.Go(func() error {
			if err := h.ensureAll(within, objects, false); err != nil {
				return err
			}
			return h.ensureTrust(within, c.Authentication())
		})
		group.Go(func() error { return h.ensureAll(within, endpoints, true) })
		return h.reconcileAll(within, roles, true)
	})
	if err := group.Wait(); err != nil || len(roles) == 0 {
		return err
	}
	_, err := h.objects.Sync(ctx) // roles and bindings count from now on
	return err
}

// NewRestorer returns a function that creates the objects that exist on every server, if they are
// missing. It changes none that exists: several servers would overwrite the endpoints of each other
// again and again. It is called often, and costs little if nothing was deleted or changed since the
// last call. Calls must not be concurrent.
func (h *Handler) NewRestorer(c *bootstrap.Config) func(context.Context) error {
	// seen has the revisions of the objects that are as they should be, by their keys.
	seen := map[string]int64{}
	restorer := func(objects func() []kind.Object, then func(context.Context) error) func(context.Context) error {
		var keys []string
		for _, obj := range objects() {
			if e, err := h.endpointOf(obj); err == nil {
				keys = append(keys, e.prefix.Key(obj.GetNamespace(), obj.GetName()))
			}
		}
		return func(ctx context.Context) error {
			revisions := map[string]int64{}
			complete := true
			for _, key := range keys {
				if entry := h.objects.Get(key); entry != nil {
					revisions[key] = entry.Revision
				}
				complete = complete && revisions[key] != 0 && revisions[key] == seen[key]
			}
			if complete {
				return nil
			}
			// Some have the time in them, so they are made anew.
			if err := h.ensureAll(ctx, objects(), false); err != nil {
				return err
			}
			if err := then(ctx); err != nil {
				return err
			}
			maps.Copy(seen, revisions)
			return nil
		}
	}
	namespaces := restorer(bootstrap.Namespaces, func(context.Context) error { return nil })
	others := restorer(func() []kind.Object { return slices.Concat(c.Objects(), c.Endpoints()) }, func(ctx context.Context) error {
		return h.ensureTrust(ctx, c.Authentication()) // another server may have restored it
	})
	return func(ctx context.Context) error {
		if err := namespaces(ctx); err != nil {
			return err
		}
		return others(ctx)
	}
}

// EnsureNamespace creates a namespace, unless it exists.
func (h *Handler) EnsureNamespace(ctx context.Context, name string) error {
	return h.ensure(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, false)
}

// ensureAll ensures objects concurrently, so that etcd waits for the disk once.
func (h *Handler) ensureAll(ctx context.Context, objects []kind.Object, update bool) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, obj := range objects {
		group.Go(func() error {
			if err := h.ensure(ctx, obj, update); err != nil {
				return fmt.Errorf("%T %s: %w", obj, obj.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// unreadable reports whether an object is stored, but cannot be read.
func (e *endpoint) unreadable(stored *store.Store, namespace, name string) bool {
	entry := stored.Get(e.prefix.Key(namespace, name))
	if entry == nil {
		return false
	}
	_, err := e.decode(entry)
	return err != nil
}

// keepingStatus returns the storage for creating an object. If it has a status, that is stored,
// too, although no client could do so.
func (e *endpoint) keepingStatus(obj kind.Object) rest.Creater {
	if !e.hasStatus(obj) {
		return e.storage
	}
	strategy := *e.store.CreateStrategy.(*strategy)
	write := e.rules.Main
	write.Prepare = func(obj, old kind.Object) {
		status := reflect.New(kind.Part(obj, "Status").Type()).Elem()
		status.Set(kind.Part(obj, "Status"))
		if e.rules.Main.Prepare != nil {
			e.rules.Main.Prepare(obj, old)
		}
		kind.Part(obj, "Status").Set(status)
	}
	strategy.write = &write
	store := *e.store
	store.CreateStrategy = &strategy
	return &store
}

// ensureStatus sets the status of an object that has none, if it is as wanted apart from that.
func (e *endpoint) ensureStatus(ctx context.Context, wanted, have kind.Object) error {
	if !e.hasStatus(wanted) || e.hasStatus(have) || !equality.Semantic.DeepEqual(kind.Part(wanted,
		"Spec").Interface(), kind.Part(have, "Spec").Interface()) {
		return nil
	}
	_, _, err := e.subresources["status"].patcher.Update(ctx, have.GetName(), rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			changed := old.DeepCopyObject().(kind.Object)
			if !e.hasStatus(changed) {
				kind.Part(changed, "Status").Set(kind.Part(wanted.DeepCopyObject().(kind.Object), "Status"))
				changed.SetManagedFields(append(wanted.GetManagedFields(), changed.GetManagedFields()...))
			}
			return changed, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}

// hasStatus reports whether an object has a status that is not empty.
func (e *endpoint) hasStatus(obj kind.Object) bool {
	return e.rules.Status != nil && !kind.Part(obj, "Status").IsZero()
}

// ensure creates an object if it is missing. With update, it replaces one that is different.
func (h *Handler) ensure(ctx context.Context, obj kind.Object, update bool) error {
	e, err := h.endpointOf(obj)
	if err != nil {
		return err
	}
	storage := e.storage
	e.scope.Defaulter.Default(obj)
	ctx = apirequest.WithNamespace(ctx, obj.GetNamespace())
	have, err := storage.Get(ctx, obj.GetName(), &metav1.GetOptions{})
	if e.unreadable(h.objects, obj.GetNamespace(), obj.GetName()) {
		return nil // the key that it is encrypted with may be missing: it stays as it is
	}
	if apierrors.IsNotFound(err) {
		created := obj.DeepCopyObject().(kind.Object)
		gv := e.scope.Kind.GroupVersion().String()
		if err := bootstrap.SetManager(bootstrap.Manager, created, e.store.New().(kind.Object), gv, e.rules.Main.Reset); err != nil {
			return err
		}
		if _, err = e.keepingStatus(created).Create(ctx, created, rest.ValidateAllObjectFunc,
			&metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			return err
		}
		err = nil
	}
	if err == nil && have != nil {
		err = e.ensureStatus(ctx, obj, have.(kind.Object))
	}
	if err != nil || !update {
		return err
	}
	_, _, err = storage.Update(ctx, obj.GetName(), rest.DefaultUpdatedObjectInfo(nil,
		func(_ context.Context, _, old runtime.Object) (runtime.Object, error) {
			wanted := obj.DeepCopyObject().(kind.Object)
			// Metadata stays as it is: it may have labels of other programs.
			kind.Part(wanted, "ObjectMeta").Set(kind.Part(old.DeepCopyObject().(kind.Object), "ObjectMeta"))
			if equality.Semantic.DeepEqual(wanted, old) {
				return old, nil
			}
			return wanted, nil
		}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
	return err
}
