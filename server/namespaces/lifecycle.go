// Package namespaces has the controllers of namespaces: one empties those that are being
// deleted, and others keep an object in every active one.
package namespaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Lifecycle empties namespaces that are being deleted, and then lets them go. Fences keep new
// objects out of them, so a namespace that was seen empty stays so.
//
// Objects are deleted as by a client: finalizers and grace periods keep them, and what is kept
// is reported in the status of the namespace. When an object goes, the rest is looked at again.
type Lifecycle struct {
	objects  *objects.Objects
	others   func(ctx context.Context, namespace string) Left
	follower *follow.Follower
	root     keys.Root
	prefix   keys.Prefix // that of namespaces
	// terminating are the names of the namespaces that are being deleted.
	terminating map[string]bool
}

// Left is what other servers have left of a namespace.
type Left struct {
	// Remaining and Finalizers are numbers of objects, by resource and by finalizer.
	Remaining, Finalizers map[string]int
	Failures              []error
	// Undiscovered are the groups and versions whose resources are not known at present.
	Undiscovered []string
}

// NewLifecycle returns the controller of the lifecycle of namespaces. It begins when ready is
// closed. others deletes the objects of other servers in a namespace.
func NewLifecycle(o *objects.Objects, ready <-chan struct{}, others func(ctx context.Context, namespace string) Left) *Lifecycle {
	l := &Lifecycle{objects: o, others: others, root: keys.Root(o.Store.Prefix())}
	l.prefix = l.root.Namespaces()
	l.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: l.reset, Take: l.take, Begin: l.begin})
	return l
}

// Run follows the namespaces until ctx or the store ends.
func (l *Lifecycle) Run(ctx context.Context) error { return l.follower.Run(ctx) }

func (l *Lifecycle) reset(s *store.Snapshot) {
	l.terminating = map[string]bool{}
	for e := range s.Range(string(l.prefix), "") {
		l.put(e)
	}
}

func (l *Lifecycle) put(e *store.Entry) {
	name := keys.Name(e.Key)
	if m, err := objects.Metadata(e); err != nil || m.DeletionTimestamp == nil {
		delete(l.terminating, name)
		return
	}
	l.terminating[name] = true
	l.follower.Add(name)
}

func (l *Lifecycle) take(e *store.Event) {
	key := e.Key()
	switch _, name, ok := l.prefix.Cut(key); {
	case ok && e.Entry != nil:
		l.put(e.Entry)
	case ok:
		delete(l.terminating, name)
	case e.Entry == nil && len(l.terminating) > 0:
		if _, namespace, _ := l.objects.Locate(key); l.terminating[namespace] {
			l.follower.Add(namespace)
		}
	}
}

// errRemaining is returned for a namespace that is not empty.
var errRemaining = errors.New("the namespace is not empty")

// begin returns how to empty a namespace. This can take long, because webhooks are called.
func (l *Lifecycle) begin(_ context.Context, name string) (func(context.Context) error, error) {
	return func(ctx context.Context) error { return l.handle(ctx, name) }, nil
}

// handle empties a namespace, if it is being deleted, and then lets it go. One that had no
// finalizers when it was marked as deleted is handled as well: otherwise it would stay, with all
// its content.
func (l *Lifecycle) handle(ctx context.Context, name string) error {
	ns, err := getNamespace(ctx, l.objects, name)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil {
		return err
	}
	found, err := l.empty(ctx, ns)
	if err != nil {
		return err
	}
	if err := l.report(ctx, ns, found); err != nil {
		return err
	}
	if len(found.failures) > 0 || len(found.remaining) > 0 || len(found.undiscovered) > 0 {
		return errors.Join(append(found.failures, errRemaining)...)
	}
	return l.update(ctx, ns, "finalize", func(ns *corev1.Namespace) {
		ns.Spec.Finalizers = slices.DeleteFunc(slices.Clone(ns.Spec.Finalizers),
			func(f corev1.FinalizerName) bool { return f == corev1.FinalizerKubernetes })
	})
}

