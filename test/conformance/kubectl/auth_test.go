package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"espalier.dev/espaliertest"
)

// as returns a session of a user with a client certificate.
func (s *session) as(t *testing.T, name string, groups ...string) *session {
	t.Helper()
	config := s.server.AddUser(t, name, groups...)
	with := *s
	with.dir = t.TempDir()
	for file, data := range map[string][]byte{"tls.crt": config.CertData, "tls.key": config.KeyData} {
		if err := os.WriteFile(filepath.Join(with.dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with.flags = append([]string{"--client-certificate", filepath.Join(with.dir, "tls.crt"), "--client-key", filepath.Join(with.dir, "tls.key")}, s.flags...)
	return &with
}

// TestAuth runs the commands about users and roles.
func TestAuth(t *testing.T) {
	t.Parallel()
	admin := sessionOf(t, espaliertest.Start(t, espaliertest.WithEtcd())).in(t, "team")
	jane := admin.as(t, "jane", "developers")
	canI := func(t *testing.T, s *session, want string, args ...string) {
		t.Helper()
		out, code := s.run(t, append([]string{"auth", "can-i"}, args...)...)
		if got := strings.TrimSpace(out); got != want || (code == 0) != (want == "yes") {
			t.Errorf("can-i %v: %s, exit code %d", args, got, code)
		}
	}
	t.Run("whoami", func(t *testing.T) {
		contains(t, admin.ok(t, "auth", "whoami"), "Username", "Groups", "[system:masters system:authenticated]")
		contains(t, jane.ok(t, "auth", "whoami"), "jane", "[developers system:authenticated]")
		contains(t, admin.ok(t, "auth", "whoami", "--as=bob", "--as-group=ops", "--as-uid=7", "--as-user-extra=k=v", "-o", "yaml"), "username: bob", "- ops", `uid: "7"`, "- v")
	})
	t.Run("roles", func(t *testing.T) {
		canI(t, admin, "yes", "create", "pods")
		canI(t, jane, "no", "list", "pods")
		canI(t, jane, "yes", "get", "/apis")
		canI(t, jane, "no", "get", "/metrics")
		out, code := jane.run(t, "get", "pods")
		if contains(t, out, `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "team"`); code != 1 {
			t.Errorf("exit code %d", code)
		}
		admin.ok(t, "create", "role", "reader", "--verb=get,list,watch", "--resource=pods,pods/log")
		admin.ok(t, "create", "rolebinding", "jane-reads", "--role=reader", "--user=jane")
		canI(t, jane, "yes", "list", "pods")
		canI(t, jane, "yes", "get", "pods", "--subresource=log")
		canI(t, jane, "no", "list", "pods", "--namespace=default")
		canI(t, jane, "no", "list", "pods", "--all-namespaces")
		jane.ok(t, "get", "pods")
		admin.ok(t, "create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
		admin.ok(t, "create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--group=developers")
		contains(t, jane.ok(t, "get", "--raw", "/metrics"), "apiserver_request_total")
		admin.ok(t, "create", "rolebinding", "viewers", "--clusterrole=view", "--serviceaccount=team:robot")
		canI(t, admin, "yes", "list", "configmaps", "--as=system:serviceaccount:team:robot")
		canI(t, admin, "no", "list", "secrets", "--as=system:serviceaccount:team:robot")
	})
	t.Run("list", func(t *testing.T) {
		contains(t, jane.ok(t, "auth", "can-i", "--list"), "pods ", "[get list watch]", "selfsubjectaccessreviews.authorization.k8s.io", "[/metrics]")
		contains(t, admin.ok(t, "auth", "can-i", "--list"), "*.*", "[*]")
	})
	t.Run("impersonation", func(t *testing.T) {
		out, code := jane.run(t, "get", "pods", "--as=bob")
		if contains(t, out, `User "jane" cannot impersonate`); code != 1 {
			t.Errorf("exit code %d", code)
		}
		canI(t, admin, "yes", "list", "pods", "--as=jane")
		canI(t, admin, "yes", "get", "/metrics", "--as=bob", "--as-group=developers")
		canI(t, admin, "no", "get", "/metrics", "--as=bob")
	})
	t.Run("reconcile", func(t *testing.T) {
		manifest := func(verbs, user string) string {
			return admin.write(t, "rbac.yaml", `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: editor, namespace: team}
rules: [{verbs: [`+verbs+`], apiGroups: [""], resources: [configmaps]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: editors, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: editor}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+user+`}]
`)
		}
		contains(t, admin.ok(t, "auth", "reconcile", "-f", manifest("get", "ann")), "role.rbac.authorization.k8s.io/editor reconciled", "rolebinding.rbac.authorization.k8s.io/editors reconciled")
		admin.ok(t, "auth", "reconcile", "-f", manifest("update", "ben"))
		for _, user := range []string{"ann", "ben"} {
			canI(t, admin, "yes", "get", "configmaps", "--as="+user)
			canI(t, admin, "yes", "update", "configmaps", "--as="+user)
			canI(t, admin, "no", "delete", "configmaps", "--as="+user)
		}
		admin.ok(t, "auth", "reconcile", "--remove-extra-permissions", "--remove-extra-subjects", "-f", manifest("update", "ben"))
		canI(t, admin, "no", "get", "configmaps", "--as=ben")
		canI(t, admin, "no", "update", "configmaps", "--as=ann")
	})
}
