package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// faultyPod returns a pod that a fault is about.
func faultyPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}}}}
}

// inNamespace runs a fault in a namespace of its own, which is deleted in the end, and waits until it is gone.
func inNamespace(ctx context.Context, client kubernetes.Interface, name string, run func() error) error {
	namespaces := client.CoreV1().Namespaces()
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := until(ctx, "a service account", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, err
	}); err != nil {
		return err
	}
	err := run()
	if err := errors.Join(err, namespaces.Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
		return err
	}
	_, err = until(ctx, "the end of the namespace", func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	return err
}

// killScheduler kills kube-scheduler every second while pods are created. All pods must be scheduled and run.
func killScheduler(ctx context.Context, c *cluster, client kubernetes.Interface) (o observed, err error) {
	const count, namespace = 200, "killed-scheduler"
	err = inNamespace(ctx, client, namespace, func() error {
		stop := make(chan struct{})
		var killer sync.WaitGroup
		kills := 0
		killer.Go(func() { // ends with stop
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
				if c.crash("kube-scheduler") {
					kills++
				}
			}
		})
		began := time.Now()
		pods := client.CoreV1().Pods(namespace)
		for i := range count {
			if _, err := pods.Create(ctx, faultyPod(fmt.Sprintf("pod-%03d", i)), metav1.CreateOptions{}); err != nil {
				close(stop)
				killer.Wait()
				return err
			}
			sleep(ctx, 100*time.Millisecond)
		}
		close(stop)
		killer.Wait()
		running := 0
		_, err := until(ctx, "all pods run", func(ctx context.Context) (bool, error) {
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			running = 0
			for _, p := range list.Items {
				if p.Spec.NodeName != "" && p.Status.Phase == corev1.PodRunning {
					running++
				}
			}
			return running == count && len(list.Items) == count, nil
		})
		o.results = append(o.results, fmt.Sprintf("%d of %d pods are scheduled and run", running, count))
		o.measured = fmt.Sprintf("%d kills, %s", kills, seconds(time.Since(began)))
		return err
	})
	return o, err
}

// deleteNode deletes a node that has a pod. The garbage collector deletes the pod, and the lease.
func deleteNode(ctx context.Context, c *cluster, client kubernetes.Interface) (o observed, err error) {
	err = inNamespace(ctx, client, "deleted-node", func() error {
		return c.withNode(ctx, client, "deleted-node", func(n *faultyNode) error {
			n.stop()
			if err := client.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			pod, err := n.gone(ctx)
			if err == nil {
				o.results = append(o.results, "its pod is deleted")
			}
			lease, leaseErr := until(ctx, "the end of the lease", func(ctx context.Context) (bool, error) {
				_, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.name, metav1.GetOptions{})
				return apierrors.IsNotFound(err), err
			})
			if leaseErr == nil {
				o.results = append(o.results, "its lease is deleted")
			}
			o.measured = fmt.Sprintf("pod after %s, lease after %s", seconds(pod), seconds(pod+lease))
			return errors.Join(err, leaseErr)
		})
	})
	return o, err
}

// silentNode ends the renewals of a lease. The node becomes unreachable, its pod is evicted, and deleted with the node.
func silentNode(ctx context.Context, c *cluster, client kubernetes.Interface) (o observed, err error) {
	err = inNamespace(ctx, client, "silent-node", func() error {
		return c.withNode(ctx, client, "silent-node", func(n *faultyNode) error {
			n.stop()
			ready := corev1.ConditionStatus("")
			unknown, err := until(ctx, "the node is not ready", func(ctx context.Context) (bool, error) {
				node, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				for _, condition := range node.Status.Conditions {
					if condition.Type == corev1.NodeReady {
						ready = condition.Status
					}
				}
				return ready == corev1.ConditionUnknown, nil
			})
			o.results = append(o.results, "it is Ready="+string(ready))
			if err != nil {
				return err
			}
			evicted, err := until(ctx, "the pod is evicted", func(ctx context.Context) (bool, error) {
				pod, err := client.CoreV1().Pods(n.namespace).Get(ctx, n.name, metav1.GetOptions{})
				return err == nil && pod.DeletionTimestamp != nil, err
			})
			if err != nil {
				return err
			}
			o.results = append(o.results, "its pod is evicted")
			if err := client.CoreV1().Nodes().Delete(ctx, n.name, metav1.DeleteOptions{}); err != nil {
				return err
			}
			deleted, err := n.gone(ctx)
			if err == nil {
				o.results = append(o.results, "its pod is deleted after the node")
			}
			o.measured = fmt.Sprintf("Unknown after %s, evicted after %s more, deleted %s after the node", seconds(unknown), seconds(evicted), seconds(deleted))
			return err
		})
	})
	return o, err
}