// getNamespace returns a namespace, or nil if it does not exist.
func getNamespace(ctx context.Context, o *objects.Objects, name string) (*corev1.Namespace, error) {
	s, _, err := o.Kinds.Scoped(corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil {
		return nil, err
	}
	obj, err := s.Get(apirequest.WithNamespace(ctx, metav1.NamespaceNone), name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Namespace), nil
}

// update changes a namespace through a subresource, if it still exists.
func (l *Lifecycle) update(ctx context.Context, ns *corev1.Namespace, subresource string, change func(*corev1.Namespace)) error {
	s, err := l.objects.Kinds.Subresource(corev1.SchemeGroupVersion.WithResource("namespaces"), subresource)
	if err != nil {
		return err
	}
	err = objects.Update(apirequest.WithNamespace(ctx, metav1.NamespaceNone), s, ns.Name, func(obj metav1.Object) error {
		if obj.GetUID() != ns.UID {
			return apierrors.NewNotFound(corev1.Resource("namespaces"), ns.Name)
		}
		change(obj.(*corev1.Namespace))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// findings are what is left of the content of a namespace.
type findings struct {
	// remaining and finalizers are numbers of objects, by resource and by finalizer.
	remaining, finalizers map[string]int
	failures              []error
	// undiscovered are groups and versions of other servers that cannot be asked.
	undiscovered []string
	mu           sync.Mutex
}

// add adds what other servers have left.
func (f *findings) add(left Left) {
	maps.Copy(f.remaining, left.Remaining)
	for name, n := range left.Finalizers {
		f.finalizers[name] += n
	}
	f.failures, f.undiscovered = append(f.failures, left.Failures...), left.Undiscovered
}

func (f *findings) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, err)
}

// contents returns the resources that have objects in a namespace. It finds CRDs by their keys,
// because one that was just created may not be loaded.
func (l *Lifecycle) contents(s *store.Snapshot, namespace string) (all []*objects.Resource, err error) {
	has := func(p keys.Prefix) bool { return s.Count(p.In(namespace), "") > 0 }
	for _, r := range l.objects.Builtin() {
		if r.Namespaced && has(r.Prefix) {
			all = append(all, r)
		}
	}
	for e := range s.Range(string(l.root.CRDs()), "") {
		name := keys.Name(e.Key)
		if !has(l.root.Custom(runtimeschema.ParseGroupResource(name))) {
			continue
		}
		r := l.objects.Named(name)
		if r == nil {
			return nil, fmt.Errorf("the CRD %s is not loaded", name)
		}
		all = append(all, r)
	}
	return all, nil
}

// empty deletes the objects in a namespace, and returns what is left. Pods go first: other
// objects stay until they are gone.
func (l *Lifecycle) empty(ctx context.Context, ns *corev1.Namespace) (*findings, error) {
	found := &findings{remaining: map[string]int{}, finalizers: map[string]int{}}
	snapshot := l.objects.Store.Snapshot()
	all, err := l.contents(snapshot, ns.Name)
	if err != nil {
		return nil, err
	}
	isPods := func(r *objects.Resource) bool { return r.Group == "" && r.GroupVersionResource.Resource == "pods" }
	if i := slices.IndexFunc(all, isPods); i >= 0 {
		l.deleteAll(ctx, snapshot, all[i], ns.Name, found)
		if snapshot, err = l.newest(ctx); err != nil {
			return nil, err
		}
		if snapshot.Count(all[i].Prefix.In(ns.Name), "") > 0 {
			l.count(snapshot, all[i], ns, found)
			return found, nil
		}
	}
	// Webhooks for one resource do not hold up the others.
	var group sync.WaitGroup
	for _, r := range all {
		group.Go(func() { l.deleteAll(ctx, snapshot, r, ns.Name, found) })
	}
	group.Wait()
	if snapshot, err = l.newest(ctx); err != nil {
		return nil, err
	}
	for _, r := range all {
		l.count(snapshot, r, ns, found)
	}
	found.add(l.others(ctx, ns.Name))
	return found, nil
}

// newest returns the newest state.
func (l *Lifecycle) newest(ctx context.Context) (*store.Snapshot, error) {
	revision, err := l.objects.Store.Current(ctx)
	if err == nil {
		err = l.objects.Store.Await(ctx, revision)
	}
	return l.objects.Store.Snapshot(), err
}

const (
	// deletions is the number of concurrent deletions of objects of a resource in a namespace.
	deletions = 8
	// deletionTime is the time after which no further deletion begins in the same attempt, so that
	// the status is written.
	deletionTime = 30 * time.Second
)

// deleteAll deletes the objects of a resource in a namespace, apart from those that something
// keeps after they were deleted.
func (l *Lifecycle) deleteAll(ctx context.Context, s *store.Snapshot, r *objects.Resource, namespace string, found *findings) {
	group := errgroup.Group{}
	group.SetLimit(deletions)
	begun := time.Now()
	for e := range s.Range(r.Prefix.In(namespace), "") {
		if time.Since(begun) > deletionTime {
			break
		}
		m, err := objects.Metadata(e)
		if err == nil && kept(m) {
			continue
		}
		group.Go(func() error {
			// Dependents are in the same namespace, and are deleted, too.
			policy := metav1.DeletePropagationBackground
			options := &metav1.DeleteOptions{PropagationPolicy: &policy}
			if m != nil {
				// Another server may have let the namespace go: what clients have created
				// since then stays.
				options.Preconditions = &metav1.Preconditions{UID: &m.UID}
			}
			deletion := objects.Deletion{Account: "namespace-controller", Options: options, Collection: true}
			if err := l.objects.Delete(ctx, r, namespace, keys.Name(e.Key), deletion); err != nil &&
				!apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				found.fail(err)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
}

// kept reports whether an object is being deleted, and a finalizer or a grace period keeps it. A
// webhook can mark an object as deleted that nothing keeps.
func kept(m *metav1.ObjectMeta) bool {
	return m.DeletionTimestamp != nil && (len(m.Finalizers) > 0 || m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds > 0)
}

// count adds the objects of a resource that are left in a namespace to the findings.
func (l *Lifecycle) count(s *store.Snapshot, r *objects.Resource, ns *corev1.Namespace, found *findings) {
	left, finalized, grace := 0, false, int64(0)
	for e := range s.Range(r.Prefix.In(ns.Name), "") {
		left++
		m, err := objects.Metadata(e)
		if err != nil {
			continue // its deletion has failed, too
		}
		for _, f := range m.Finalizers {
			found.finalizers[f]++
			finalized = true
		}
		if m.DeletionGracePeriodSeconds != nil {
			grace = max(grace, *m.DeletionGracePeriodSeconds)
		}
	}
	if left == 0 {
		return
	}
	found.remaining[r.GroupVersionResource.Resource+"."+r.Group] = left
	if !finalized && time.Since(ns.DeletionTimestamp.Time) >= time.Duration(grace)*time.Second {
		found.fail(fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", ns.Name, r.GroupVersionResource))
	}
}
