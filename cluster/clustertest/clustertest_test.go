package clustertest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/cluster/clustertest"
)

// deployment returns a Deployment of pods that do nothing.
func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image"}}},
			},
		},
	}
}

// available waits until a new Deployment is available.
func available(t *testing.T, clients kubernetes.Interface, name string) {
	t.Helper()
	deployments := clients.AppsV1().Deployments("default")
	d, err := deployments.Create(t.Context(), deployment(name, 2), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		d, err = deployments.Get(ctx, name, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2, err
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, d.Status)
	}
}

// TestStart starts a cluster, and empties it.
func TestStart(t *testing.T) {
	t.Parallel()
	s := clustertest.Cluster{Nodes: 2}.Start(t)
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	nodes := func() int {
		list, err := clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := nodes(); n != 2 {
		t.Errorf("it has %d nodes", n)
	}
	available(t, clients, "before")
	s.Reset(t)
	if n := nodes(); n != 2 {
		t.Errorf("it has %d nodes after Reset", n)
	}
	list, err := clients.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("Reset has left %+v, %v", list, err)
	}
	available(t, clients, "after")
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// TestStages starts a cluster in which pods stay Pending.
func TestStages(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stages.yaml")
	const never = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-never}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchLabels: {never: matches}}
  next: {delete: true}
`
	if err := os.WriteFile(file, []byte(never), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clustertest.Cluster{Nodes: 1, Stages: file}.Start(t)
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.AppsV1().Deployments("default").Create(t.Context(), deployment("waits", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pods *corev1.PodList
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		pods, err = clients.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeName != "", err
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, pods)
	}
	if p := pods.Items[0]; p.Status.Phase != corev1.PodPending {
		t.Errorf("its phase is %s", p.Status.Phase)
	}
}