// faultyNode is a node that the driver simulates, with a pod.
type faultyNode struct {
	client          kubernetes.Interface
	name, namespace string
	cancel          context.CancelFunc
	renewing        sync.WaitGroup
}

// withNode runs a function with a node, and a pod of the same name on it.
func (c *cluster) withNode(ctx context.Context, client kubernetes.Interface, name string, run func(*faultyNode) error) error {
	renew, cancel := context.WithCancel(ctx)
	n := &faultyNode{client: client, name: name, namespace: name, cancel: cancel}
	defer n.stop()
	now := metav1.Now()
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
			LastHeartbeatTime: now, LastTransitionTime: now, Reason: "KubeletReady"}}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := n.renewLease(ctx, node); err != nil {
		return err
	}
	n.renewing.Go(func() { // ends with stop
		for {
			if sleep(renew, 2*time.Second); renew.Err() != nil {
				return
			}
			_ = n.renewLease(renew, node) // the next one follows
		}
	})
	if _, err := until(ctx, "the node is ready", func(ctx context.Context) (bool, error) {
		node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) == 0, err
	}); err != nil {
		return err
	}
	pod := faultyPod(name)
	patience := int64(2)
	pod.Spec.NodeName = name
	for _, taint := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: taint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &patience})
	}
	if pod, err = client.CoreV1().Pods(n.namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := client.CoreV1().Pods(n.namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return run(n)
}

// renewLease creates or renews the lease of the node, as a kubelet does.
func (n *faultyNode) renewLease(ctx context.Context, node *corev1.Node) error {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now, duration := metav1.NowMicro(), int32(40)
	lease, err := leases.Get(ctx, n.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: n.name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &duration, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err == nil {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// stop ends the renewals.
func (n *faultyNode) stop() {
	n.cancel()
	n.renewing.Wait()
}

// gone waits until the pod is deleted.
func (n *faultyNode) gone(ctx context.Context) (time.Duration, error) {
	return until(ctx, "the end of the pod", func(ctx context.Context) (bool, error) {
		_, err := n.client.CoreV1().Pods(n.namespace).Get(ctx, n.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// deletePods deletes many pods with as few requests as possible.
func deletePods(ctx context.Context, _ *cluster, client kubernetes.Interface) (o observed, err error) {
	const count, workers, namespace = 10000, 20, "many-pods"
	err = inNamespace(ctx, client, namespace, func() error {
		pods := client.CoreV1().Pods(namespace)
		began := time.Now()
		errs := make(chan error, workers)
		for w := range workers {
			go func() { // ends with its pods
				for i := w; i < count; i += workers {
					pod := faultyPod(fmt.Sprintf("pod-%05d", i))
					pod.Spec.SchedulerName = "none" // kube-scheduler leaves it alone
					if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		var err error
		for range workers {
			err = errors.Join(err, <-errs)
		}
		if err != nil {
			return err
		}
		created, began := time.Since(began), time.Now()
		left := -1
		var answers []string
		for left != 0 && len(answers) < 100 {
			last := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
			answers = append(answers, answer(last))
			list, err := pods.List(ctx, metav1.ListOptions{})
			if err = errors.Join(ctx.Err(), err); err != nil {
				return errors.Join(err, last)
			}
			left = len(list.Items)
		}
		o.results = append(o.results, fmt.Sprintf("%d of %d pods are left", left, count))
		// A request may not take longer than a minute.
		o.measured = fmt.Sprintf("deleted in %s, answers %s; created in %s", seconds(time.Since(began)), strings.Join(answers, ", "), seconds(created))
		if left > 0 {
			return fmt.Errorf("%d pods are left", left)
		}
		return nil
	})
	return o, err
}
