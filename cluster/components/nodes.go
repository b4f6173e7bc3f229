package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// maxNodes is the size of the largest clusters that Kubernetes supports.
	maxNodes = 5000
	// nodeLabel marks the nodes of this program, which removes those beyond the count.
	nodeLabel = "espalier.dev/simulated"
	// storageClass is the name of the default StorageClass.
	storageClass = "standard"
	// writers is the number of concurrent writes.
	writers = 16
)

// client returns a client configuration without a rate limit.
func client(kubeconfig string) (*rest.Config, error) {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read --kubeconfig: %w", err)
	}
	c.QPS = -1
	return c, nil
}

func newNodesCommand() *cobra.Command {
	var (
		kubeconfig string
		count      int
		timeout    time.Duration
		since      string
	)
	c := &cobra.Command{
		Use:   "nodes",
		Short: "Create the nodes of the cluster and its StorageClass, and wait until it is ready",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if count < 0 || count > maxNodes {
				return fmt.Errorf("--count is %d: must be 0 to %d", count, maxNodes)
			}
			begin, err := time.Parse(time.RFC3339Nano, since)
			if err != nil && since != "" {
				return fmt.Errorf("--since: %w", err)
			}
			config, err := client(kubeconfig)
			if err != nil {
				return err
			}
			clients, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			if err := createNodes(ctx, clients, count); err != nil {
				return err
			}
			return awaitCluster(ctx, clients, count, begin)
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`file` with the kubeconfig of an administrator")
	c.Flags().IntVar(&count, "count", 3, "`number` of nodes")
	c.Flags().StringVar(&since, "since", "", "`time` when kube-controller-manager and kube-scheduler were started, in RFC 3339: older leases are those of instances that have ended")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "`time` after which to give up")
	return c
}

// createNodes creates the nodes and the StorageClass, unless they exist, and deletes nodes beyond the count.
func createNodes(ctx context.Context, clients kubernetes.Interface, count int) error {
	ignore := func(err error) error {
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	var group errgroup.Group
	group.SetLimit(writers)
	group.Go(func() error {
		class := &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
			Provisioner: provisioner,
		}
		_, err := clients.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
		return ignore(err)
	})
	wanted := map[string]bool{}
	for i := range count {
		node := newNode(i)
		wanted[node.Name] = true
		group.Go(func() error {
			_, err := clients.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return ignore(err)
		})
	}
	existing, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: nodeLabel})
	if err != nil {
		return errors.Join(err, group.Wait())
	}
	for _, node := range existing.Items {
		if !wanted[node.Name] {
			group.Go(func() error { return ignore(clients.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})) })
		}
	}
	return group.Wait()
}

// newNode returns the node with an index. kwok adds what its stages say.
func newNode(index int) *corev1.Node {
	name := fmt.Sprintf("node-%d", index)
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("32"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	cidr := fmt.Sprintf("10.%d.%d.0/24", 128+index>>8, index&0xff)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"},
			Labels: map[string]string{
				corev1.LabelHostname:   name,
				corev1.LabelOSStable:   "linux",
				corev1.LabelArchStable: "amd64",
				nodeLabel:              "true",
			},
		},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}},
		Status: corev1.NodeStatus{
			Capacity:    resources,
			Allocatable: resources,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.16.%d.%d", 1+index/250, 1+index%250)},
				{Type: corev1.NodeHostName, Address: name},
			},
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// awaitCluster waits until count nodes are ready, and kube-controller-manager and kube-scheduler have led since a time.
func awaitCluster(ctx context.Context, clients kubernetes.Interface, count int, since time.Time) error {
	var last error
	// A list of many nodes takes time that others need to make them ready.
	interval := 50*time.Millisecond + time.Duration(count)*2*time.Millisecond
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		last = errors.Join(leads(ctx, clients, "kube-controller-manager", since), leads(ctx, clients, "kube-scheduler", since))
		if last == nil {
			last = nodesReady(ctx, clients, count)
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the cluster is not ready: %w", errors.Join(last, err))
	}
	return nil
}

// nodesReady returns an error if fewer than count nodes are ready and can be scheduled to.
func nodesReady(ctx context.Context, clients kubernetes.Interface, count int) error {
	if count == 0 {
		return nil
	}
	nodes, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: nodeLabel, ResourceVersion: "0"})
	if err != nil {
		return err
	}
	ready := 0
	for _, node := range nodes.Items {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !notReadyTaint(&node) {
				ready++
			}
		}
	}
	if ready < count {
		return fmt.Errorf("%d of %d nodes are ready", ready, count)
	}
	return nil
}

// notReadyTaint reports whether a node has the taint of new nodes, which kube-controller-manager removes.
func notReadyTaint(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady {
			return true
		}
	}
	return false
}

// leads returns an error if no instance of a program has become or stayed the leader since a time.
func leads(ctx context.Context, clients kubernetes.Interface, name string, since time.Time) error {
	lease, err := clients.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	s := lease.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.RenewTime.Time.Before(since.Truncate(time.Microsecond)) {
		return fmt.Errorf("%s has no leader", name)
	}
	return nil
}
