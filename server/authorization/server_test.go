package authorization_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/client-go/rest"

	"espalier.dev/server/servertest"
)

const widgets = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},"spec":{
	"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
	"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// TestAuthorization uses the server as users with different roles.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
	root := servertest.Client(t, s, nil)
	if code, body := servertest.Exchange(t, root, "POST", s.URL()+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	for _, ns := range []string{"a", "b"} {
		if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const custom = "/apis/example.com/v1/namespaces/"
	servertest.Eventually(t, func() error {
		if code, body := servertest.Exchange(t, root, "POST", s.URL()+custom+"a/widgets", `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`); code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	for _, role := range []string{"view", "edit", "admin"} {
		servertest.Bind(t, admin, role, role, "a")
	}
	servertest.Bind(t, admin, "cluster-admin", "root", "")
	users := map[string]*http.Client{}
	for _, name := range []string{"view", "edit", "admin", "root", "nobody", "reader", "named"} {
		users[name] = servertest.Client(t, s, servertest.User(t, s, name))
	}
	// matrix checks who may do something. The codes of those who may not are 403.
	matrix := func(t *testing.T, method, path, body string, allowed ...string) {
		t.Helper()
		for name, c := range users {
			code, text := servertest.Exchange(t, c, method, s.URL()+path, body)
			if may := slices.Contains(allowed, name); may != (code != http.StatusForbidden) {
				t.Errorf("%s: %s %s: %d %s", name, method, path, code, text)
			}
		}
	}
	core := "/api/v1/namespaces/"
	t.Run("bootstrap roles", func(t *testing.T) {
		matrix(t, "GET", core+"a/configmaps", "", "view", "edit", "admin", "root")
		matrix(t, "GET", core+"a/configmaps?watch=true&timeoutSeconds=1", "", "view", "edit", "admin", "root")
		matrix(t, "GET", core+"b/configmaps", "", "root")
		matrix(t, "GET", "/api/v1/configmaps", "", "root")
		matrix(t, "GET", core+"a/secrets", "", "edit", "admin", "root")
		matrix(t, "POST", core+"a/configmaps?dryRun=All", `{"metadata":{"generateName":"x-"}}`, "edit", "admin", "root")
		matrix(t, "DELETE", core+"a/configmaps?dryRun=All", "", "edit", "admin", "root")
		matrix(t, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/a/roles?dryRun=All", `{"metadata":{"generateName":"x-"}}`, "admin", "root")
		matrix(t, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "", "root")
		matrix(t, "GET", core+"a", "", "view", "edit", "admin", "root")
		matrix(t, "GET", "/api/v1/nodes", "", "root")
		matrix(t, "GET", "/metrics", "", "root")
		matrix(t, "GET", "/openapi/v2", "", "view", "edit", "admin", "root", "nobody", "reader", "named")
	})
	t.Run("aggregated role", func(t *testing.T) {
		matrix(t, "GET", custom+"a/widgets", "", "root")
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "widget-viewer", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}},
		}
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		// A controller adds the rule to view, then to edit and admin.
		for _, name := range []string{"view", "edit", "admin"} {
			servertest.Eventually(t, func() error {
				if code, text := servertest.Exchange(t, users[name], "GET", s.URL()+custom+"a/widgets", ""); code != http.StatusOK {
					return fmt.Errorf("%s: %d %s", name, code, text)
				}
				return nil
			})
		}
		matrix(t, "GET", custom+"a/widgets/w", "", "view", "edit", "admin", "root")
		matrix(t, "GET", custom+"b/widgets", "", "root")
		matrix(t, "PATCH", custom+"a/widgets/w", `{"spec":{}}`, "root")
	})
	t.Run("next request", func(t *testing.T) {
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets/status"}},
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			servertest.Bind(t, admin, "reader", "reader", "")
			if code, text := servertest.Exchange(t, users["reader"], "GET", s.URL()+custom+"a/widgets/w/status", ""); code != http.StatusOK {
				t.Fatalf("the binding does not count: %d %s", code, text)
			}
			if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "reader-reader", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if code, text := servertest.Exchange(t, users["reader"], "GET", s.URL()+custom+"a/widgets/w/status", ""); code != http.StatusForbidden {
				t.Fatalf("the binding still counts: %d %s", code, text)
			}
		}
		servertest.Bind(t, admin, "reader", "reader", "")
		matrix(t, "GET", "/metrics", "", "reader", "root")
		matrix(t, "GET", custom+"a/widgets/w/status", "", "reader", "root")
	})
	t.Run("names", func(t *testing.T) {
		if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "named"},
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}, ResourceNames: []string{"w"}}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		servertest.Bind(t, admin, "named", "named", "a")
		matrix(t, "GET", custom+"a/widgets/w", "", "view", "edit", "admin", "root", "named")
		matrix(t, "GET", custom+"a/widgets/other", "", "view", "edit", "admin", "root")
		matrix(t, "GET", custom+"a/widgets?fieldSelector=metadata.name%3Dw", "", "view", "edit", "admin", "root", "named")
		matrix(t, "GET", custom+"a/widgets", "", "view", "edit", "admin", "root")
	})
	t.Run("reviews agree", func(t *testing.T) {
		for name, want := range map[string]bool{"view": true, "nobody": false} {
			set := servertest.Clientset(t, s, servertest.User(t, s, name), runtime.ContentTypeJSON)
			r, err := set.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Namespace: "a", Resource: "pods"}}}, metav1.CreateOptions{})
			if err != nil || r.Status.Allowed != want {
				t.Errorf("%s: %+v %v", name, r, err)
			}
			rules, err := set.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
				Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "a"}}, metav1.CreateOptions{})
			if err != nil || rules.Status.Incomplete {
				t.Fatal(err)
			}
			if has := slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool { return slices.Contains(r.Resources, "pods") }); has != want {
				t.Errorf("%s: %+v", name, rules.Status)
			}
			// Not everybody may ask about others.
			if _, err := set.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestImpersonation checks who may act as whom, and what of it is recorded.
