package kubectl

import (
	"os"
	"strings"
	"testing"
)

// testAccess gives a service account access with roles, and uses it with a token and with
// impersonation.
func testAccess(t *testing.T, s *session) {
	const bot = "system:serviceaccount:access:bot"
	s.ok(t, "create", "serviceaccount", "bot")
	s.ok(t, "create", "configmap", "settings")
	s.fails(t, "no", "auth", "can-i", "list", "configmaps", "--as="+bot)
	s.ok(t, "create", "role", "reader", "--verb=get,list", "--resource=configmaps", "--verb=create", "--resource=roles.rbac.authorization.k8s.io")
	s.ok(t, "create", "rolebinding", "readers", "--role=reader", "--serviceaccount=access:bot")
	equal(t, s.ok(t, "auth", "can-i", "list", "configmaps", "--as="+bot), "yes\n")
	equal(t, s.ok(t, "auth", "can-i", "*", "*", "--all-namespaces"), "yes\n")
	s.fails(t, "no", "auth", "can-i", "delete", "configmaps", "--as="+bot)
	s.fails(t, "no", "auth", "can-i", "list", "configmaps", "--as="+bot, "--namespace=default")
	contains(t, columns(s.ok(t, "auth", "can-i", "--list", "--as="+bot)), "configmaps [] [] [get list create]", "[/healthz] [] [get]")

	// A user cannot grant more than they have, or act as somebody else.
	s.ok(t, "create", "role", "more", "--verb=get", "--resource=configmaps", "--as="+bot)
	s.fails(t, "is attempting to grant RBAC permissions not currently held", "create", "role", "most", "--verb=delete", "--resource=configmaps", "--as="+bot)
	s.fails(t, `User "`+bot+`" cannot create resource "rolebindings"`, "create", "rolebinding", "x", "--role=more", "--user=jane", "--as="+bot)

	token := strings.TrimSpace(s.ok(t, "create", "token", "bot", "--duration=1h"))
	with := *s
	with.env = append(os.Environ(), "KUBECONFIG="+s.write(t, "empty", ""), "HOME="+s.dir)
	ca := s.write(t, "ca.crt", string(s.server.Config().CAData))
	with.flags = append([]string{"--server", s.server.URL(), "--certificate-authority", ca, "--token", token}, s.flags...)
	contains(t, columns(with.ok(t, "auth", "whoami")), "Username "+bot, "Groups [system:serviceaccounts system:serviceaccounts:access system:authenticated]")
	contains(t, with.ok(t, "get", "configmaps", "-o", "name"), "configmap/settings\n")
	with.fails(t, `secrets is forbidden: User "`+bot+`" cannot list resource "secrets" in API group "" in the namespace "access"`, "get", "secrets")
	with.fails(t, `User "`+bot+`" cannot impersonate`, "get", "configmaps", "--as=jane")
	s.ok(t, "delete", "serviceaccount", "bot")
	with.fails(t, "Unauthorized", "get", "configmaps")

	contains(t, columns(s.ok(t, "auth", "whoami", "--as=jane", "--as-group=staff")), "Username jane", "Groups [staff system:authenticated]")
	manifest := s.ok(t, "create", "role", "later", "--verb=get", "--resource=pods", "--dry-run=client", "-o", "yaml") + "---\n" +
		s.ok(t, "create", "rolebinding", "later", "--role=later", "--user=jane", "--dry-run=client", "-o", "yaml")
	roles := s.write(t, "roles.yaml", manifest)
	contains(t, s.ok(t, "auth", "reconcile", "-f", roles), "role.rbac.authorization.k8s.io/later reconciled", "rolebinding.rbac.authorization.k8s.io/later reconciled")
}
