package quota

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"espalier.dev/crd"
	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Controller keeps the status of resource quotas: the limits that are enforced, and what is used.
type Controller struct {
	objects  *objects.Objects
	stored   *Stored
	charges  *Charges
	follower *follow.Follower
	root     keys.Root
	prefix   keys.Prefix // that of quotas
	// shared is set if other servers charge the same quotas.
	shared bool

	// mu guards the fields below.
	mu sync.Mutex
	// quotas are the quotas by namespace and name.
	quotas map[string]map[string]*corev1.ResourceQuota
	// seen is when a quota was first seen as it is.
	seen map[string]time.Time
}

const (
	// settleTime is how long after a request that was charged its object may become visible.
	settleTime = time.Second
	// resyncTime is how often everything is counted again, as in kube-controller-manager.
	resyncTime = 5 * time.Minute
	// restTime is how long a quota that other servers charge must not have changed before less is
	// used: they may be about to store an object.
	restTime = 2 * time.Second
)

// NewController returns the controller of resource quotas. It begins when ready is closed. If
// shared is set, other servers on the same etcd charge the same quotas.
func NewController(o *objects.Objects, s *Stored, ready <-chan struct{}, shared bool) *Controller {
	c := &Controller{objects: o, stored: s, charges: s.Charges, shared: shared, root: keys.Root(o.Store.Prefix())}
	c.prefix = c.root.Builtin(quotas)
	c.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: c.reset, Take: c.take, Handle: c.handle})
	return c
}

// Run follows the stored objects until ctx or the store ends.
func (c *Controller) Run(ctx context.Context) error {
	// The goroutine ends with this function.
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.tick(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	return c.follower.Run(ctx)
}

// tick looks for requests that may have failed, and counts everything again from time to time.
func (c *Controller) tick(ctx context.Context) {
	ticker := time.NewTicker(settleTime)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for namespace := range c.charges.due(settleTime) {
			c.follower.Add(namespace + "/")
		}
		if time.Since(last) > resyncTime {
			last = time.Now()
			c.addAll(func(*corev1.ResourceQuota) bool { return true })
		}
	}
}

// Changed counts again what a quota limits and nothing was known about, because there is a new
// CRD.
func (c *Controller) Changed(*crd.Catalog, ...string) {
	c.addAll(func(q *corev1.ResourceQuota) bool { return len(q.Status.Used) < len(q.Spec.Hard) })
}

// addAll adds quotas to the queue.
func (c *Controller) addAll(which func(*corev1.ResourceQuota) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.quotas {
		for _, q := range all {
			if which(q) {
				c.follower.Add(q.Namespace + "/" + q.Name)
			}
		}
	}
}

func (c *Controller) reset(s *store.Snapshot) {
	c.mu.Lock()
	c.quotas, c.seen = map[string]map[string]*corev1.ResourceQuota{}, map[string]time.Time{}
	c.mu.Unlock()
	for e := range s.Range(string(c.prefix), "") {
		c.put(e, true)
	}
}

func (c *Controller) take(e *store.Event) {
	key := e.Key()
	if e.Old == nil && e.Entry != nil {
		c.charges.stored(key, func() types.UID {
			m, err := objects.Metadata(e.Entry)
			if err != nil {
				return ""
			}
			return m.UID
		})
	}
	if namespace, name, ok := c.prefix.Cut(key); ok {
		if e.Entry != nil {
			c.put(e.Entry, e.Old == nil)
		} else {
			c.drop(namespace, name)
		}
	}
	if e.Old != nil {
		c.changed(key, e)
	}
}

// put takes in a quota, and adds it to the queue if its status may be wrong.
func (c *Controller) put(e *store.Entry, fresh bool) {
	obj, err := c.objects.Kinds.Decode(quotas, e)
	if err != nil {
		return
	}
	q, ok := obj.(*corev1.ResourceQuota)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quotas[q.Namespace] == nil {
		c.quotas[q.Namespace] = map[string]*corev1.ResourceQuota{}
	}
	c.quotas[q.Namespace][q.Name] = q
	c.seen[q.Namespace+"/"+q.Name] = time.Now()
	if fresh || !equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) || q.Status.Used == nil {
		c.follower.Add(q.Namespace + "/" + q.Name)
	}
}

func (c *Controller) drop(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, namespace+"/"+name)
	if delete(c.quotas[namespace], name); len(c.quotas[namespace]) == 0 {
		delete(c.quotas, namespace)
	}
}

