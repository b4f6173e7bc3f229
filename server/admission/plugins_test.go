package admission_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"espalier.dev/server/servertest"
)

// plainPod returns a pod with a container.
func plainPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// TestOtherPlugins checks plugins on a real server: pod security with its warnings, resources
// that need a quota, and owner references.
func TestOtherPlugins(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Controllers = []string{"*", "-garbagecollector"} // the owners of the test do not exist
	o.EnableAdmissionPlugins = []string{"OwnerReferencesPermissionEnforcement"}
	o.AdmissionControlConfigFile = filepath.Join(t.TempDir(), "admission.yaml")
	o.AuditLogPath, o.AuditPolicyFile = filepath.Join(t.TempDir(), "audit.log"), filepath.Join(t.TempDir(), "audit.yaml")
	for path, text := range map[string]string{
		o.AdmissionControlConfigFile: `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    exemptions: {namespaces: [exempt]}
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-node-critical]}]}]
`,
		o.AuditPolicyFile: "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := servertest.Start(t, o)
	ctx := context.Background()
	config, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	warnings := &warningLog{}
	config.WarningHandler = warnings
	api := servertest.Clientset(t, s, config, "application/json")
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
		privileged := plainPod("privileged")
		privileged.Spec.HostNetwork = true
		privileged.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		_, err := api.CoreV1().Pods("enforced").Create(ctx, privileged, metav1.CreateOptions{})
		const want = `pods "privileged" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true), privileged (container "c" must not set securityContext.privileged=true)`
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if _, err := api.CoreV1().Pods("enforced").Create(ctx, plainPod("plain"), metav1.CreateOptions{}); err != nil {
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
		servertest.Eventually(t, func() error {
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

	t.Run("limited resources", func(t *testing.T) {
		critical := plainPod("critical")
		critical.Spec.PriorityClassName = "system-node-critical"
		_, err := api.CoreV1().Pods("default").Create(ctx, critical, metav1.CreateOptions{})
		if want := "insufficient quota to match these scopes: [{PriorityClass In [system-node-critical]}]"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
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
		jane := servertest.Clientset(t, s, servertest.User(t, s, "jane"), "application/json").CoreV1().ConfigMaps("default")
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
