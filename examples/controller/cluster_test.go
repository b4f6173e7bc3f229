package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"espalier.dev/cluster/clustertest"
	"espalier.dev/espaliertest"
)

// TestCluster waits until the Deployment of a Website is available, in a simulated cluster: the controllers of Kubernetes
// make its pods and report them, and the test writes no status.
func TestCluster(t *testing.T) {
	t.Parallel()
	s := newSessionOn(t, clustertest.Start(t, espaliertest.WithCRDs("crd.yaml")).Server)
	s.startManager(t, "cluster")
	site := &Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hello"},
		Spec:       WebsiteSpec{Page: "<h1>Hello</h1>", Replicas: 2},
	}
	s.must(t, s.client.Create(t.Context(), site))
	s.eventually(t, site, "hello", reports(site, metav1.ConditionTrue, "2 of 2 pods serve the page"))
	s.event(t, "Available", "2 of 2 pods serve the page")

	s.must(t, s.client.Patch(t.Context(), site, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"page": "<h1>Bye</h1>", "replicas": 3}}`))))
	s.eventually(t, site, "hello", reports(site, metav1.ConditionTrue, "3 of 3 pods serve the page"))

	// The pods are deleted with the Deployment, and the Deployment with the Website.
	s.must(t, s.client.Delete(t.Context(), site))
	s.gone(t, site, "hello")
	var pods corev1.PodList
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		err := s.client.List(ctx, &pods, client.InNamespace("default"))
		return len(pods.Items) == 0, err
	})
	if err != nil {
		t.Fatal(fmt.Errorf("%w: %d pods are left", err, len(pods.Items)))
	}
}