// changed adds the quotas to the queue that an object used that was deleted or changed.
func (c *Controller) changed(key string, e *store.Event) {
	c.mu.Lock()
	none := len(c.quotas) == 0
	c.mu.Unlock()
	if none {
		return
	}
	r, namespace, _ := c.objects.Locate(key)
	var measure quota.Evaluator
	if r != nil {
		measure = Evaluator(r.GroupResource(), c.stored.Objects, nil)
	} else {
		// The CRD is gone.
		at, _ := c.root.Parse(key)
		if at.Resource.Empty() || at.Namespace == "" {
			return
		}
		namespace, measure = at.Namespace, newCounter(at.Resource, nil)
	}
	c.mu.Lock()
	all := slices.Collect(maps.Values(c.quotas[namespace]))
	c.mu.Unlock()
	all = slices.DeleteFunc(all, func(q *corev1.ResourceQuota) bool {
		return len(measure.MatchingResources(quota.ResourceNames(q.Spec.Hard))) == 0
	})
	if len(all) == 0 || e.Entry != nil && !c.usesLess(measure, e) {
		return
	}
	for _, q := range all {
		c.follower.Add(q.Namespace + "/" + q.Name)
	}
}

// usesLess reports whether an update of an object may have changed what it uses.
func (c *Controller) usesLess(measure quota.Evaluator, e *store.Event) bool {
	own, ok := measure.(*evaluator)
	if !ok {
		return false // it is only counted
	}
	before, err := c.objects.Kinds.Decode(own.resource, e.Old)
	if err != nil {
		return true
	}
	after, err := c.objects.Kinds.Decode(own.resource, e.Entry)
	if err != nil {
		return true
	}
	old, err := own.usage(before)
	if err != nil {
		return true
	}
	used, err := own.usage(after)
	return err != nil || !quota.Equals(old, used) || own.scopesDiffer(before, after)
}

// handle counts a quota again. An item without a name is a namespace with charges to settle.
func (c *Controller) handle(ctx context.Context, item string) error {
	namespace, name, _ := strings.Cut(item, "/")
	if name == "" {
		for name := range c.charges.settle(namespace) {
			c.follower.Add(namespace + "/" + name)
		}
		return nil
	}
	s := c.charges.enter(namespace)
	defer c.charges.leave(namespace, s)
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.count(ctx, namespace, name)
}

// count counts what is used of a quota, and stores it. It has the turn of the namespace, so no
// request of this server is charged meanwhile.
func (c *Controller) count(ctx context.Context, namespace, name string) error {
	q, err := c.stored.get(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	used, failed := quota.CalculateUsage(namespace, q.Spec.Scopes, q.Spec.Hard, c.registry(q), q.Spec.ScopeSelector)
	exists := func(key string) bool { return c.objects.Store.Get(key) != nil }
	pending := c.charges.pending(namespace, name, exists)
	used = quota.Add(used, quota.Mask(pending, quota.ResourceNames(used)))
	status := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(), Used: q.Status.Used.DeepCopy()}
	if status.Used == nil {
		status.Used = corev1.ResourceList{}
	}
	maps.Copy(status.Used, used)
	status.Used = quota.Mask(status.Used, quota.ResourceNames(q.Spec.Hard))
	if equality.Semantic.DeepEqual(q.Spec.Hard, q.Status.Hard) && q.Status.Used != nil && quota.Equals(status.Used, q.Status.Used) {
		return failed
	}
	if less, _ := quota.LessThanOrEqual(q.Status.Used, status.Used); c.shared && !less && !c.rests(q) {
		return errBusy
	}
	q.Status = status
	if err := c.stored.WriteStatus(ctx, q); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return failed
}

// errBusy is returned for a quota that other servers are charging.
var errBusy = apierrors.NewServiceUnavailable("the quota is being charged")

// rests reports whether a quota has not changed for some time.
func (c *Controller) rests(q *corev1.ResourceQuota) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.seen[q.Namespace+"/"+q.Name]) > restTime
}

// registry returns the evaluators of everything that a quota limits. A resource that does not
// exist has none.
func (c *Controller) registry(q *corev1.ResourceQuota) quota.Registry {
	registry := generic.NewRegistry(nil)
	for _, e := range evaluators(c.stored.Objects) {
		registry.Add(e)
	}
	for name := range q.Spec.Hard {
		r, ok := resourceOf(name)
		if !ok || ignored(r) || registry.Get(r) != nil || c.objects.Lookup(r) == nil {
			continue
		}
		registry.Add(newCounter(r, c.stored.Count))
	}
	return registry
}