func TestImpersonation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := servertest.Options(t)
	o.AuditPolicyFile, o.AuditLogPath = filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(o.AuditPolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := servertest.Start(t, o)
	admin := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON)
	if _, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "actor"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"jane"}},
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"groups"}, ResourceNames: []string{"developers"}},
		{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"robot"}},
		{Verbs: []string{"impersonate"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"uids"}, ResourceNames: []string{"42"}},
		{Verbs: []string{"impersonate"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"userextras/scopes"}, ResourceNames: []string{"view"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Bind(t, admin, "actor", "actor", "")
	const robot = "system:serviceaccount:default:robot"
	for _, tt := range []struct {
		name string
		as   rest.ImpersonationConfig
		want authenticationv1.UserInfo // without a name if it is forbidden
	}{
		{"user", rest.ImpersonationConfig{UserName: "jane"}, authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:authenticated"}}},
		{"user and group", rest.ImpersonationConfig{UserName: "jane", Groups: []string{"developers"}}, authenticationv1.UserInfo{Username: "jane", Groups: []string{"developers", "system:authenticated"}}},
		{"uid and extra", rest.ImpersonationConfig{UserName: "jane", UID: "42", Extra: map[string][]string{"scopes": {"view"}}},
			authenticationv1.UserInfo{Username: "jane", UID: "42", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"view"}}}},
		{"service account", rest.ImpersonationConfig{UserName: robot},
			authenticationv1.UserInfo{Username: robot, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}},
		{"other user", rest.ImpersonationConfig{UserName: "root"}, authenticationv1.UserInfo{}},
		{"other group", rest.ImpersonationConfig{UserName: "jane", Groups: []string{"system:masters"}}, authenticationv1.UserInfo{}},
		{"other service account", rest.ImpersonationConfig{UserName: "system:serviceaccount:default:other"}, authenticationv1.UserInfo{}},
		{"other uid", rest.ImpersonationConfig{UserName: "jane", UID: "43"}, authenticationv1.UserInfo{}},
		{"other extra", rest.ImpersonationConfig{UserName: "jane", Extra: map[string][]string{"scopes": {"edit"}}}, authenticationv1.UserInfo{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := servertest.User(t, s, "actor")
			c.Impersonate = tt.as
			r, err := servertest.Clientset(t, s, c, runtime.ContentTypeJSON).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if tt.want.Username == "" {
				if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot impersonate resource") {
					t.Errorf("got %+v, %v", r, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(r.Status.UserInfo), fmt.Sprint(tt.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	t.Run("audit", func(t *testing.T) {
		if code, _ := servertest.Exchange(t, servertest.Client(t, s, servertest.User(t, s, "intruder")), "GET", s.URL()+"/api/v1/secrets", ""); code != http.StatusForbidden {
			t.Errorf("%d", code)
		}
		find := func(what string, is func(*auditv1.Event) bool) {
			t.Helper()
			servertest.Eventually(t, func() error {
				f, err := os.Open(o.AuditLogPath)
				if err != nil {
					return err
				}
				defer f.Close()
				for lines := bufio.NewScanner(f); lines.Scan(); {
					var e auditv1.Event
					if err := json.Unmarshal(lines.Bytes(), &e); err == nil && is(&e) {
						return nil
					}
				}
				return fmt.Errorf("%s is not recorded", what)
			})
		}
		find("the denial", func(e *auditv1.Event) bool {
			return e.User.Username == "intruder" && e.Annotations["authorization.k8s.io/decision"] == "forbid" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden
		})
		find("the impersonation", func(e *auditv1.Event) bool {
			return e.User.Username == "actor" && e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "jane" &&
				e.Annotations["authorization.k8s.io/decision"] == "allow" && strings.Contains(e.Annotations["authorization.k8s.io/reason"], "system:basic-user")
		})
		find("the forbidden impersonation", func(e *auditv1.Event) bool {
			return e.User.Username == "actor" && e.ResponseStatus != nil && e.ResponseStatus.Code == http.StatusForbidden
		})
	})
}

// TestAuthorizationModes starts servers with other modes.
func TestAuthorizationModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]int{"AlwaysAllow": http.StatusOK, "AlwaysDeny": http.StatusForbidden} {
		t.Run(mode, func(t *testing.T) {
			o := servertest.Options(t)
			o.Authorization.Modes = []string{mode}
			s := servertest.Start(t, o)
			if code, body := servertest.Exchange(t, servertest.Client(t, s, servertest.User(t, s, "somebody")), "GET", s.URL()+"/api/v1/namespaces", ""); code != want {
				t.Errorf("%d %s", code, body)
			}
			roles, err := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON).RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
			if err != nil || len(roles.Items) != 0 {
				t.Errorf("there are %d cluster roles: %v", len(roles.Items), err)
			}
		})
	}
}

// TestPolicyIsReconciled changes default roles and bindings, and starts the server again.
func TestPolicyIsReconciled(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	rbac := servertest.Clientset(t, s, nil, runtime.ContentTypeJSON).RbacV1()
	role := func(name string) *rbacv1.ClusterRole {
		t.Helper()
		r, err := rbac.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	binding := func(name string) *rbacv1.ClusterRoleBinding {
		t.Helper()
		b, err := rbac.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	untouched := role("system:kube-scheduler")
	if untouched.UID == "" || untouched.CreationTimestamp.IsZero() || untouched.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" || len(role("view").Rules) < 10 {
		t.Errorf("it was not created as others are: %+v", untouched)
	}
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"extras"}}
	changed := role("system:basic-user")
	changed.Rules = []rbacv1.PolicyRule{extra}
	must(rbac.ClusterRoles().Update(ctx, changed, metav1.UpdateOptions{}))
	protected := role("system:discovery")
	protected.Annotations[rbacv1.AutoUpdateAnnotationKey], protected.Rules = "false", nil
	must(rbac.ClusterRoles().Update(ctx, protected, metav1.UpdateOptions{}))
	subjects := binding("system:public-info-viewer")
	subjects.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "extra"}}
	must(rbac.ClusterRoleBindings().Update(ctx, subjects, metav1.UpdateOptions{}))
	recreated := binding("system:monitoring")
	must(nil, rbac.ClusterRoleBindings().Delete(ctx, recreated.Name, metav1.DeleteOptions{}))
	recreated.RoleRef.Name, recreated.ResourceVersion = "view", ""
	must(rbac.ClusterRoleBindings().Create(ctx, recreated, metav1.CreateOptions{}))
	must(nil, rbac.ClusterRoles().Delete(ctx, "system:kube-dns", metav1.DeleteOptions{}))
	must(nil, rbac.Roles("kube-system").Delete(ctx, "extension-apiserver-authentication-reader", metav1.DeleteOptions{}))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	s = servertest.Start(t, o)
	rbac = servertest.Clientset(t, s, nil, runtime.ContentTypeJSON).RbacV1()
	if r := role("system:kube-scheduler"); r.ResourceVersion != untouched.ResourceVersion {
		t.Error("a role that is complete was written")
	}
	if r := role("system:basic-user"); len(r.Rules) < 2 || r.Rules[0].Resources[0] != "extras" {
		t.Errorf("rules: %+v", r.Rules)
	}
	if r := role("system:discovery"); r.Rules != nil {
		t.Errorf("a protected role has changed: %+v", r.Rules)
	}
	if b := binding("system:public-info-viewer"); len(b.Subjects) != 3 || b.Subjects[0].Name != "extra" {
		t.Errorf("subjects: %+v", b.Subjects)
	}
	if b := binding("system:monitoring"); b.RoleRef.Name != "system:monitoring" {
		t.Errorf("role: %+v", b.RoleRef)
	}
	role("system:kube-dns")
	must(rbac.Roles("kube-system").Get(ctx, "extension-apiserver-authentication-reader", metav1.GetOptions{}))
}

