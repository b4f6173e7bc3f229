package builtin

import (
	"context"
	"errors"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/builtin/services"
	"espalier.dev/server/fence"
	"espalier.dev/store"
)

// serviceStorage allocates the cluster IPs and node ports of services. The stored services are
// the truth: a write reads them, proposes free values, and holds a lock in etcd with the write,
// so that no other server takes them at the same time. mu does the same for the requests of
// this server, and keeps them from repeating each other.
type serviceStorage struct {
	*registry.Store
	allocator *services.Allocator
	stored    *store.Store
	prefix    string
	codec     runtime.Codec

	mu sync.Mutex
}

// takingKey is the key of the lock of a write in its context.
type takingKey struct{}

// newServiceStorage adds allocation to the registry of services.
func (h *Handler) newServiceStorage(s *registry.Store, codec runtime.Codec, directory string) *serviceStorage {
	out := &serviceStorage{Store: s, allocator: h.config.Services, stored: h.config.Objects, prefix: h.config.Objects.Prefix() + directory + "/", codec: codec}
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
	takes, err := s.allocator.Begin(svc, old, s.all(snapshot))
	lock.Held, lock.Revision = takes, snapshot.Revision
	return err
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

// locked repeats a write until no other server has taken values at the same time.
func (s *serviceStorage) locked(ctx context.Context, write func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		lock := &fence.Lock{Name: "services"}
		err := write(fence.WithLock(context.WithValue(ctx, takingKey{}, lock), lock))
		if !errors.Is(err, fence.ErrLocked) || ctx.Err() != nil {
			return err
		}
	}
}

// Create creates a service.
func (s *serviceStorage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, o *metav1.CreateOptions) (out runtime.Object, err error) {
	err = s.locked(ctx, func(ctx context.Context) error {
		out, err = s.Store.Create(ctx, obj.DeepCopyObject(), validate, o)
		return err
	})
	return out, err
}

// Update updates a service.
func (s *serviceStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc, update rest.ValidateObjectUpdateFunc, force bool, o *metav1.UpdateOptions) (out runtime.Object, created bool, err error) {
	err = s.locked(ctx, func(ctx context.Context) error {
		out, created, err = s.Store.Update(ctx, name, info, create, update, force, o)
		return err
	})
	return out, created, err
}
