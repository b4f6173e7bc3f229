// Package gc deletes objects whose owners are gone, as Kubernetes' garbage collector does.
//
// An object names its owners in metadata.ownerReferences. When the last of them is gone, the
// object is deleted. An owner that is deleted in the foreground waits for the dependents that
// block it; one that orphans its dependents waits until they no longer name it. Finalizers,
// which the storage sets, keep such owners.
//
// # Safety
//
// Nothing is deleted because something is unknown. The collector begins when the store and all
// CRDs are loaded. An owner counts as absent if the store, at the newest revision of etcd, has
// no object with its key, or one with another UID. The store takes in the changes of etcd in
// their order, and a UID is known only after its object was created: if the store has the
// reference, it has had the owner. An owner of an unknown kind, one of a version that another
// server serves, or one that cannot be read, is not absent. A deletion names the UID and the resourceVersion of the object, so it fails if its
// references have changed. Therefore several servers can collect at the same time, and a server
// can crash at any time.
package gc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"espalier.dev/crd"
	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Collector collects garbage. Its index has only objects with owners, and objects that are
// being deleted and wait for the collector. The follower's goroutine writes the index; see
// [follow.Follower].
type Collector struct {
	objects  *objects.Objects
	follower *follow.Follower
	// events is the prefix of events, which expire by themselves, and are not collected.
	events keys.Prefix

	owned      map[string]*node // by key
	dependents map[types.UID]map[string]*node
	waiting    map[types.UID]*owner

	mu sync.Mutex
	// unknown are the keys of objects with owners of unknown kinds.
	unknown map[string]bool
}

// node is an object with owners.
type node struct {
	uid    types.UID
	owners []reference
}

// reference names an owner.
type reference struct {
	uid    types.UID
	blocks bool
}

// owner is an object that is being deleted and waits for the collector.
type owner struct {
	key string
	// foreground is set if it waits for the deletion of its dependents.
	foreground bool
}

// New returns a Collector. It begins when ready is closed.
func New(o *objects.Objects, ready <-chan struct{}) *Collector {
	c := &Collector{objects: o, events: keys.Root(o.Store.Prefix()).Builtin(corev1.Resource("events")), unknown: map[string]bool{}}
	c.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: c.reset, Take: c.take, Begin: c.begin})
	return c
}

// Run collects until ctx or the store ends.
func (c *Collector) Run(ctx context.Context) error { return c.follower.Run(ctx) }

// Changed tells the collector that there is a new catalog. It returns immediately.
func (c *Collector) Changed(*crd.Catalog, ...string) { c.Retry() }

// Retry makes the collector look again at objects with unknown owners. It returns immediately.
func (c *Collector) Retry() {
	c.mu.Lock()
	unknown := c.unknown
	c.unknown = map[string]bool{}
	c.mu.Unlock()
	for key := range unknown {
		c.follower.Add(key)
	}
}

func (c *Collector) reset(s *store.Snapshot) {
	c.owned, c.dependents, c.waiting = map[string]*node{}, map[types.UID]map[string]*node{}, map[types.UID]*owner{}
	for e := range s.Range(c.objects.Store.Prefix(), "") {
		if !e.Marked(store.MarkIndependent) { // as most entries of a fork are
			c.put(e)
		}
	}
}

func (c *Collector) take(e *store.Event) {
	if e.Entry != nil {
		c.put(e.Entry)
		return
	}
	c.replace(e.Key(), nil)
	if len(c.dependents) == 0 && len(c.waiting) == 0 || e.Old == nil || c.events.Has(e.Key()) {
		return
	}
	m, err := objects.Metadata(e.Old)
	if err != nil {
		// Which object has gone is not known, so all objects are looked at.
		for key := range c.owned {
			c.follower.Add(key)
		}
		return
	}
	delete(c.waiting, m.UID)
	for key := range c.dependents[m.UID] {
		c.follower.Add(key)
	}
}

// mayMatter reports whether an entry may have owners, or wait for the collector. It is quick,
// because most custom resources have neither.
func (c *Collector) mayMatter(e *store.Entry) bool {
	if c.events.Has(e.Key) {
		return false
	}
	return keys.IsProtobuf(e.Value) || bytes.Contains(e.Value, []byte(`"ownerReferences"`)) ||
		bytes.Contains(e.Value, []byte(metav1.FinalizerDeleteDependents)) ||
		bytes.Contains(e.Value, []byte(metav1.FinalizerOrphanDependents))
}

