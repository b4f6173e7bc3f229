package builtin

import (
	"context"
	"errors"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/kinds/services"
	"espalier.dev/server/fence"
	"espalier.dev/store"
)

// serviceStorage allocates the cluster IPs and node ports of services. The stored services are
// the truth: a write reads them, proposes free values, and holds a lock in etcd with the write,
// so that no other write takes them at the same time. Admission webhooks are called in between,
// and may take long: if others have held the lock since, the write looks whether its values are
// still free, and is repeated only if they are not.
type serviceStorage struct {
	*registry.Store
	allocator *services.Allocator
	addresses *addresses
	stored    *store.Store
	prefix    string
	codec     runtime.Codec
	// turn is full while a write of this server holds the lock: writes of one server need not
	// fail because of each other.
	turn chan struct{}
}

// takingKey is the key of the lock of a write in its context.
type takingKey struct{}

// newServiceStorage adds allocation to the registry of services.
func (h *Handler) newServiceStorage(e *endpoint) *serviceStorage {
	s := e.store
	out := &serviceStorage{Store: s, allocator: h.config.Services, addresses: h.addresses(), stored: h.objects,
		prefix: string(e.prefix), codec: e.codec, turn: make(chan struct{}, 1)}
	if out.addresses != nil {
		s.Storage.Storage = &serviceWrites{s.Storage.Storage, out.addresses}
	}
	s.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
		return finish, out.begin(ctx, obj.(*corev1.Service), nil)
	}
	s.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return finish, out.begin(ctx, obj.(*corev1.Service), old.(*corev1.Service))
	}
	s.Decorator = func(obj runtime.Object) {
		switch obj := obj.(type) {
		case *corev1.Service:
			out.allocator.DefaultOnRead(obj)
		case *corev1.ServiceList:
			for i := range obj.Items {
				out.allocator.DefaultOnRead(&obj.Items[i])
			}
		}
	}
	return out
}

// finish is called after a write: there is nothing to release, because nothing was reserved.
func finish(context.Context, bool) {}

// begin allocates what a service needs.
func (s *serviceStorage) begin(ctx context.Context, svc, old *corev1.Service) error {
	lock, ok := ctx.Value(takingKey{}).(*fence.Lock)
	if !ok {
		return errors.New("services are written by their own storage")
	}
	lock.Held = false
	if _, err := s.stored.Sync(ctx); err != nil {
		return err
	}
	snapshot := s.stored.Snapshot()
	stored := s.addresses.stored(snapshot, svc)
	stored.Services = s.all(snapshot)
	takes, err := s.allocator.Begin(svc, old, stored)
	lock.Held, lock.Revision = takes, snapshot.Revision
	lock.Renew = func(ctx context.Context) (int64, error) {
		if _, err := s.stored.Sync(ctx); err != nil {
			return 0, err
		}
		snapshot := s.stored.Snapshot()
		if !services.Free(svc, old, s.all(snapshot)) {
			return 0, fence.ErrLocked
		}
		return snapshot.Revision, nil
	}
	return err
}

// enter waits until no other write of this server holds the lock.
func (s *serviceStorage) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// all returns the stored services.
func (s *serviceStorage) all(snapshot *store.Snapshot) iter.Seq[*corev1.Service] {
	return func(yield func(*corev1.Service) bool) {
		for e := range snapshot.Range(s.prefix, "") {
			svc := &corev1.Service{}
			if e.Err != nil {
				continue // it cannot be read
			}
			if _, _, err := s.codec.Decode(e.Value, nil, svc); err != nil {
				continue
			}
			s.allocator.DefaultOnRead(svc)
			if !yield(svc) {
				return
			}
		}
	}
}

// locked repeats a write until no other write has taken the same values at the same time.
func (s *serviceStorage) locked(ctx context.Context, write func(context.Context) error) error {
	for {
		lock := &fence.Lock{Name: "services", Enter: s.enter}
		err := write(fence.WithLock(context.WithValue(ctx, takingKey{}, lock), lock))
		if !errors.Is(err, fence.ErrLocked) || ctx.Err() != nil {
			return err
		}
	}
}

// Create creates a service.
func (s *serviceStorage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc,
	o *metav1.CreateOptions) (out runtime.Object, err error) {
	err = s.locked(ctx, func(ctx context.Context) error {
		out, err = s.Store.Create(ctx, obj.DeepCopyObject(), validate, o)
		return err
	})
	return out, err
}

// Update updates a service.
func (s *serviceStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (out runtime.Object, created bool, err error) {
	err = s.locked(ctx, func(ctx context.Context) error {
		out, created, err = s.Store.Update(ctx, name, info, create, update, force, o)
		return err
	})
	return out, created, err
}
