package espaliertest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"espalier.dev/espaliertest"
)

// bubble starts a server in a bubble of testing/synctest, and calls test there.
func bubble(t *testing.T, test func(*testing.T, *espaliertest.Server, kubernetes.Interface), opts ...espaliertest.Option) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := espaliertest.Start(t, opts...)
		test(t, s, clientset(t, s.Config()))
	})
}

func clientset(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestBubbleTokens waits until a token expires.
func TestBubbleTokens(t *testing.T) {
	bubble(t, func(t *testing.T, s *espaliertest.Server, client kubernetes.Interface) {
		accounts := client.CoreV1().ServiceAccounts("default")
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := accounts.CreateToken(t.Context(), "web", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config := rest.AnonymousClientConfig(s.Config())
		config.BearerToken = token.Status.Token
		account := clientset(t, config)
		time.Sleep(59 * time.Minute)
		// It has no access, but is known.
		if _, err := account.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		time.Sleep(3 * time.Minute)
		if _, err := account.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("the token did not expire: %v", err)
		}
	})
}

// TestBubbleElection waits until a lease expires that its holder does not renew.
func TestBubbleElection(t *testing.T) {
	bubble(t, func(t *testing.T, _ *espaliertest.Server, client kubernetes.Interface) {
		const duration = 15 * time.Second
		run := func(ctx context.Context, name string) (leads <-chan time.Time, stopped <-chan struct{}) {
			leading, done := make(chan time.Time, 1), make(chan struct{})
			go func() {
				defer close(done)
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"},
						Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name}},
					LeaseDuration: duration, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { leading <- time.Now() },
						OnStoppedLeading: func() {},
					},
				})
			}()
			return leading, done
		}
		ctx, crash := context.WithCancel(t.Context())
		leads, stopped := run(ctx, "first")
		<-leads
		second, end := context.WithCancel(t.Context())
		next, ended := run(second, "second")
		time.Sleep(2 * time.Minute)
		select {
		case <-next:
			t.Fatal("there are two leaders")
		default:
		}
		crash()
		<-stopped
		begin := time.Now()
		if took := (<-next).Sub(begin); took < duration-3*time.Second || took > duration+5*time.Second {
			t.Errorf("the next leader leads after %v", took)
		}
		end()
		<-ended
	})
}

// TestBubbleWatch waits for the bookmarks of a watch, and for its end.
func TestBubbleWatch(t *testing.T) {
	bubble(t, func(t *testing.T, _ *espaliertest.Server, client kubernetes.Interface) {
		begin := time.Now()
		w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
			AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](3600)})
		if err != nil {
			t.Fatal(err)
		}
		// A bookmark is sent if there is a newer revision.
		var writing sync.WaitGroup
		writing.Go(func() {
			for i := range 60 {
				time.Sleep(time.Minute)
				if _, err := client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a", i)}}, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		defer writing.Wait()
		bookmarks := 0
		for e := range w.ResultChan() {
			if e.Type == watch.Bookmark {
				bookmarks++
			}
		}
		if took := time.Since(begin).Round(time.Second); took != time.Hour {
			t.Errorf("the watch ended after %v", took)
		}
		if bookmarks < 30 || bookmarks > 70 {
			t.Errorf("%d bookmarks in an hour", bookmarks)
		}
	})
}

// TestBubbleInformers waits for the resyncs of an informer.
func TestBubbleInformers(t *testing.T) {
	bubble(t, func(t *testing.T, _ *espaliertest.Server, client kubernetes.Interface) {
		factory := informers.NewSharedInformerFactoryWithOptions(client, time.Hour, informers.WithNamespace("kube-system"))
		informer := factory.Core().V1().ConfigMaps().Informer()
		var added, resynced atomic.Int64
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { added.Add(1) },
			UpdateFunc: func(any, any) { resynced.Add(1) },
		}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
		time.Sleep(150 * time.Minute)
		synctest.Wait()
		if n := added.Load(); n == 0 || resynced.Load() != 2*n {
			t.Errorf("%d objects, %d updates", n, resynced.Load())
		}
		stop()
		factory.Shutdown()
	})
}