// TestSecurityExamples checks that the files in examples/security are valid.
func TestSecurityExamples(t *testing.T) {
	t.Parallel()
	policy, err := auditpolicy.LoadPolicyFromFile("../../examples/security/audit-policy.yaml")
	if err != nil || len(policy.Rules) < 5 {
		t.Errorf("audit policy: %v", err)
	}
	text, err := os.ReadFile("../../examples/security/authorization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(kubeconfig, `{"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"c"}}],"current-context":"x"}`)
	write(file, strings.ReplaceAll(string(text), "/etc/espalier/change-freeze.kubeconfig", kubeconfig))
	o := servertest.Options(t)
	o.Authorization.File = file
	s := servertest.Start(t, o)
	user := servertest.Client(t, s, servertest.User(t, s, "ann"))
	servertest.Bind(t, servertest.Clientset(t, s, nil, runtime.ContentTypeJSON), "edit", "ann", "default")
	// The webhook does not answer: what it is asked about is rejected, and RBAC decides about the
	// rest.
	for path, want := range map[string]int{"/api/v1/namespaces/default/configmaps": http.StatusOK, "/api/v1/namespaces/production/configmaps": http.StatusForbidden} {
		if code, body := servertest.Exchange(t, user, "GET", s.URL()+path, ""); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, body := servertest.Exchange(t, user, "DELETE", s.URL()+"/api/v1/namespaces/production/configmaps", ""); code != http.StatusInternalServerError && code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
	write(file, "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]\n")
	servertest.Eventually(t, func() error {
		if code, body := servertest.Exchange(t, user, "GET", s.URL()+"/api/v1/namespaces/production/configmaps", ""); code != http.StatusOK {
			return fmt.Errorf("the new configuration is not in use: %d %s", code, body)
		}
		return nil
	})
}
