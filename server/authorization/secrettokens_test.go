package authorization_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/keyutil"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
	"espalier.dev/server/tokens"
)

// secretToken creates a Secret with a token of a service account, as kube-controller-manager does.
func secretToken(t testing.TB, o *server.Options, set kubernetes.Interface, a *corev1.ServiceAccount, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(keyDir(o), "*.key"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	key, err := keyutil.PrivateKeyFromFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "kubernetes.io/serviceaccount/"
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": tokens.LegacyIssuer, "sub": "system:serviceaccount:" + a.Namespace + ":" + a.Name,
		prefix + "namespace": a.Namespace, prefix + "secret.name": name,
		prefix + "service-account.name": a.Name, prefix + "service-account.uid": string(a.UID),
	}).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)},
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: a.Name, corev1.ServiceAccountUIDKey: string(a.UID)}}}
	if _, err := set.CoreV1().Secrets(a.Namespace).Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return token
}

// TestSecretTokens uses tokens in Secrets: they are valid as long as the Secret has them and no label forbids it, and the use is recorded.
func TestSecretTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := servertest.Options(t)
	o.AuditPolicyFile, o.AuditLogPath = policy, log
	s := servertest.Start(t, o)
	set := servertest.Clientset(t, s, nil, "")
	secrets := set.CoreV1().Secrets("default")
	robot := account(t, set, "robot")
	token := secretToken(t, o, set, robot, "manual")
	accept(t, s, token, "robot")
	today := time.Now().UTC().Format(time.DateOnly)
	secret, err := secrets.Get(t.Context(), "manual", metav1.GetOptions{})
	if err != nil || secret.Labels[tokens.LastUsedLabel] != today || string(secret.Data["token"]) != token {
		t.Errorf("%+v, %v", secret, err)
	}
	if !slices.ContainsFunc(secret.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == "kube-apiserver" && strings.Contains(m.FieldsV1.GetRawString(), tokens.LastUsedLabel)
	}) {
		t.Errorf("the label is not managed by kube-apiserver: %+v", secret.ManagedFields)
	}
	version := secret.ResourceVersion
	accept(t, s, token, "robot")
	if secret, err = secrets.Get(t.Context(), "manual", metav1.GetOptions{}); err != nil || secret.ResourceVersion != version {
		t.Errorf("the Secret was written again: %v", err)
	}

	label := func(patch string) {
		t.Helper()
		if _, err := secrets.Patch(t.Context(), "manual", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`{"metadata": {"labels": {"` + tokens.InvalidSinceLabel + `": "` + today + `"}}}`)
	reject(t, s, "a token that is marked invalid", token)
	label(`{"metadata": {"labels": {"` + tokens.InvalidSinceLabel + `": null}}}`)
	accept(t, s, token, "robot")
	label(`{"data": {"token": "bm8="}}`)
	reject(t, s, "a token that the Secret does not have any more", token)

	generated := secretToken(t, o, set, robot, "generated")
	robot.Secrets = []corev1.ObjectReference{{Name: "generated"}}
	if _, err := set.CoreV1().ServiceAccounts("default").Update(t.Context(), robot, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := servertest.Anonymous(t, s)
	config.BearerToken = generated
	resp, err := servertest.Client(t, s, config).Get(s.URL() + "/version")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := resp.Header.Get("Warning"); !strings.Contains(got, "instead of auto-generated secret-based tokens") {
		t.Errorf("the warning is %q", got)
	}
	if err := secrets.Delete(t.Context(), "generated", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reject(t, s, "the token of a deleted Secret", generated)

	last := secretToken(t, o, set, robot, "last")
	accept(t, s, last, "robot")
	if err := set.CoreV1().ServiceAccounts("default").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reject(t, s, "the token of a deleted service account", last)
	account(t, set, "robot")
	reject(t, s, "the token of another service account of the name", last)

	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	checkSecretTokenAudit(t, log)
}

// checkSecretTokenAudit checks what the audit log has about the tokens of TestSecretTokens.
func checkSecretTokenAudit(t *testing.T, log string) {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		for name, value := range e.Annotations {
			if name, ok := strings.CutPrefix(name, "authentication.k8s.io/"); ok {
				found[name+"="+value]++
			}
		}
		if e.Verb == "patch" && e.User.Username == "system:apiserver" && e.ResponseStatus.Code == http.StatusOK {
			found["labelled "+e.ObjectRef.Name]++
		}
	}
	for _, want := range []string{
		"legacy-token=system:serviceaccount:default:robot", "legacy-token-manual-secret=manual", "legacy-token-invalidated=manual/default",
		"legacy-token-autogenerated-secret=generated", "labelled manual", "labelled generated",
	} {
		if found[want] == 0 {
			t.Errorf("the audit log has no %q: %v", want, found)
		}
	}
	if found["labelled manual"] != 1 {
		t.Errorf("the Secret was labelled more than once: %v", found)
	}
}
