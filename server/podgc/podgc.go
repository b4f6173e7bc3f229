// Package podgc deletes pods that no kubelet will ever stop, as Kubernetes' pod garbage
// collector does: pods that are bound to a node that does not exist, and pods that are being
// deleted and were never bound.
//
// # Safety
//
// A pod is deleted if the store, at the newest revision of etcd, has no object with the key of
// its node, and had none since the collector has seen both for the time of the quarantine: a node
// whose registration is late, or which is replaced, keeps its pods. A node that cannot be read
// exists. The deletion names the UID of the pod. A pod is never bound to another node, so several
// servers can collect at the same time. After a restart, the quarantine begins anew.
package podgc

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"espalier.dev/server/backend"
	"espalier.dev/server/follow"
	"espalier.dev/server/keys"
	"espalier.dev/server/objects"
	"espalier.dev/store"
)

// Quarantine is the time for which the node of a pod must be absent, as in Kubernetes.
const Quarantine = 40 * time.Second

// Collector collects pods. The follower's goroutine writes the index; see [follow.Follower].
type Collector struct {
	objects     *objects.Objects
	follower    *follow.Follower
	quarantine  time.Duration
	pods, nodes *objects.Resource

	exists map[string]bool     // the names of nodes
	bound  map[string]*binding // by the key of the pod
	onNode map[string]map[string]*binding
}

// binding is a pod on a node.
type binding struct {
	node string
	// due is the end of the quarantine, or zero if the node exists. Then the timer puts the pod
	// into the queue.
	due   time.Time
	timer *time.Timer
}

// New returns a Collector. It begins when ready is closed.
func New(o *objects.Objects, ready <-chan struct{}, quarantine time.Duration) *Collector {
	c := &Collector{
		objects: o, quarantine: quarantine,
		pods: o.Kind(corev1.SchemeGroupVersion.WithKind("Pod")), nodes: o.Kind(corev1.SchemeGroupVersion.WithKind("Node")),
	}
	c.follower = follow.New(follow.Config{Store: o.Store, Ready: ready, Reset: c.reset, Take: c.take, Begin: c.begin})
	return c
}

// Run collects until ctx or the store ends.
func (c *Collector) Run(ctx context.Context) error {
	defer func() {
		for _, b := range c.bound {
			b.release()
		}
	}()
	return c.follower.Run(ctx)
}

func (c *Collector) reset(s *store.Snapshot) {
	for _, b := range c.bound {
		b.release()
	}
	c.exists, c.bound, c.onNode = map[string]bool{}, map[string]*binding{}, map[string]map[string]*binding{}
	for e := range s.Range(string(c.nodes.Prefix), "") {
		c.exists[keys.Name(e.Key)] = true
	}
	for e := range s.Range(string(c.pods.Prefix), "") {
		c.put(e)
	}
}

func (c *Collector) take(e *store.Event) {
	key := e.Key()
	if _, node, ok := c.nodes.Prefix.Cut(key); ok {
		if delete(c.exists, node); e.Entry != nil {
			c.exists[node] = true
		}
		for key, b := range c.onNode[node] {
			c.watch(key, b)
		}
		return
	}
	switch {
	case !c.pods.Prefix.Has(key):
	case e.Entry != nil:
		c.put(e.Entry)
	default:
		c.forget(key)
	}
}

// put takes in the entry of a pod. One that cannot be read is not collected.
func (c *Collector) put(e *store.Entry) {
	pod, err := c.pod(e)
	if err != nil || pod.Spec.NodeName == "" {
		c.forget(e.Key)
		if err == nil && pod.DeletionTimestamp != nil {
			c.follower.Add(e.Key)
		}
		return
	}
	b := c.bound[e.Key]
	if b == nil || b.node != pod.Spec.NodeName { // another pod of the same name
		c.forget(e.Key)
		b = &binding{node: pod.Spec.NodeName}
		if c.onNode[b.node] == nil {
			c.onNode[b.node] = map[string]*binding{}
		}
		c.bound[e.Key], c.onNode[b.node][e.Key] = b, b
	}
	c.watch(e.Key, b)
}

