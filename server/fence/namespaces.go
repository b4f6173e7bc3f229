package fence

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/registry/generic"

	"espalier.dev/server/keys"
)

// namespaceFence returns the key of the fence of a namespace.
func (f *Fences) namespaceFence(name string) string { return f.root.NamespaceFences() + name }

// Namespaces returns the storage of namespaces. Like that of CRDs, it writes the fence of a
// namespace with the namespace, and deletes both in one transaction.
func (f *Fences) Namespaces(base generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return &options{RESTOptionsGetter: base, fences: f, guard: &namespaces{Interface: f.etcd(), fences: f}}
}

// Builtin returns the storage of the objects of a built-in resource. If it is namespaced, it
// checks the fences of namespaces.
func (f *Fences) Builtin(base generic.RESTOptionsGetter, gr runtimeschema.GroupResource, namespaced bool) generic.RESTOptionsGetter {
	o := &options{RESTOptionsGetter: base, fences: f}
	if namespaced {
		o.guard = &contents{Interface: f.etcd(), fences: f, resource: gr, prefix: f.root.Builtin(gr)}
	}
	return o
}

// namespaces writes namespaces to etcd together with their fences.
type namespaces struct {
	kubernetes.Interface
	fences *Fences
}

// OptimisticPut writes a namespace, and the fence that its state requires.
func (n *namespaces) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64,
	opts kubernetes.PutOptions) (resp kubernetes.PutResponse, err error) {
	ns, err := n.fences.namespace(ctx, key, value)
	if err != nil {
		return kubernetes.PutResponse{}, fmt.Errorf("write the namespace %s: %w", keys.Name(key), err)
	}
	txn, err := n.fences.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision)).
		Then(clientv3.OpPut(key, string(value)),
			clientv3.OpPut(n.fences.namespaceFence(keys.Name(key)), state(ns.DeletionTimestamp != nil))).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return kubernetes.PutResponse{}, err
	}
	resp.Succeeded, resp.Revision = txn.Succeeded, txn.Header.Revision
	if !txn.Succeeded {
		resp.KV = first(txn.Responses[0])
	}
	return resp, nil
}

// OptimisticDelete deletes a namespace and its fence.
func (n *namespaces) OptimisticDelete(ctx context.Context, key string, expectedRevision int64,
	_ kubernetes.DeleteOptions) (resp kubernetes.DeleteResponse, err error) {
	txn, err := n.fences.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision)).
		Then(clientv3.OpDelete(key), clientv3.OpDelete(n.fences.namespaceFence(keys.Name(key)))).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return kubernetes.DeleteResponse{}, err
	}
	resp.Succeeded, resp.Revision = txn.Succeeded, txn.Header.Revision
	if !txn.Succeeded {
		resp.KV = first(txn.Responses[0])
	}
	return resp, nil
}

// namespace decodes a stored namespace.
func (f *Fences) namespace(ctx context.Context, key string, data []byte) (*corev1.Namespace, error) {
	value, err := f.decrypt(ctx, key, data)
	if err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{}
	if _, _, err := f.namespaceDecoder().Decode(value, nil, ns); err != nil {
		return nil, err
	}
	return ns, nil
}

// newNamespaceDecoder returns a decoder of namespaces in any form.
func newNamespaceDecoder() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Namespace{})
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}

// InNamespace returns the condition of a transaction that creates objects in a namespace: the
// namespace exists and is not being deleted.
func (f *Fences) InNamespace(name string) clientv3.Cmp {
	return clientv3.Compare(clientv3.Value(f.namespaceFence(name)), "=", active)
}

