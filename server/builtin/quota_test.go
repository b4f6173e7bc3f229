package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/server/servertest"
)

// quotas is a server with quotas in the namespace default.
type quotaServer struct {
	*servertest.Garden
	api *kubernetes.Clientset
}

func newQuotaServer(t *testing.T) *quotaServer {
	q := &quotaServer{Garden: servertest.NewGarden(t)}
	q.api = servertest.Clientset(t, q.Server, nil, "application/json")
	return q
}

// create creates a quota, and waits until it is enforced.
func (q *quotaServer) quota(name string, hard corev1.ResourceList) {
	q.Helper()
	_, err := q.api.CoreV1().ResourceQuotas("default").Create(context.Background(),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
	if err != nil {
		q.Fatal(err)
	}
	servertest.Eventually(q, func() error {
		got, err := q.api.CoreV1().ResourceQuotas("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil || len(got.Status.Used) != len(hard) || len(got.Status.Hard) != len(hard) {
			return fmt.Errorf("the quota is not enforced: %+v %w", got.Status, err)
		}
		return nil
	})
}

// used waits until something is used.
func (q *quotaServer) used(name string, what corev1.ResourceName, want string) {
	q.Helper()
	servertest.Eventually(q, func() error {
		got, err := q.api.CoreV1().ResourceQuotas("default").Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n := got.Status.Used[what]; n.Cmp(resource.MustParse(want)) != 0 {
			return fmt.Errorf("%s of %s is used, want %s", n.String(), what, want)
		}
		return nil
	})
}

// storm sends many creates at once, and returns how many were accepted.
func (q *quotaServer) storm(n int, send func(i int) error) int {
	q.Helper()
	var accepted atomic.Int64
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			switch err := send(i); {
			case err == nil:
				accepted.Add(1)
			case !apierrors.IsForbidden(err):
				q.Error(err)
			}
		})
	}
	wait.Wait()
	return int(accepted.Load())
}

func plot(name string) string {
	return fmt.Sprintf(`{"apiVersion":"garbage.example.com/v1","kind":"Plot","metadata":{"name":%q}}`, name)
}

func quotaPod(name, cpu string) *corev1.Pod {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: requests}}}},
	}
}

// TestResourceQuota checks that concurrent creates of custom resources and pods never exceed a
// quota, while others are deleted, and that what is used is counted again.
func TestResourceQuota(t *testing.T) {
	t.Parallel()
	q := newQuotaServer(t)
	ctx := context.Background()
	const count corev1.ResourceName = "count/plots.garbage.example.com"
	path := fmt.Sprintf(servertest.Plots, "default")
	q.Create(path, plot("before"))
	q.quota("objects", corev1.ResourceList{count: resource.MustParse("11"), "configmaps": resource.MustParse("100")})
	q.used("objects", count, "1")
	send := func(prefix string) func(int) error {
		return func(i int) error {
			code, _, err := q.Try(http.MethodPost, path, plot(fmt.Sprintf("%s-%d", prefix, i)))
			if code == http.StatusForbidden {
				return apierrors.NewForbidden(corev1.Resource("plots"), "", errors.New("exceeded"))
			}
			return err
		}
	}
	stored := func() int64 {
		return q.Stored("garbage.example.com/plots/default/")
	}
	if n := q.storm(50, send("first")); n != 10 || stored() != 11 {
		t.Errorf("%d of 50 objects were accepted, %d are stored", n, stored())
	}
	q.used("objects", count, "11")

	// A create that fails later does not use up the quota.
	q.Do(http.MethodDelete, path+"/before", "")
	q.used("objects", count, "10")
	for range 5 {
		if code, _, _ := q.Try(http.MethodPost, path, plot("first-0")); code != http.StatusConflict && code != http.StatusForbidden && code != http.StatusCreated {
			t.Errorf("got %d", code)
		}
	}

	// Objects are deleted while others are created: there are never too many.
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if code, _, err := q.Try(http.MethodDelete, fmt.Sprintf("%s/first-%d", path, i), ""); code != http.StatusOK && code != http.StatusNotFound {
				t.Error(code, err)
			}
		})
	}
	for round := range 4 {
		q.storm(10, send(fmt.Sprint("round-", round)))
		if n := stored(); n > 11 {
			t.Errorf("%d objects are stored", n)
		}
	}
	wait.Wait()
	q.used("objects", count, fmt.Sprint(stored()))

	// The status is corrected after a restart, if the controller did not see a deletion.
	q.Restart()
	q.api = servertest.Clientset(t, q.Server, nil, "application/json")
	q.used("objects", count, fmt.Sprint(stored()))
	if err := q.api.CoreV1().ResourceQuotas("default").Delete(ctx, "objects", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	q.quota("pods", corev1.ResourceList{"requests.cpu": resource.MustParse("1"), "pods": resource.MustParse("100")})
	n := q.storm(30, func(i int) error {
		_, err := q.api.CoreV1().Pods("default").Create(ctx, quotaPod(fmt.Sprint("p-", i), "100m"), metav1.CreateOptions{})
		return err
	})
	if n != 10 {
		t.Errorf("%d of 30 pods were accepted, want 10", n)
	}
	_, err := q.api.CoreV1().Pods("default").Create(ctx, quotaPod("large", "1"), metav1.CreateOptions{})
	if want := `pods "large" is forbidden: exceeded quota: pods, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// A pod that has ended needs no CPU.
	all, err := q.api.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := all.Items[0]
	ended.Status.Phase = corev1.PodSucceeded
	if _, err := q.api.CoreV1().Pods("default").UpdateStatus(ctx, &ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	q.used("pods", "requests.cpu", "900m")
	q.used("pods", "pods", "9")
}

// TestQuotaServers checks that two servers on one etcd never exceed a quota together.
func TestQuotaServers(t *testing.T) {
	t.Parallel()
	c := servertest.NewCluster(t)
	ctx := context.Background()
	var api []*kubernetes.Clientset
	for range 2 {
		config := c.Start().Config()
		config.QPS = -1
		set, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		api = append(api, set)
	}
	const limit = 10
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"secrets": resource.MustParse("10")}}}
	if _, err := api[0].CoreV1().ResourceQuotas("default").Create(ctx, q, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func() error {
		for i := range api {
			got, err := api[i].CoreV1().ResourceQuotas("default").Get(ctx, "q", metav1.GetOptions{})
			if err != nil || len(got.Status.Used) != 1 {
				return fmt.Errorf("the quota is not enforced: %w", err)
			}
			all, err := api[i].CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			if n := got.Status.Used["secrets"]; n.Value() != int64(len(all.Items)) {
				return fmt.Errorf("%s secrets are counted, %d are stored", n.String(), len(all.Items))
			}
		}
		return nil
	}
	servertest.Eventually(t, used)
	rounds := 3 // of 10 seconds, most of which they wait
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		var accepted atomic.Int64
		var wait sync.WaitGroup
		for i := range 40 {
			wait.Go(func() {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d-%d", round, i)}}
				switch _, err := api[i%2].CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); {
				case err == nil:
					accepted.Add(1)
				case !apierrors.IsForbidden(err):
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := accepted.Load(); n != limit {
			t.Errorf("round %d: %d secrets were accepted, want %d", round, n, limit)
		}
		servertest.Eventually(t, used)
		if err := api[round%2].CoreV1().Secrets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Eventually(t, used)
	}
}