// watch begins the quarantine of a pod if its node does not exist, and ends it if it does. A pod
// that has changed after its quarantine is looked at again.
func (c *Collector) watch(key string, b *binding) {
	switch {
	case c.exists[b.node]:
		b.release()
	case b.due.IsZero():
		b.due = time.Now().Add(c.quarantine)
		b.timer = time.AfterFunc(c.quarantine, func() { c.follower.Add(key) })
	default:
		c.follower.Add(key)
	}
}

// release ends a quarantine.
func (b *binding) release() {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.due, b.timer = time.Time{}, nil
}

func (c *Collector) forget(key string) {
	b := c.bound[key]
	if b == nil {
		return
	}
	b.release()
	delete(c.bound, key)
	if delete(c.onNode[b.node], key); len(c.onNode[b.node]) == 0 {
		delete(c.onNode, b.node)
	}
}

// pod returns the pod of an entry.
func (c *Collector) pod(e *store.Entry) (*corev1.Pod, error) {
	obj, err := c.objects.Kinds.Decode(c.pods.GroupResource(), e)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Pod), nil
}

// begin looks at the pod with a key. It returns the deletion of the pod, if it is to be deleted:
// webhooks can take long.
func (c *Collector) begin(_ context.Context, key string) (func(context.Context) error, error) {
	e := c.objects.Store.Get(key)
	if e == nil {
		return nil, nil
	}
	pod, err := c.pod(e)
	if err != nil {
		return nil, err
	}
	_, namespace, name := c.objects.Locate(key)
	var condition *corev1.PodCondition
	if node := pod.Spec.NodeName; node != "" {
		b := c.bound[key]
		if c.objects.Store.Get(c.nodes.Key("", node)) != nil || b == nil || b.node != node || b.due.IsZero() || time.Now().Before(b.due) {
			return nil, nil
		}
		condition = &corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
		}
	} else if pod.DeletionTimestamp == nil {
		return nil, nil
	}
	failed, deleted := ended(pod), pod.DeletionTimestamp != nil &&
		pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
	if failed && deleted {
		return nil, nil // finalizers keep it
	}
	return func(ctx context.Context) error {
		if !failed {
			// A full etcd rejects the write, but not the deletion, which frees space.
			if err := c.fail(ctx, pod, namespace, name, condition); err != nil && (deleted || !backend.IsFull(err)) {
				return err
			}
		}
		if deleted {
			return nil
		}
		klog.FromContext(ctx).Info("Deleting a pod without a node", "pod", klog.KRef(namespace, name), "node", pod.Spec.NodeName)
		now := int64(0)
		err := c.objects.Delete(ctx, c.pods, namespace, name, objects.Deletion{
			Account: "pod-garbage-collector",
			Options: &metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}},
		})
		if gone(err) {
			return nil
		}
		return err
	}, nil
}

// ended reports whether the containers of a pod have ended.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// gone reports whether a write has failed because the pod does not exist, or is another one of the
// same name.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// errEnded ends the update of a pod that has ended.
var errEnded = errors.New("the pod has ended")

// fail sets the phase of a pod to Failed, as no kubelet will. Controllers such as that of jobs
// wait for it. The condition may be nil.
func (c *Collector) fail(ctx context.Context, pod *corev1.Pod, namespace, name string, condition *corev1.PodCondition) error {
	s, err := c.objects.Kinds.Subresource(c.pods.GroupVersionResource, "status")
	if err != nil {
		return err
	}
	err = objects.Update(apirequest.WithNamespace(ctx, namespace), s, name, func(obj metav1.Object) error {
		current := obj.(*corev1.Pod)
		switch {
		case current.UID != pod.UID:
			return apierrors.NewNotFound(c.pods.GroupResource(), name)
		case ended(current):
			return errEnded
		}
		current.Status.Phase, current.Status.ObservedGeneration = corev1.PodFailed, current.Generation
		if condition != nil {
			set(&current.Status, *condition, current.Generation)
		}
		return nil
	})
	if errors.Is(err, errEnded) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// set sets a condition of a pod.
func set(status *corev1.PodStatus, condition corev1.PodCondition, generation int64) {
	condition.ObservedGeneration, condition.LastTransitionTime = generation, metav1.Now()
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	if old := &status.Conditions[i]; old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	status.Conditions[i] = condition
}
