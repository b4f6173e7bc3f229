package clustertest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/cluster/clustertest"
	"espalier.dev/espaliertest"
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

// TestStages starts a cluster with stages for pods that have a label. Others stay Pending.
func TestStages(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stages.yaml")
	const labelled = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fails}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {staged: "true"}
    matchExpressions: [{key: .status.phase, operator: In, values: [Pending]}]
  next:
    statusTemplate: |
      phase: Failed
      reason: Staged
`
	if err := os.WriteFile(file, []byte(labelled), 0o600); err != nil {
		t.Fatal(err)
	}
	s := clustertest.Cluster{Nodes: 1, Stages: file}.Start(t)
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	pods := clients.CoreV1().Pods("default")
	// await creates a pod, and waits until a condition holds.
	await := func(name string, labels map[string]string, condition func(*corev1.Pod) bool) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: deployment(name, 1).Spec.Template.Spec}
		if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			pod, err = pods.Get(ctx, name, metav1.GetOptions{})
			return err == nil && condition(pod), err
		})
		if err != nil {
			t.Fatalf("%v: %+v", err, pod)
		}
	}
	await("waits", nil, func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
	// When kwok has changed a later pod, it has seen the first one, too.
	await("staged", map[string]string{"staged": "true"}, func(p *corev1.Pod) bool { return p.Status.Reason == "Staged" })
	p, err := pods.Get(t.Context(), "waits", metav1.GetOptions{})
	if err != nil || p.Status.Phase != corev1.PodPending || p.Status.StartTime != nil {
		t.Errorf("a pod without stages has %+v, %v", p.Status, err)
	}
}

// TestWithoutControllers starts a cluster whose server runs no controllers: kube-controller-manager runs all of them.
func TestWithoutControllers(t *testing.T) {
	t.Parallel()
	s := clustertest.Cluster{Nodes: 1}.Start(t, espaliertest.WithoutControllers())
	clients, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	eventually := func(what string, condition func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return condition(), nil })
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	if _, err := clients.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("a service account", func() bool {
		_, err := clients.CoreV1().ServiceAccounts("new").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	eventually("the root CA", func() bool {
		c, err := clients.CoreV1().ConfigMaps("new").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && c.Data["ca.crt"] == string(s.Config().CAData)
	})
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5")}}}
	if _, err := clients.CoreV1().ResourceQuotas("new").Create(ctx, quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the status of a quota", func() bool {
		q, err := clients.CoreV1().ResourceQuotas("new").Get(ctx, "pods", metav1.GetOptions{})
		return err == nil && !q.Status.Hard.Pods().IsZero()
	})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"things"}, Verbs: []string{"get"}}}}
	if _, err := clients.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("an aggregated role", func() bool {
		view, err := clients.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(view.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.APIGroups, "example.com") })
	})
	available(t, clients, "collected")
	if err := clients.AppsV1().Deployments("default").Delete(ctx, "collected", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the end of the pods of a Deployment", func() bool {
		pods, err := clients.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	})
	if err := clients.CoreV1().Namespaces().Delete(ctx, "new", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("the end of a namespace", func() bool {
		_, err := clients.CoreV1().Namespaces().Get(ctx, "new", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