// TestBubbleRestores deletes an object that always exists, again and again: it comes back.
func TestBubbleRestores(t *testing.T) {
	bubble(t, func(t *testing.T, _ *espaliertest.Server, client kubernetes.Interface) {
		for range 3 {
			time.Sleep(time.Minute)
			services, slices := client.CoreV1().Services("default"), client.DiscoveryV1().EndpointSlices("default")
			if err := errors.Join(services.Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}),
				slices.Delete(t.Context(), "kubernetes", metav1.DeleteOptions{})); err != nil {
				t.Fatal(err)
			}
			time.Sleep(11 * time.Second)
			_, err := services.Get(t.Context(), "kubernetes", metav1.GetOptions{})
			if _, err2 := slices.Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil || err2 != nil {
				t.Error(err, err2)
			}
		}
	})
}

// TestBubbleRejects gets an error for everything that a bubble cannot have.
func TestBubbleRejects(t *testing.T) {
	bubble(t, func(t *testing.T, s *espaliertest.Server, client kubernetes.Interface) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for want, option := range map[string]espaliertest.Option{
			"etcd cannot run in a bubble":                        espaliertest.WithEtcd(),
			"keep the objects in memory":                         espaliertest.WithFlags("--etcd-servers=http://127.0.0.1:1"),
			"--client-ca-file cannot be set in a":                espaliertest.WithFlags("--client-ca-file=" + file),
			"--audit-log-path cannot be set in a ":               espaliertest.WithFlags("--audit-policy-file="+file, "--audit-log-path=-"),
			"--authentication-config cannot be set in a ":        espaliertest.WithFlags("--authentication-config=" + file),
			"--authentication-token-webhook-config-file cannot ": espaliertest.WithFlags("--authentication-token-webhook-config-file=" + file),
			"--oidc-issuer-url cannot be set in a ":              espaliertest.WithFlags("--oidc-issuer-url=https://127.0.0.1:1", "--oidc-client-id=a"),
			"--requestheader-client-ca-file cannot be set in a ": espaliertest.WithFlags("--requestheader-client-ca-file=" + file),
			"--kubeconfig-out cannot be set in a ":               espaliertest.WithFlags("--kubeconfig-out=" + file),
		} {
			if _, err := espaliertest.Run(option); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
		func() {
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, "no kubeconfig") {
					t.Error(r)
				}
			}()
			s.Kubeconfig()
		}()

		if _, err := espaliertest.KubeConfigFromREST(s.Config()); err == nil || !strings.Contains(err.Error(), "cannot be a kubeconfig") {
			t.Error(err)
		}

		// A webhook that may be ignored would never be called.
		for name, address := range map[string]admissionv1.WebhookClientConfig{
			"url": {URL: ptr.To("https://127.0.0.1:1")}, "service": {Service: &admissionv1.ServiceReference{Namespace: "default", Name: "hook"}},
		} {
			for _, policy := range []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore} {
				rules := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE"},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}
				configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
				if _, err := configurations.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
					ObjectMeta: metav1.ObjectMeta{Name: "hook"},
					Webhooks: []admissionv1.ValidatingWebhook{{Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"},
						SideEffects: ptr.To(admissionv1.SideEffectClassNone), ClientConfig: address, Rules: rules, FailurePolicy: &policy}},
				}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
				if err == nil || !strings.Contains(err.Error(), "cannot call webhooks") {
					t.Errorf("%s, %s: %v", name, policy, err)
				}
				if err := configurations.Delete(t.Context(), "hook", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		mutating := client.AdmissionregistrationV1().MutatingWebhookConfigurations()
		if _, err := mutating.Create(t.Context(), &admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Webhooks: []admissionv1.MutatingWebhook{{Name: "hook.example.com", AdmissionReviewVersions: []string{"v1"},
				SideEffects: ptr.To(admissionv1.SideEffectClassNone), ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1")},
				FailurePolicy: ptr.To(admissionv1.Ignore), Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"*"},
					Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "cannot call webhooks") {
			t.Errorf("a mutating webhook: %v", err)
		}
	})
}

