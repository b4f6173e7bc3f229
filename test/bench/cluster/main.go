// Command cluster measures a simulated cluster: the time until it is ready and its memory with three nodes, and the time
// until all pods of many Deployments run on many nodes, with the memory and the CPU time that it takes. With kwokctl it
// measures a cluster of kwok's binary runtime, too, which runs kube-apiserver and etcd in place of espalier.
//
// Usage: cluster -launcher FILE -espalier FILE -components FILE [-kwokctl FILE -real DIRECTORY]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// settings are the flags.
type settings struct {
	launcher, espalier, components string
	kwokctl, real                  string
	nodes, pods, deployments       int
	idle, timeout                  time.Duration
	storage                        string
}

func main() {
	var s settings
	flag.StringVar(&s.launcher, "launcher", "", "binary of the module cluster")
	flag.StringVar(&s.espalier, "espalier", "", "binary of espalier")
	flag.StringVar(&s.components, "components", "", "binary of the module cluster/components")
	flag.StringVar(&s.kwokctl, "kwokctl", "", "binary of kwokctl, to measure its cluster, too")
	flag.StringVar(&s.real, "real", "", "directory with kube-apiserver and etcd, for kwokctl")
	flag.IntVar(&s.nodes, "nodes", 1000, "number of nodes of the large cluster")
	flag.IntVar(&s.pods, "pods", 10000, "number of pods in it")
	flag.IntVar(&s.deployments, "deployments", 20, "number of Deployments that the pods belong to")
	flag.StringVar(&s.storage, "storage", "memory", "where espalier keeps objects: memory or etcd")
	flag.DurationVar(&s.idle, "idle", 5*time.Second, "idle time before the memory is measured")
	flag.DurationVar(&s.timeout, "timeout", 30*time.Minute, "time after which to give up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run measures all clusters.
func (s *settings) run(ctx context.Context) error {
	systems := []system{&ours{settings: s}}
	if s.kwokctl != "" {
		systems = append(systems, &kwokctl{settings: s})
	}
	for _, sys := range systems {
		for _, nodes := range []int{3, s.nodes} {
			pods := s.pods
			if nodes == 3 {
				pods = 0
			}
			if err := s.measure(ctx, sys, nodes, pods); err != nil {
				return fmt.Errorf("%s: %w", sys.name(), err)
			}
		}
	}
	return nil
}

// measure starts a cluster, measures it, and stops it.
func (s *settings) measure(ctx context.Context, sys system, nodes, pods int) (err error) {
	dir, err := os.MkdirTemp("", "cluster-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begin := time.Now()
	kubeconfig, err := sys.start(ctx, dir, nodes)
	defer sys.stop()
	if err != nil {
		return err
	}
	ready := time.Since(begin)
	time.Sleep(s.idle)
	fmt.Printf("%-8s %5d nodes %6d pods  ready after %6.1fs  %v\n", sys.name(), nodes, 0, ready.Seconds(), usageOf(dir))
	if pods == 0 {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	begin = time.Now()
	if err := s.runPods(ctx, clients, pods); err != nil {
		return err
	}
	took := time.Since(begin)
	time.Sleep(s.idle)
	fmt.Printf("%-8s %5d nodes %6d pods  run after   %6.1fs  %v\n", sys.name(), nodes, pods, took.Seconds(), usageOf(dir))
	return nil
}

// runPods creates Deployments, and waits until all their pods are available.
func (s *settings) runPods(ctx context.Context, clients kubernetes.Interface, pods int) error {
	deployments := clients.AppsV1().Deployments("default")
	for i := range s.deployments {
		name, replicas := fmt.Sprintf("web-%d", i), int32(pods/s.deployments)
		labels := map[string]string{"app": name}
		_, err := deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{
				Replicas: &replicas,
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}}},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	for {
		list, err := deployments.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		available := 0
		for _, d := range list.Items {
			available += int(d.Status.AvailableReplicas)
		}
		if available >= pods/s.deployments*s.deployments {
			return nil
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods are available: %w", available, pods, context.Cause(ctx))
		}
	}
}
