package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"espalier.dev/server/plugins"
)

// quotas is a server with quotas in the namespace default.
type quotaServer struct {
	*garbage
	api *kubernetes.Clientset
}

func newQuotaServer(t *testing.T) *quotaServer {
	q := &quotaServer{garbage: newGarbage(t)}
	q.api = clientset(t, q.server, nil, "application/json")
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
	eventually(q, func() error {
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
	eventually(q, func() error {
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
	path := fmt.Sprintf(plots, "default")
	q.create(path, plot("before"))
	q.quota("objects", corev1.ResourceList{count: resource.MustParse("11"), "configmaps": resource.MustParse("100")})
	q.used("objects", count, "1")
	send := func(prefix string) func(int) error {
		return func(i int) error {
			code, _, err := q.try(http.MethodPost, path, plot(fmt.Sprintf("%s-%d", prefix, i)))
			if code == http.StatusForbidden {
				return apierrors.NewForbidden(corev1.Resource("plots"), "", errors.New("exceeded"))
			}
			return err
		}
	}
	stored := func() int64 {
		s := q.server.db.store
		if _, err := s.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		return s.Snapshot().Count(s.Prefix()+"garbage.example.com/plots/default/", "")
	}
	if n := q.storm(50, send("first")); n != 10 || stored() != 11 {
		t.Errorf("%d of 50 objects were accepted, %d are stored", n, stored())
	}
	q.used("objects", count, "11")

	// A create that fails later does not use up the quota.
	q.do(http.MethodDelete, path+"/before", "")
	q.used("objects", count, "10")
	for range 5 {
		if code, _, _ := q.try(http.MethodPost, path, plot("first-0")); code != http.StatusConflict && code != http.StatusForbidden && code != http.StatusCreated {
			t.Errorf("got %d", code)
		}
	}

	// Objects are deleted while others are created: there are never too many.
	var wait sync.WaitGroup
	for i := range 50 {
		wait.Go(func() {
			if code, _, err := q.try(http.MethodDelete, fmt.Sprintf("%s/first-%d", path, i), ""); code != http.StatusOK && code != http.StatusNotFound {
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
	q.restart()
	q.api = clientset(t, q.server, nil, "application/json")
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
	urls := startCluster(t)[:1]
	ctx := context.Background()
	var api []*kubernetes.Clientset
	for range 2 {
		api = append(api, clientset(t, startServer(t, shareEtcd(t, urls)), nil, "application/json"))
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
	eventually(t, used)
	for round := range 3 {
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
		eventually(t, used)
		if err := api[round%2].CoreV1().Secrets("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, used)
	}
}

// TestOtherPlugins checks plugins on a real server: pod security with its warnings, owner
// references, and the rate of events.
func TestOtherPlugins(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Controllers = []string{"*", "-garbagecollector"} // the owners of the test do not exist
	o.EnableAdmissionPlugins = []string{"OwnerReferencesPermissionEnforcement", "EventRateLimit", "NamespaceAutoProvision"}
	o.AdmissionControlConfigFile = filepath.Join(t.TempDir(), "admission.yaml")
	o.AuditLogPath, o.AuditPolicyFile = filepath.Join(t.TempDir(), "audit.log"), filepath.Join(t.TempDir(), "audit.yaml")
	for path, text := range map[string]string{
		o.AdmissionControlConfigFile: `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 2}]
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    exemptions: {namespaces: [exempt]}
`,
		o.AuditPolicyFile: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startServer(t, o)
	ctx := context.Background()
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	warnings := &warningLog{}
	config.WarningHandler = warnings
	api := clientset(t, s, config, "application/json")
	namespace := func(name string, labels map[string]string) {
		t.Helper()
		if _, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("pod security", func(t *testing.T) {
		namespace("enforced", map[string]string{"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"})
		namespace("audited", map[string]string{"pod-security.kubernetes.io/audit": "baseline"})
		namespace("exempt", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		privileged := quotaPod("privileged", "1")
		privileged.Spec.HostNetwork = true
		privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		_, err := api.CoreV1().Pods("enforced").Create(ctx, privileged, metav1.CreateOptions{})
		const want = `pods "privileged" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), privileged (container "c" must not set securityContext.privileged=true)`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if _, err := api.CoreV1().Pods("enforced").Create(ctx, quotaPod("plain", "1"), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if got := warnings.text(); !strings.Contains(got, `would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false`) {
			t.Errorf("got warnings %q", got)
		}
		for _, name := range []string{"audited", "exempt", "default"} {
			if _, err := api.CoreV1().Pods(name).Create(ctx, privileged, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
		eventually(t, func() error {
			log, err := os.ReadFile(o.AuditLogPath)
			if err != nil || !strings.Contains(string(log), `"pod-security.kubernetes.io/audit-violations":"would violate PodSecurity \"baseline:latest\"`) {
				return fmt.Errorf("the violation is not audited: %w", err)
			}
			return nil
		})
		_, err = api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wrong", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "x"}}}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("a wrong level: %v", err)
		}
	})

	t.Run("owners", func(t *testing.T) {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "writer"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "update", "get"}},
		}}
		if _, err := api.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "writer"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "writer"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: "rbac.authorization.k8s.io", Name: "jane"}},
		}
		if _, err := api.RbacV1().RoleBindings("default").Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		jane := clientset(t, s, userConfig(t, s, "jane"), "application/json").CoreV1().ConfigMaps("default")
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "u"}
		created, err := jane.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{ref}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal("a reference of a new object:", err)
		}
		ref.BlockOwnerDeletion = new(true)
		_, err = jane.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "blocking", OwnerReferences: []metav1.OwnerReference{ref}}}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on") {
			t.Errorf("a reference that blocks: %v", err)
		}
		ref.Kind = "Nothing"
		_, err = jane.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "unknown", OwnerReferences: []metav1.OwnerReference{ref}}}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `cannot find RESTMapping for APIVersion v1 Kind Nothing: no matches for kind "Nothing" in version "v1"`) {
			t.Errorf("a reference to an unknown kind: %v", err)
		}
		created.OwnerReferences = nil
		if _, err = jane.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot set an ownerRef on a resource you can't delete") {
			t.Errorf("a changed reference: %v", err)
		}
		if _, err = api.CoreV1().ConfigMaps("default").Update(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Errorf("the administrator: %v", err)
		}
	})

	t.Run("events", func(t *testing.T) {
		var limited atomic.Int64
		var wait sync.WaitGroup
		for i := range 20 {
			wait.Go(func() {
				e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e-", i)}, InvolvedObject: corev1.ObjectReference{Namespace: "default", Name: "x"}}
				// Without a limit of retries, client-go waits and tries again.
				err := api.CoreV1().RESTClient().Post().Namespace("default").Resource("events").MaxRetries(0).Body(e).Do(ctx).Error()
				if apierrors.IsTooManyRequests(err) && strings.Contains(err.Error(), "limit reached on type Namespace for key default") {
					limited.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if limited.Load() == 0 {
			t.Error("no event was too many")
		}
	})

	t.Run("namespaces", func(t *testing.T) {
		if _, err := api.CoreV1().ConfigMaps("fresh").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := api.CoreV1().Namespaces().Get(ctx, "fresh", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// warningLog collects warnings.
type warningLog struct {
	mu   sync.Mutex
	list []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warningLog) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

func (w *warningLog) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.list, "\n")
}

// TestAdmissionPage checks that the page about admission lists all plugins in their order, whether
// they are on by default, and which are missing.
func TestAdmissionPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("builtin/docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && cells[2] != " default " && cells[2] != "---" {
			rows = append(rows, cells)
		}
	}
	all := plugins.All()
	if len(rows) != len(all) {
		t.Fatalf("the page has %d plugins, want %d", len(rows), len(all))
	}
	o := NewOptions()
	for i, p := range all {
		cells := rows[i]
		if strings.TrimSpace(cells[1]) != p.Name {
			t.Errorf("%s is at the place of %s", cells[1], p.Name)
			continue
		}
		missing := strings.Contains(cells[3], "not part of this server")
		if missing != (p.New == nil) {
			t.Errorf("%s: the page is wrong about whether it is part of the server", p.Name)
		}
		if on := strings.TrimSpace(cells[2]) == "on"; !missing && on != o.admits(p) {
			t.Errorf("%s: the page is wrong about the default", p.Name)
		}
	}
}