// AdoptNamespaces makes the fences of all namespaces agree with them, in case a program without
// fences has written them. It must have returned before objects are written.
func (f *Fences) AdoptNamespaces(ctx context.Context) error {
	namespaces := f.root.Namespaces()
	stored, err := f.client.Get(ctx, string(namespaces), clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("list the namespaces: %w", err)
	}
	fences, err := f.client.Get(ctx, f.root.NamespaceFences(), clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("list the fences of namespaces: %w", err)
	}
	states := map[string]*mvccpb.KeyValue{}
	for _, kv := range fences.Kvs {
		states[string(kv.Key)] = kv
	}
	for _, kv := range stored.Kvs {
		ns, err := f.namespace(ctx, string(kv.Key), kv.Value)
		if err != nil {
			continue // it cannot be read, so nothing can be created in it
		}
		key := f.namespaceFence(keys.Name(string(kv.Key)))
		want := state(ns.DeletionTimestamp != nil)
		have := states[key]
		delete(states, key)
		if have != nil && string(have.Value) == want {
			continue
		}
		// If the namespace has changed, another server has written it, and its fence.
		if _, err := f.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=",
			kv.ModRevision)).Then(clientv3.OpPut(key, want)).Commit(); err != nil {
			return fmt.Errorf("give the namespace %s a fence: %w", ns.Name, err)
		}
	}
	for key, kv := range states {
		// The namespace was deleted by a program without fences.
		name := keys.Name(key)
		if _, err := f.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(namespaces.Key("", name)), "=", 0),
				clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)).
			Then(clientv3.OpDelete(key)).Commit(); err != nil {
			return fmt.Errorf("remove the fence of the namespace %s: %w", name, err)
		}
	}
	return nil
}

// contents writes the objects of a built-in resource to etcd if the fences of their namespaces
// allow it, and the lock of the request.
type contents struct {
	kubernetes.Interface
	fences   *Fences
	resource runtimeschema.GroupResource
	prefix   keys.Prefix
}

// Lock makes a write depend on what was read before: it succeeds only if no other write has held
// the lock of that name after a revision.
type Lock struct {
	Name string
	// Held is set if the next write holds the lock, and Revision to that of what was read.
	Held     bool
	Revision int64
	// Enter waits until no other write of this server is about to hold the lock. The returned
	// function ends the turn of this write.
	Enter func(context.Context) (leave func(), err error)
	// Renew is called if another write has held the lock after Revision. It returns a newer
	// revision at which what was read still holds, or ErrLocked if it does not.
	Renew func(context.Context) (revision int64, err error)
}

// ErrLocked is the error of a write because another one has held the lock since, or has changed what
// is attached to it.
var ErrLocked = errors.New("another write has held the lock")

type lockKey struct{}

// WithLock returns a context for writes of built-in resources that hold a lock.
func WithLock(ctx context.Context, l *Lock) context.Context {
	return context.WithValue(ctx, lockKey{}, l)
}

// OptimisticPut creates or updates an object. Updates are possible in a namespace that is being
// deleted, so that finalizers can be removed.
func (c *contents) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64,
	opts kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	lock, _ := ctx.Value(lockKey{}).(*Lock)
	held := lock != nil && lock.Held
	if held {
		leave, err := lock.Enter(ctx)
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		defer leave()
	}
	n := c.fences.in(c.prefix, key)
	for {
		attached, err := c.fences.attached(ctx)
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision)}
		puts := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(opts.LeaseID))}
		reads := []clientv3.Op{clientv3.OpGet(key), clientv3.OpGet(n.fence)}
		if expectedRevision == 0 {
			conditions = append(conditions, n.condition())
		}
		if held {
			name := c.fences.root.Lock(lock.Name)
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(name), "<", lock.Revision+1))
			puts = append(puts, clientv3.OpPut(name, ""))
			reads = append(reads, clientv3.OpGet(name, clientv3.WithKeysOnly()))
		}
		conditions, puts, reads = append(conditions, attached.conditions...), append(puts, attached.writes...), append(reads, attached.reads...)
		txn, err := c.fences.client.Txn(ctx).If(conditions...).Then(puts...).Else(reads...).Commit()
		if err != nil {
			return kubernetes.PutResponse{}, err
		}
		resp := kubernetes.PutResponse{Succeeded: txn.Succeeded, Revision: txn.Header.Revision}
		if txn.Succeeded {
			return resp, nil
		}
		again := false
		if expectedRevision == 0 {
			if again, err = n.rejected(first(txn.Responses[1]), c.resource, keys.Name(key)); err != nil {
				return kubernetes.PutResponse{}, err
			}
		}
		resp.KV = first(txn.Responses[0])
		if held && resp.KV.GetModRevision() == expectedRevision {
			if l := first(txn.Responses[2]); l.GetModRevision() > lock.Revision {
				if lock.Revision, err = lock.Renew(ctx); err != nil {
					return kubernetes.PutResponse{}, err
				}
				continue
			}
		}
		if resp.KV.GetModRevision() == expectedRevision && attached.outdated(txn.Responses) {
			return kubernetes.PutResponse{}, ErrLocked
		}
		if resp.KV != nil || !again {
			return resp, nil
		}
	}
}