// put takes in an entry.
func (c *Collector) put(e *store.Entry) {
	if !c.mayMatter(e) {
		e.SetMark(store.MarkIndependent)
		c.forget(e.Key)
		return
	}
	m, err := objects.Metadata(e)
	if err != nil {
		c.forget(e.Key) // it cannot be read, so it is not collected
		return
	}
	var n *node
	if len(m.OwnerReferences) > 0 {
		n = &node{uid: m.UID}
		for _, r := range m.OwnerReferences {
			n.owners = append(n.owners, reference{uid: r.UID, blocks: r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion})
		}
	}
	c.replace(e.Key, n)
	foreground, orphan := waitsFor(m)
	if !foreground && !orphan {
		if n == nil {
			e.SetMark(store.MarkIndependent)
		}
		delete(c.waiting, m.UID)
		return
	}
	if old := c.waiting[m.UID]; old == nil || old.foreground != foreground {
		c.waiting[m.UID] = &owner{key: e.Key, foreground: foreground}
		c.follower.Add(e.Key)
	}
}

// forget removes an object that has no owners, and does not wait for the collector.
func (c *Collector) forget(key string) {
	c.replace(key, nil)
	maps.DeleteFunc(c.waiting, func(_ types.UID, o *owner) bool { return o.key == key })
}

// waitsFor reports whether an object is being deleted and waits for the deletion of its
// dependents, or until they are orphaned.
func waitsFor(m *metav1.ObjectMeta) (foreground, orphan bool) {
	if m.DeletionTimestamp == nil {
		return false, false
	}
	return slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents), slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents)
}

// replace sets the node of a key, or removes it if n is nil. It looks again at an object whose
// owners have changed, and at the owners that waited for it.
func (c *Collector) replace(key string, n *node) {
	old := c.owned[key]
	if old != nil && n != nil && old.uid == n.uid && slices.Equal(old.owners, n.owners) {
		return
	}
	if old != nil {
		delete(c.owned, key)
		for _, r := range old.owners {
			if of := c.dependents[r.uid]; of[key] == old {
				delete(of, key)
				if len(of) == 0 {
					delete(c.dependents, r.uid)
				}
			}
			if w := c.waiting[r.uid]; w != nil {
				c.follower.Add(w.key)
			}
		}
	}
	if n != nil {
		c.owned[key] = n
		for _, r := range n.owners {
			if c.dependents[r.uid] == nil {
				c.dependents[r.uid] = map[string]*node{}
			}
			c.dependents[r.uid][key] = n
		}
		c.follower.Add(key)
	}
}

// begin looks at the object with a key. It returns what is to be written, if anything: webhooks
// can take long.
func (c *Collector) begin(ctx context.Context, key string) (func(context.Context) error, error) {
	e := c.objects.Store.Get(key)
	if e == nil {
		return nil, nil
	}
	r, namespace, name := c.objects.Locate(key)
	if r == nil {
		c.skip(key)
		return nil, nil
	}
	m, err := objects.Metadata(e)
	if err != nil {
		return nil, err
	}
	m.Namespace, m.Name = namespace, name // the key counts
	// The resourceVersion of an object is the revision of its entry.
	m.ResourceVersion = strconv.FormatInt(e.Revision, 10)
	foreground, orphan := waitsFor(m)
	switch {
	case foreground:
		return c.awaitDependents(key, r, m), nil
	case orphan:
		return c.orphanDependents(key, r, m)
	case m.DeletionTimestamp != nil || len(m.OwnerReferences) == 0:
		return nil, nil
	}
	return c.collect(ctx, key, r, m)
}

// skip leaves an object until Retry is called.
func (c *Collector) skip(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unknown[key] = true
}

// dependentsOf returns the dependents of the owner with a UID and a key, by their keys. Objects
// that name a namespaced owner from elsewhere are not among them: such references are invalid.
func (c *Collector) dependentsOf(uid types.UID, of string) iter.Seq2[string, *node] {
	return func(yield func(string, *node) bool) {
		owner, home, _ := c.objects.Locate(of)
		for key, n := range c.dependents[uid] {
			if _, namespace, _ := c.objects.Locate(key); owner != nil && owner.Namespaced && namespace != home {
				continue
			}
			if !yield(key, n) {
				return
			}
		}
	}
}