// TestBubbleSides uses a server from the other side of a bubble.
func TestBubbleSides(t *testing.T) {
	t.Parallel()
	server := espaliertest.Start(t)
	panicOf := func(f func()) (message string) {
		defer func() { message = fmt.Sprint(recover()) }()
		f()
		return ""
	}
	var inside *espaliertest.Server
	synctest.Test(t, func(t *testing.T) {
		if got := panicOf(func() { server.Config() }); !strings.Contains(got, "start it in the bubble, or fork it there") {
			t.Errorf("%q", got)
		}
		o := &outside{T: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			server.Reset(o)
		}()
		<-done
		if !strings.Contains(o.message, "start it in the bubble, or fork it there") {
			t.Errorf("%q", o.message)
		}
		inside = server.Fork(t)
		inside.Config()
	})
	if got := panicOf(func() { inside.Config() }); !strings.Contains(got, "runs in a bubble of testing/synctest: use it there") {
		t.Errorf("%q", got)
	}
}

// outside is a test that records how it fails.
type outside struct {
	*testing.T
	message string
}

func (o *outside) Fatal(args ...any) {
	o.message = fmt.Sprint(args...)
	runtime.Goexit()
}

func (o *outside) Fatalf(format string, args ...any) {
	o.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestBubbleOutside starts a server in a bubble with the t of a test outside.
func TestBubbleOutside(t *testing.T) {
	t.Parallel()
	o := &outside{T: t}
	synctest.Test(t, func(*testing.T) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			espaliertest.Start(o)
		}()
		<-done
	})
	if !strings.Contains(o.message, "pass the t of the function that synctest.Test calls") {
		t.Errorf("%q", o.message)
	}
}

// TestBubbleErrors handles errors in bubbles and outside of them, at times that are years apart.
func TestBubbleErrors(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Duration(3-i) * 24 * time.Hour)
			begin := time.Now()
			utilruntime.HandleError(errors.New("an error of TestBubbleErrors"))
			if took := time.Since(begin); took != 0 {
				t.Errorf("it waits for %v", took)
			}
		})
		utilruntime.HandleError(errors.New("an error of TestBubbleErrors")) // would wait for years
	}
}

// TestBubbleRun starts a server in a bubble that is not that of a test.
func TestBubbleRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := espaliertest.Run(espaliertest.WithCRDs("testdata/crds"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestSeed makes the same objects in servers with the same seed, and in another one.
func TestSeed(t *testing.T) {
	t.Parallel()
	makeAll := func(t *testing.T, seed uint64) (all []string) {
		synctest.Test(t, func(t *testing.T) {
			s := espaliertest.Start(t, espaliertest.WithSeed(seed), espaliertest.WithCRDs("testdata/crds"))
			client := clientset(t, s.Config())
			time.Sleep(time.Second) // until the namespace has a service account
			add := func(o metav1.Object, more ...any) {
				all = append(all, fmt.Sprint(o.GetName(), o.GetUID(), o.GetCreationTimestamp().UTC(), more))
			}
			for range 2 {
				c, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				add(c)
			}
			service, err := client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			add(service, service.Spec.ClusterIP, service.Spec.Ports[0].NodePort)
			pod, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			add(pod, pod.Spec.Volumes[0].Name)
			ns, err := client.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			add(ns)
			role, err := client.RbacV1().ClusterRoles().Get(t.Context(), "view", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			add(role)
			dyn, err := dynamic.NewForConfig(s.Config())
			if err != nil {
				t.Fatal(err)
			}
			crds, err := dyn.Resource(runtimeschema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(crds.Items) == 0 {
				t.Fatal(crds, err)
			}
			for i := range crds.Items {
				add(&crds.Items[i])
			}
			crontabs := runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}
			cron, err := dyn.Resource(crontabs).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": crontabs.GroupVersion().String(), "kind": "CronTab", "metadata": map[string]any{"generateName": "a-"}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			add(cron)
		})
		return all
	}
	first, again, other := makeAll(t, 1), makeAll(t, 1), makeAll(t, 2)
	for i := range first {
		if first[i] != again[i] || first[i] == other[i] {
			t.Errorf("%s, %s, and with another seed %s", first[i], again[i], other[i])
		}
	}
	t.Log(strings.Join(first, "\n"))
}