// OptimisticDelete deletes an object.
func (c *contents) OptimisticDelete(ctx context.Context, key string, expectedRevision int64,
	_ kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	for {
		attached, err := c.fences.attached(ctx)
		if err != nil {
			return kubernetes.DeleteResponse{}, err
		}
		txn, err := c.fences.client.Txn(ctx).
			If(append(attached.conditions, clientv3.Compare(clientv3.ModRevision(key), "=", expectedRevision))...).
			Then(append([]clientv3.Op{clientv3.OpDelete(key)}, attached.writes...)...).
			Else(append([]clientv3.Op{clientv3.OpGet(key)}, attached.reads...)...).
			Commit()
		if err != nil {
			return kubernetes.DeleteResponse{}, err
		}
		resp := kubernetes.DeleteResponse{Succeeded: txn.Succeeded, Revision: txn.Header.Revision}
		if txn.Succeeded {
			return resp, nil
		}
		if resp.KV = first(txn.Responses[0]); resp.KV.GetModRevision() != expectedRevision || !attached.outdated(txn.Responses) {
			return resp, nil
		}
		if _, err := c.fences.store.Sync(ctx); err != nil {
			return kubernetes.DeleteResponse{}, err
		}
	}
}

// within is the namespace of an object that is created.
type within struct {
	name, fence string
	// lifecycle requires that the namespace exists.
	lifecycle bool
	// absent expects that the namespace does not exist.
	absent bool
}

// in returns the namespace of an object, by its key.
func (f *Fences) in(prefix keys.Prefix, key string) within {
	name, _, _ := prefix.Cut(key)
	n := within{name: name, fence: f.namespaceFence(name), lifecycle: f.lifecycle}
	if !n.lifecycle && f.store != nil {
		n.absent = f.store.Get(f.root.Namespaces().Key("", name)) == nil
	}
	return n
}

// condition returns what must hold for the fence of the namespace.
func (n *within) condition() clientv3.Cmp {
	if n.absent {
		return clientv3.Compare(clientv3.CreateRevision(n.fence), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(n.fence), "=", active)
}

// rejected judges the fence that a failed transaction has found. It returns an error if the
// fence is the reason, and reports whether the transaction should be repeated because the
// expectation of the fence was wrong.
func (n *within) rejected(fence *mvccpb.KeyValue, gr runtimeschema.GroupResource, object string) (again bool, err error) {
	switch {
	case fence == nil && n.absent, fence != nil && string(fence.Value) == active && !n.absent:
		return false, nil
	case fence == nil && n.lifecycle:
		return false, apierrors.NewNotFound(corev1.Resource("namespaces"), n.name)
	case fence != nil && string(fence.Value) != active:
		return false, NamespaceTerminating(gr, n.name, object)
	}
	n.absent = fence == nil
	return true, nil
}

// NamespaceTerminating returns the error of a create in a namespace that is being deleted.
func NamespaceTerminating(gr runtimeschema.GroupResource, namespace, object string) error {
	err := apierrors.NewForbidden(gr, object, errors.New("unable to create new content in namespace "+namespace+
		" because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", namespace),
		Field: "metadata.namespace",
	})
	return err
}