// awaitDependents looks at the dependents of an owner that waits for their deletion. It returns the
// removal of the finalizer of the owner if none is left that blocks it.
func (c *Collector) awaitDependents(key string, r *objects.Resource, m *metav1.ObjectMeta) func(context.Context) error {
	for key, n := range c.dependentsOf(m.UID, key) {
		if !c.awaits(n.uid) {
			c.follower.Add(key)
		}
	}
	if c.blocked(m.UID, key) {
		return nil // when a dependent is gone or changed, the owner is looked at again
	}
	return c.removeFinalizer(r, m, metav1.FinalizerDeleteDependents)
}

// awaits reports whether an object waits for the deletion of its dependents.
func (c *Collector) awaits(uid types.UID) bool {
	w := c.waiting[uid]
	return w != nil && w.foreground
}

// blocked reports whether a dependent blocks an owner that waits for the deletion of its
// dependents. Objects that wait for each other, or for themselves, would wait forever. So an
// object is not blocked if everything that it waits for, directly or not, waits for it, too.
// Objects of such a cycle that have dependents outside of it wait for those.
func (c *Collector) blocked(uid types.UID, key string) bool {
	type object struct {
		uid types.UID
		key string
	}
	waiters := map[types.UID][]types.UID{uid: nil} // the objects that wait for each of them
	for next := []object{{uid, key}}; len(next) > 0; {
		of := next[len(next)-1]
		next = next[:len(next)-1]
		leaf := true
		for key, n := range c.dependentsOf(of.uid, of.key) {
			if !slices.Contains(n.owners, reference{uid: of.uid, blocks: true}) {
				continue
			}
			if !c.awaits(n.uid) {
				return true
			}
			if waiters[n.uid] == nil && n.uid != uid {
				next = append(next, object{n.uid, key})
			}
			waiters[n.uid] = append(waiters[n.uid], of.uid)
			leaf = false
		}
		if leaf && of.uid != uid {
			return true // it goes first
		}
	}
	cycle := map[types.UID]bool{uid: true} // what waits for the owner
	for next := []types.UID{uid}; len(next) > 0; {
		of := next[len(next)-1]
		next = next[:len(next)-1]
		for _, w := range waiters[of] {
			if !cycle[w] {
				cycle[w] = true
				next = append(next, w)
			}
		}
	}
	return len(cycle) < len(waiters)
}

// orphanWorkers is the number of dependents of an owner that are orphaned at the same time.
const orphanWorkers = 8

// orphanDependents returns the removal of an owner from the references of its dependents, and then of
// its finalizer. A dependent that cannot be changed does not keep the others, but the owner.
func (c *Collector) orphanDependents(key string, r *objects.Resource, m *metav1.ObjectMeta) (func(context.Context) error, error) {
	removals := map[string]func(context.Context) error{}
	for key, n := range c.dependentsOf(m.UID, key) {
		of, namespace, name := c.objects.Locate(key)
		if of == nil {
			return nil, fmt.Errorf("orphan %s: %w", key, objects.ErrUnknown)
		}
		removals[key] = c.removeOwners(of, namespace, name, n.uid, m.UID)
	}
	finish := c.removeFinalizer(r, m, metav1.FinalizerOrphanDependents)
	return func(ctx context.Context) error {
		workers := errgroup.Group{}
		workers.SetLimit(orphanWorkers)
		for key, remove := range removals {
			workers.Go(func() error {
				if err := remove(ctx); err != nil {
					return fmt.Errorf("orphan %s: %w", key, err)
				}
				return nil
			})
		}
		if err := workers.Wait(); err != nil {
			return err
		}
		return finish(ctx)
	}, nil
}

// account is the name of the service account of the collector in Kubernetes.
const account = "generic-garbage-collector"

// errReplaced ends the update of an object that was replaced by another one of the same name.
var errReplaced = errors.New("the object is another one")

