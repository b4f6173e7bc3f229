package espaliertest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// names returns the names of all trees.
func names(t *testing.T, c *rest.Config) string {
	t.Helper()
	list, err := trees(t, c).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, item := range list.Items {
		out = append(out, item.GetName())
	}
	return strings.Join(out, " ")
}

// plant creates a tree, and returns it.
func plant(t *testing.T, c *rest.Config, name string) *unstructured.Unstructured {
	t.Helper()
	out, err := trees(t, c).Create(t.Context(), tree(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// version returns the resourceVersion of an object as a number.
func version(t *testing.T, o metav1.Object) int64 {
	t.Helper()
	n, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestFork(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	oak := plant(t, s.Config(), "oak")
	elm := plant(t, s.Config(), "elm")
	rules := s.Inject(t, Rule{Fault: InternalError, Verbs: []string{"create"}, Resource: "trees"})
	fork := s.Fork(t)
	rules.Remove()
	if fork.URL() == s.URL() || fork.Kubeconfig() == s.Kubeconfig() {
		t.Error("a fork has the address of the server:", fork.URL(), fork.Kubeconfig())
	}

	t.Run("isolation", func(t *testing.T) {
		first := plant(t, fork.Config(), "fir") // a fault of the server would reject it
		plant(t, s.Config(), "ash")
		if err := trees(t, fork.Config()).Delete(t.Context(), "elm", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := trees(t, s.Config()).Patch(t.Context(), "oak", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		same(t, "the fork", names(t, fork.Config()), "fir oak")
		same(t, "the server", names(t, s.Config()), "ash elm oak")
		got, err := trees(t, fork.Config()).Get(t.Context(), "oak", metav1.GetOptions{})
		if err != nil || got.GetUID() != oak.GetUID() || got.GetResourceVersion() != oak.GetResourceVersion() || len(got.GetLabels()) > 0 {
			t.Errorf("the object in the fork is %v, %v", got, err)
		}
		// A fork writes nothing by itself.
		if got := version(t, first); got != version(t, elm)+1 {
			t.Errorf("the first write in the fork has revision %d, that before the fork %d", got, version(t, elm))
		}
	})
	t.Run("history", func(t *testing.T) {
		changes := func(f HistoryFilter) string {
			var all []string
			for c := range fork.History(t, f) {
				all = append(all, string(c.Action)+" "+c.Name)
			}
			return strings.Join(all, ", ")
		}
		same(t, "the history", changes(HistoryFilter{Kind: "trees"}), "create fir, delete elm")
		same(t, "the history of both", changes(HistoryFilter{Kind: "trees", From: 1}), "create oak, create elm, create fir, delete elm")
		for c := range fork.History(t) {
			if c.Revision <= version(t, elm) {
				t.Errorf("revision %d is before the fork", c.Revision)
			}
		}
	})
	t.Run("watches", func(t *testing.T) {
		w, err := trees(t, fork.Config()).Watch(t.Context(), metav1.ListOptions{ResourceVersion: oak.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for _, want := range []string{"ADDED elm", "ADDED fir", "DELETED elm"} {
			select {
			case e := <-w.ResultChan():
				same(t, "the event", string(e.Type)+" "+e.Object.(metav1.Object).GetName(), want)
			case <-time.After(time.Minute):
				t.Fatal("no event", want)
			}
		}
	})
	t.Run("CRDs", func(t *testing.T) {
		fork.InstallCRDs(t, []byte(later))
		client := kubernetes.NewForConfigOrDie(s.Config())
		if got := client.RESTClient().Get().AbsPath("/apis/example.com/v1/laters").Do(t.Context()).Error(); !apierrors.IsNotFound(got) {
			t.Error("the server has a CRD of the fork:", got)
		}
		// The schemas are those of the server.
		tabs := dynamic.NewForConfigOrDie(fork.Config()).Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "crontabs"}).Namespace("default")
		tab := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{"schedule": "never"},
		}}
		if _, err := tabs.Create(t.Context(), tab, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Error("an invalid object in the fork:", err)
		}
	})
	t.Run("Reset", func(t *testing.T) {
		fork.Reset(t)
		same(t, "the fork", names(t, fork.Config()), "elm oak")
		same(t, "the server", names(t, s.Config()), "ash elm oak")
	})
	t.Run("fork of a fork", func(t *testing.T) {
		other := fork.Fork(t)
		plant(t, other.Config(), "yew")
		same(t, "the fork", names(t, other.Config()), "elm oak yew")
		same(t, "its origin", names(t, fork.Config()), "elm oak")
		if err := fork.Stop(); err != nil {
			t.Fatal(err)
		}
		plant(t, other.Config(), "box")
		same(t, "the fork of a stopped server", names(t, other.Config()), "box elm oak yew")
	})
}

// TestForkBubble forks a server in a bubble that is outside of it.
func TestForkBubble(t *testing.T) {
	s := Start(t, WithCRDs("testdata/crds"), WithSeed(1))
	oak := plant(t, s.Config(), "oak")
	synctest.Test(t, func(t *testing.T) {
		fork := s.Fork(t)
		same(t, "the fork", names(t, fork.Config()), "oak")
		if err := trees(t, fork.Config()).Delete(t.Context(), "oak", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if again := plant(t, fork.Config(), "oak"); again.GetUID() == oak.GetUID() {
			t.Error("a new object has the UID of a deleted one:", oak.GetUID())
		}
		began := time.Now()
		time.Sleep(24 * time.Hour)
		if passed := time.Since(began); passed != 24*time.Hour {
			t.Error("the clock of the bubble has not advanced:", passed)
		}
		plant(t, fork.Config(), "elm")
		past := s.At(t, version(t, oak))
		same(t, "the past", names(t, past), "oak")
	})
	same(t, "the server", names(t, s.Config()), "oak")
}

// TestForkUsers checks that users and service accounts have the same credentials in a fork.
func TestForkUsers(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(s.Config())
	user := s.AddUser(t, "jane", "system:masters")
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fork := s.Fork(t)
	robot := rest.AnonymousClientConfig(fork.Config())
	robot.BearerToken = token.Status.Token
	user.Host = fork.URL()
	for want, c := range map[string]*rest.Config{"jane": user, "system:serviceaccount:default:robot": robot, "joe": fork.AddUser(t, "joe")} {
		self, err := kubernetes.NewForConfigOrDie(c).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil || self.Status.UserInfo.Username != want {
			t.Errorf("the user is %v, not %s: %v", self, want, err)
		}
	}
}

// TestForkControllers checks that the controllers of a fork see what was there before it.
func TestForkControllers(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(s.Config())
	owner, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fork := kubernetes.NewForConfigOrDie(s.Fork(t).Config())
	if err := fork.CoreV1().ConfigMaps("default").Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := fork.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the owned object is collected, and the namespace has a service account", func() bool {
		_, collected := fork.CoreV1().ConfigMaps("default").Get(ctx, "owned", metav1.GetOptions{})
		_, err := fork.CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{})
		return apierrors.IsNotFound(collected) && err == nil
	})
	if _, err := client.CoreV1().ConfigMaps("default").Get(ctx, "owned", metav1.GetOptions{}); err != nil {
		t.Error("the object of the server:", err)
	}
}

// TestForkMany runs forks at the same time, while the server is written to. Their goroutines and
// their memory are gone after they have stopped.
func TestForkMany(t *testing.T) {
	if testing.Short() {
		t.Skip("many servers")
	}
	s := Start(t, WithCRDs("testdata/crds"))
	for i := range 20 {
		plant(t, s.Config(), fmt.Sprint("tree-", i))
	}
	many := func(n int) {
		var wait sync.WaitGroup
		for i := range n {
			wait.Go(func() {
				fork, err := s.RunFork()
				if err != nil {
					t.Error(err)
					return
				}
				name := fmt.Sprint("fork-", i)
				if _, err := trees(t, fork.Config()).Create(context.Background(), tree(name), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if got := names(t, fork.Config()); strings.Count(got, "fork-") != 1 || strings.Count(got, "tree-") < 20 {
					t.Errorf("%s has %s", name, got)
				}
				if err := fork.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range 5 {
			plant(t, s.Config(), fmt.Sprintf("tree-%d-%d", n, i))
		}
		wait.Wait()
	}
	many(10) // what the process needs once
	before, goroutines := heap(), goruntime.NumGoroutine()
	many(50)
	if grown := heap() - before; grown > 10<<20 {
		t.Errorf("the heap has grown by %.1f MB", grown/(1<<20))
	}
	await(t, "the goroutines have ended", func() bool { return goruntime.NumGoroutine() <= goroutines+10 })
}

// TestForkErrors checks the errors of what cannot be forked, which say what to do.
func TestForkErrors(t *testing.T) {
	t.Parallel()
	stopped, err := Run()
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	etcd := Start(t, WithEtcd())
	for s, want := range map[*Server]string{stopped: "the server has stopped: fork it before", etcd: "only objects in memory can be forked or have a past: remove WithEtcd"} {
		if _, err := s.RunFork(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestAt looks at past states: they have the objects, CRDs and watches of their revision, and nothing
// changes them.
func TestAt(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	ctx := t.Context()
	at := map[string]int64{"oak": version(t, plant(t, s.Config(), "oak"))}
	at["elm oak"] = version(t, plant(t, s.Config(), "elm"))
	w, err := trees(t, s.Config()).Watch(ctx, metav1.ListOptions{ResourceVersion: fmt.Sprint(at["elm oak"])})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := trees(t, s.Config()).Delete(ctx, "oak", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := <-w.ResultChan()
	s.InstallCRDs(t, []byte(later))
	for _, want := range slices.Sorted(maps.Keys(at)) {
		past := s.At(t, at[want])
		same(t, "the past", names(t, past), want)
		if err := kubernetes.NewForConfigOrDie(past).RESTClient().Get().AbsPath("/apis/example.com/v1/laters").Do(ctx).Error(); !apierrors.IsNotFound(err) {
			t.Error("a CRD that was installed later:", err)
		}
		list, err := trees(t, past).List(ctx, metav1.ListOptions{})
		if err != nil || list.GetResourceVersion() != fmt.Sprint(at[want]) {
			t.Errorf("the revision is %s, not %d: %v", list.GetResourceVersion(), at[want], err)
		}
		readOnly(t, past)
		again, err := trees(t, past).List(ctx, metav1.ListOptions{})
		if err != nil || again.GetResourceVersion() != list.GetResourceVersion() {
			t.Errorf("the past has changed from %s to %s: %v", list.GetResourceVersion(), again.GetResourceVersion(), err)
		}
	}
	same(t, "the state before an event", names(t, s.Before(t, deleted)), "elm oak")
	same(t, "the state before an object", names(t, s.Before(t, deleted.Object)), "elm oak")
	for c := range s.History(t, HistoryFilter{From: version(t, deleted.Object.(metav1.Object))}) {
		same(t, "the state before a change", names(t, s.Before(t, c)), "elm oak")
		break
	}
	same(t, "the present", names(t, s.Config()), "elm")
}

// TestAtCRDs looks at the state before everything, and at those of CRDs that have changed or were deleted
// since.
func TestAtCRDs(t *testing.T) {
	t.Parallel()
	s := Start(t)
	ctx := t.Context()
	list, err := kubernetes.NewForConfigOrDie(s.At(t, 1)).CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 || list.ResourceVersion != "1" {
		t.Errorf("at the first revision: %v, %v", list, err)
	}
	of := func(c *rest.Config) dynamic.ResourceInterface {
		return dynamic.NewForConfigOrDie(c).Resource(runtimeschema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "laters"})
	}
	const open = "{type: object, x-kubernetes-preserve-unknown-fields: true}"
	s.InstallCRDs(t, []byte(strings.Replace(later, "{type: object}", open, 1)))
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Later", "metadata": map[string]any{"name": "a"}, "spec": "x"}}
	created, err := of(s.Config()).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.InstallCRDs(t, []byte(later)) // without the field
	await(t, "the new schema is used", func() bool {
		got, err := of(s.Config()).Get(ctx, "a", metav1.GetOptions{})
		return err == nil && got.Object["spec"] == nil
	})
	check := func(when string) {
		t.Helper()
		got, err := of(s.At(t, version(t, created))).Get(ctx, "a", metav1.GetOptions{})
		if err != nil || got.Object["spec"] != "x" {
			t.Errorf("%s: %v, %v", when, got, err)
		}
	}
	check("before the CRD has changed")
	crds := dynamic.NewForConfigOrDie(s.Config()).Resource(crdResource("v1"))
	if err := crds.Delete(ctx, "laters.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the CRD is gone", func() bool {
		_, err := crds.Get(ctx, "laters.example.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	check("before the CRD was deleted")
}

// readOnly checks that requests that write get an error that says why, and others an answer.
func readOnly(t *testing.T, past *rest.Config) {
	t.Helper()
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(past)
	_, create := trees(t, past).Create(ctx, tree("new"), metav1.CreateOptions{})
	_, patch := trees(t, past).Patch(ctx, "oak", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	_, token := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	for what, err := range map[string]error{
		"create": create, "patch": patch, "token": token,
		"delete":           trees(t, past).Delete(ctx, "oak", metav1.DeleteOptions{}),
		"deletecollection": client.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		status, ok := err.(apierrors.APIStatus)
		if !ok || status.Status().Code != http.StatusMethodNotAllowed || !strings.Contains(err.Error(), "this server shows the past state at revision") {
			t.Errorf("%s: %v", what, err)
		}
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}},
	}, metav1.CreateOptions{})
	if err != nil || !review.Status.Allowed {
		t.Errorf("a review: %v, %v", review, err)
	}
}

// TestAtErrors checks the errors for revisions that cannot be shown.
func TestAtErrors(t *testing.T) {
	t.Parallel()
	s := Start(t, WithCRDs("testdata/crds"))
	oak := version(t, plant(t, s.Config(), "oak"))
	compacted := Start(t, WithFlags("--etcd-compaction-interval=50ms"))
	client := kubernetes.NewForConfigOrDie(compacted.Config())
	await(t, "a compaction", func() bool {
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := compacted.server.At(t.Context(), 1, forkOptions(t.TempDir()))
		return err != nil && strings.Contains(err.Error(), "is compacted, and revision 1 with it: keep 4 GiB of it with --history=all")
	})
	for revision, want := range map[int64]string{oak + 1000: "is in the future: the newest is", 0: "there is no revision 0: the history begins at revision 1, with", -1: "there is no revision -1"} {
		if _, err := s.server.At(t.Context(), revision, forkOptions(t.TempDir())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("revision %d: got %v, want %s", revision, err, want)
		}
	}
	past, err := s.server.At(t.Context(), oak, forkOptions(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := past.Fork(t.Context(), forkOptions(t.TempDir())); err == nil || !strings.Contains(err.Error(), "and is read-only: fork the original server") {
		t.Error("a fork of the past:", err)
	}
	if err := past.Stop(); err != nil {
		t.Error(err)
	}
	for want, event := range map[string]any{
		"is no change":                                    watch.Event{Type: watch.Bookmark, Object: tree("a")},
		"use an object that a server has":                 tree("a"),
		"neither a watch.Event, a *Change nor an object":  "a",
		"neither a watch.Event, a *Change nor an object:": watch.Event{Type: watch.Added},
	} {
		if _, err := revisionOf(event); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
