package namespaces

import (
	"bytes"
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Keeper keeps an object in every active namespace: it creates the object if it is missing, and
// corrects it.
type Keeper struct {
	objects  *objects.Objects
	follower *follow.Follower
	resource *objects.Resource
	name     string
	prefix   keys.Prefix // that of namespaces
	// create returns the object of a namespace.
	create func(namespace string) (runtime.Object, error)
	// correct corrects an object, and reports whether it has changed. Nil leaves it as it is.
	correct func(metav1.Object) (bool, error)
}

func newKeeper(o *objects.Objects, ready <-chan struct{}, kind runtimeschema.GroupVersionKind, name string) *Keeper {
	k := &Keeper{objects: o, resource: o.Kind(kind), name: name, prefix: keys.Root(o.Store.Prefix()).Namespaces()}
	k.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: k.reset, Take: k.take, Handle: k.handle})
	return k
}

// NewServiceAccounts returns the controller that keeps the service account default in every
// active namespace. It begins when ready is closed.
func NewServiceAccounts(o *objects.Objects, ready <-chan struct{}) *Keeper {
	k := newKeeper(o, ready, corev1.SchemeGroupVersion.WithKind("ServiceAccount"), "default")
	k.create = func(namespace string) (runtime.Object, error) {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: k.name}}, nil
	}
	return k
}

// The description of the config map with the CA, as in Kubernetes.
const (
	descriptionKey = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)

// NewRootCA returns the controller that keeps the config map kube-root-ca.crt in every active
// namespace, with the CA that ca returns. While ca fails, it changes nothing, and tries again. If shared is set, other
// servers with other CAs write it, too, and each adds its own. It begins when ready is closed.
func NewRootCA(o *objects.Objects, ready <-chan struct{}, ca func() ([]byte, error), shared bool) *Keeper {
	k := newKeeper(o, ready, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "kube-root-ca.crt")
	k.create = func(namespace string) (runtime.Object, error) {
		own, err := ca()
		if err != nil {
			return nil, err
		}
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: k.name, Annotations: map[string]string{descriptionKey: description}},
			Data:       map[string]string{corev1.ServiceAccountRootCAKey: string(own)},
		}, nil
	}
	k.correct = func(obj metav1.Object) (bool, error) {
		own, err := ca()
		if err != nil {
			return false, err
		}
		c := obj.(*corev1.ConfigMap)
		want := bundle([]byte(c.Data[corev1.ServiceAccountRootCAKey]), own, shared)
		if len(c.Data) == 1 && c.Data[corev1.ServiceAccountRootCAKey] == want && c.Annotations[descriptionKey] == description {
			return false, nil
		}
		c.Data = map[string]string{corev1.ServiceAccountRootCAKey: want}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[descriptionKey] = description
		return true, nil
	}
	return k
}

// bundle returns the published CAs, given those that are published and that of the server.
func bundle(have, ca []byte, shared bool) string {
	switch {
	case !shared || len(have) == 0:
		return string(ca)
	case bytes.Contains(have, bytes.TrimSpace(ca)):
		return string(have)
	}
	return string(bytes.TrimRight(have, "\n")) + "\n" + string(ca)
}

// Run follows the namespaces until ctx or the store ends.
func (k *Keeper) Run(ctx context.Context) error { return k.follower.Run(ctx) }

// Enqueue looks at all namespaces again, because what create returns has changed.
func (k *Keeper) Enqueue() { k.reset(k.objects.Store.Snapshot()) }

func (k *Keeper) reset(s *store.Snapshot) {
	for e := range s.Range(string(k.prefix), "") {
		k.follower.Add(keys.Name(e.Key))
	}
}

func (k *Keeper) take(e *store.Event) {
	key := e.Key()
	if _, name, ok := k.prefix.Cut(key); ok {
		if e.Old == nil {
			k.follower.Add(name)
		}
		return
	}
	if namespace, name, ok := k.resource.Prefix.Cut(key); ok && name == k.name && (e.Entry == nil || k.correct != nil) {
		k.follower.Add(namespace)
	}
}

// errCorrect ends the update of an object that is as it should be.
var errCorrect = errors.New("the object is correct")

// handle creates or corrects the object of a namespace.
func (k *Keeper) handle(ctx context.Context, namespace string) error {
	ns := k.objects.Store.Get(k.prefix.Key("", namespace))
	if ns == nil {
		return nil
	}
	if m, err := objects.Metadata(ns); err != nil || m.DeletionTimestamp != nil {
		return err
	}
	if k.objects.Store.Get(k.resource.Key(namespace, k.name)) == nil {
		obj, err := k.create(namespace)
		if err != nil {
			return err
		}
		err = k.objects.Use(ctx, k.resource, namespace, func(ctx context.Context, s rest.StandardStorage) error {
			_, err := s.Create(ctx, obj, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
			return err
		})
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	}
	if k.correct == nil {
		return nil
	}
	err := k.objects.Update(ctx, k.resource, namespace, k.name, func(obj metav1.Object) error {
		changed, err := k.correct(obj)
		if err == nil && !changed {
			err = errCorrect
		}
		return err
	})
	if errors.Is(err, errCorrect) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