// update returns a change of an object, if it still exists.
func (c *Collector) update(r *objects.Resource, namespace, name string, uid types.UID,
	change func(metav1.Object) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := c.objects.UpdateAs(ctx, r, namespace, name, account, func(obj metav1.Object) error {
			if obj.GetUID() != uid {
				return errReplaced
			}
			return change(obj)
		})
		if errors.Is(err, errReplaced) || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

// removeFinalizer returns the removal of a finalizer of an object.
func (c *Collector) removeFinalizer(r *objects.Resource, m *metav1.ObjectMeta, finalizer string) func(context.Context) error {
	return c.update(r, m.Namespace, m.Name, m.UID, func(obj metav1.Object) error {
		before := obj.GetFinalizers()
		after := slices.DeleteFunc(slices.Clone(before), func(f string) bool { return f == finalizer })
		if len(after) == len(before) {
			return objects.ErrUnchanged
		}
		obj.SetFinalizers(orNil(after))
		return nil
	})
}

// removeOwners returns the removal of owners from the references of an object.
func (c *Collector) removeOwners(r *objects.Resource, namespace, name string, uid types.UID,
	owners ...types.UID) func(context.Context) error {
	return c.update(r, namespace, name, uid, func(obj metav1.Object) error {
		before := obj.GetOwnerReferences()
		after := slices.DeleteFunc(slices.Clone(before), func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) })
		if len(after) == len(before) {
			return objects.ErrUnchanged
		}
		obj.SetOwnerReferences(orNil(after))
		return nil
	})
}

// orNil returns nil for an empty list, so that a tree does not have the field.
func orNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

// collect returns the deletion of an object if all its owners are gone, or wait for it, and otherwise the removal of those
// from its references.
func (c *Collector) collect(ctx context.Context, key string, r *objects.Resource,
	m *metav1.ObjectMeta) (func(context.Context) error, error) {
	// gone are owners that do not exist, dying those that wait for the deletion of the object.
	var gone, dying []types.UID
	for _, ref := range m.OwnerReferences {
		state, err := c.stateOf(r, m, ref)
		switch {
		case errors.Is(err, objects.ErrUnknown):
			c.skip(key)
			return nil, nil
		case errors.Is(err, errScope):
			return nil, nil
		case err != nil:
			return nil, err
		case state == absent:
			gone = append(gone, ref.UID)
		case state == waits:
			dying = append(dying, ref.UID)
		}
	}
	if without := append(gone, dying...); len(without) < len(m.OwnerReferences) {
		if len(without) == 0 {
			return nil, nil
		}
		// An owner that waits for the object would wait forever.
		return c.removeOwners(r, m.Namespace, m.Name, m.UID, without...), nil
	}
	policy := metav1.DeletePropagationBackground
	switch {
	case len(dying) > 0 && len(c.dependents[m.UID]) > 0:
		policy = metav1.DeletePropagationForeground
	case slices.Contains(m.Finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(m.Finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	klog.FromContext(ctx).V(2).Info("Deleting an object without owners", "key", key, "policy", policy)
	return func(ctx context.Context) error {
		err := c.objects.Delete(ctx, r, m.Namespace, m.Name, objects.Deletion{
			Account: account,
			Options: &metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}, PropagationPolicy: &policy,
			},
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}, nil
}

// The states of an owner.
type state int

const (
	exists state = iota
	absent
	waits // for the deletion of its dependents
)

// errScope is returned for a namespaced owner of a cluster-scoped object. Such a reference is
// invalid.
var errScope = errors.New("the owner of a cluster-scoped object is namespaced")

// stateOf returns the state of an owner of an object.
func (c *Collector) stateOf(r *objects.Resource, m *metav1.ObjectMeta, ref metav1.OwnerReference) (state, error) {
	gvk := runtimeschema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	of := c.objects.Kind(gvk)
	// The kind of an owner on another server can also be that of a CRD.
	if of == nil || c.objects.Remote != nil && c.objects.Remote(gvk.GroupVersion()) {
		return exists, objects.ErrUnknown
	}
	if of.Namespaced && !r.Namespaced {
		return exists, errScope
	}
	e := c.objects.Store.Get(of.Key(m.Namespace, ref.Name))
	if e == nil {
		return absent, nil
	}
	owner, err := objects.Metadata(e)
	if err != nil {
		return exists, err
	}
	if owner.UID != ref.UID {
		return absent, nil
	}
	if foreground, _ := waitsFor(owner); foreground {
		return waits, nil
	}
	return exists, nil
}
