package kubectl

import (
	"encoding/base64"
	"strings"
	"testing"

	"espalier.dev/espaliertest"
)

// TestCreateToken creates tokens of service accounts and uses them.
func TestCreateToken(t *testing.T) {
	s := sessionOf(t, espaliertest.Start(t, espaliertest.WithEtcd()))
	ca, err := base64.StdEncoding.DecodeString(s.ok(t, "config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.certificate-authority-data}"))
	if err != nil {
		t.Fatal(err)
	}
	// with returns a session that has nothing but a token.
	with := func(token string) *session {
		own := sessionOf(t, s.server)
		own.env = append(own.env, "KUBECONFIG="+own.write(t, "none", ""))
		own.flags = []string{"--server", s.ok(t, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"), "--certificate-authority", own.write(t, "ca.crt", string(ca)), "--token", token}
		return own
	}
	s.ok(t, "create", "serviceaccount", "robot")
	token := strings.TrimSpace(s.ok(t, "create", "token", "robot"))
	robot := with(token)
	robot.fails(t, `User "system:serviceaccount:default:robot" cannot list resource "secrets"`, "get", "secrets")
	contains(t, robot.ok(t, "auth", "whoami", "-o", "yaml"), "username: system:serviceaccount:default:robot", "- system:serviceaccounts:default", "authentication.kubernetes.io/credential-id")

	// A binding counts for the next request.
	s.ok(t, "create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:robot")
	contains(t, robot.ok(t, "get", "configmaps"), "kube-root-ca.crt")
	robot.fails(t, `cannot list resource "secrets"`, "get", "secrets")

	contains(t, s.ok(t, "create", "token", "robot", "--duration=10m", "--audience=vault", "-o", "yaml"), "kind: TokenRequest", "expirationSeconds: 600", "- vault", "token: ey")
	with(strings.TrimSpace(s.ok(t, "create", "token", "robot", "--audience=vault"))).fails(t, "You must be logged in to the server", "get", "configmaps")
	s.fails(t, "may not specify a duration less than 10 minutes", "create", "token", "robot", "--duration=1m")
	s.fails(t, `serviceaccounts "nobody" not found`, "create", "token", "nobody")

	s.ok(t, "create", "secret", "generic", "anchor")
	bound := with(strings.TrimSpace(s.ok(t, "create", "token", "robot", "--bound-object-kind=Secret", "--bound-object-name=anchor")))
	bound.ok(t, "get", "configmaps")
	s.ok(t, "delete", "secret", "anchor")
	bound.fails(t, "You must be logged in to the server", "get", "configmaps")

	s.ok(t, "run", "web", "--image=nginx", "--overrides", `{"spec":{"serviceAccountName":"robot"}}`)
	contains(t, s.ok(t, "get", "pod", "web", "-o", "yaml"), "serviceAccountName: robot", "name: kube-api-access-", "mountPath: /var/run/secrets/kubernetes.io/serviceaccount")
	s.fails(t, `error looking up service account default/nobody: serviceaccount "nobody" not found`, "run", "other", "--image=nginx", "--overrides", `{"spec":{"serviceAccountName":"nobody"}}`)

	s.ok(t, "delete", "serviceaccount", "robot")
	robot.fails(t, "You must be logged in to the server", "get", "configmaps")
}
