package authorization

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Flags)
		want   string
	}{
		{"defaults", func(*Flags) {}, ""},
		{"several modes", func(f *Flags) { f.Modes = []string{"RBAC", "AlwaysDeny"} }, ""},
		{"unknown mode", func(f *Flags) { f.Modes = []string{"rbac"} }, `--authorization-mode: unknown mode "rbac": must be one of AlwaysAllow, AlwaysDeny, RBAC, Webhook`},
		{"Node", func(f *Flags) { f.Modes = []string{"Node", "RBAC"} }, `kube-apiserver's mode "Node" is not part of this server`},
		{"twice", func(f *Flags) { f.Modes = []string{"RBAC", "RBAC"} }, "listed twice"},
		{"no webhook", func(f *Flags) { f.Modes = []string{"Webhook"} }, "--authorization-mode Webhook needs --authorization-webhook-config-file"},
		{"webhook without mode", func(f *Flags) { f.WebhookConfigFile = "x" }, "--authorization-webhook-config-file needs --authorization-mode Webhook"},
		{"version", func(f *Flags) { f.WebhookVersion = "v2" }, `--authorization-webhook-version "v2": must be v1 or v1beta1`},
		{"negative", func(f *Flags) { f.WebhookUnauthorizedTTL = -1 }, "must not be negative"},
		{"file and mode", func(f *Flags) { f.File, f.Modes = "x", []string{"RBAC"} }, "--authorization-config cannot be combined"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := DefaultFlags()
			tt.change(&f)
			err := f.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// rbac is an authorizer that allows one user, and counts its questions.
type rbac struct {
	authorizer.AuthorizerFunc
	authorizer.RuleResolver
}

func newRBAC() Rules {
	return rbac{func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "known" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}, authorizerfactory.NewAlwaysDenyAuthorizer()}
}

func create(t *testing.T, f Flags) *Authorizer {
	t.Helper()
	a, err := New(Config{Flags: f, OpenPaths: []string{"/livez"}, RBAC: newRBAC(), backoff: &wait.Backoff{Steps: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ask returns the decision about a user, who gets pods unless there is a path.
func ask(t *testing.T, a *Authorizer, name, path string, groups ...string) authorizer.Decision {
	t.Helper()
	attr := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: "get", Path: path}
	if path == "" {
		attr.ResourceRequest, attr.Resource, attr.Namespace = true, "pods", "ns"
	}
	d, _, err := a.Authorize(t.Context(), attr)
	if err != nil {
		t.Logf("%s %s: %v", name, path, err)
	}
	return d
}

const (
	allow     = authorizer.DecisionAllow
	deny      = authorizer.DecisionDeny
	noOpinion = authorizer.DecisionNoOpinion
)

func TestModes(t *testing.T) {
	t.Parallel()
	for modes, want := range map[string]map[string]authorizer.Decision{
		"":                {"known": allow, "unknown": noOpinion},
		"RBAC":            {"known": allow, "unknown": noOpinion},
		"AlwaysDeny":      {"known": noOpinion, "unknown": noOpinion},
		"RBAC,AlwaysDeny": {"known": allow, "unknown": noOpinion},
		"AlwaysAllow":     {"known": allow, "unknown": allow},
	} {
		f := DefaultFlags()
		if modes != "" {
			f.Modes = strings.Split(modes, ",")
		}
		a := create(t, f)
		for name, want := range want {
			if got := ask(t, a, name, ""); got != want {
				t.Errorf("%s: %s: got %v, want %v", modes, name, got, want)
			}
		}
		if ask(t, a, "somebody", "", "system:masters") != allow || ask(t, a, "system:anonymous", "/livez") != allow {
			t.Errorf("%s: administrators or health are not allowed", modes)
		}
		if modes != "AlwaysAllow" && ask(t, a, "unknown", "/livez/etcd") != noOpinion {
			t.Errorf("%s: a path below health is allowed", modes)
		}
		if uses := strings.Contains(modes, "RBAC") || modes == ""; a.UsesRBAC() != uses {
			t.Errorf("%s: uses RBAC: %v", modes, !uses)
		}
	}
}

// hook is a webhook that answers by the name of the user.
type hook struct {
	*httptest.Server
	kubeconfig string
	calls      atomic.Int32
	last       atomic.Pointer[authorizationv1.SubjectAccessReview]
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	release := make(chan struct{})
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.last.Store(review.DeepCopy())
		switch review.Spec.User {
		case "allowed":
			review.Status.Allowed = true
		case "denied":
			review.Status.Denied = true
		case "both":
			review.Status.Allowed, review.Status.Denied = true, true
		case "broken":
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		case "redirected":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		case "large":
			_, _ = w.Write(bytes.Repeat([]byte(" "), 100<<20))
			return
		case "hanging":
			select {
			case <-r.Context().Done():
			case <-release:
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(h.Close)
	t.Cleanup(func() { close(release) })
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	write(t, filepath.Join(dir, "ca.pem"), string(ca))
	h.kubeconfig = filepath.Join(dir, "kubeconfig")
	write(t, h.kubeconfig, fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: ca.pem}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, h.URL))
	return h
}

func write(t *testing.T, path, text string) {
	t.Helper()
	// A file that is read while it is written must never look complete.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := DefaultFlags()
	f.Modes, f.WebhookConfigFile = []string{"Webhook", "RBAC"}, h.kubeconfig
	a := create(t, f)
	for name, want := range map[string]authorizer.Decision{
		"allowed": allow, "denied": deny, "both": deny, "unknown": noOpinion, "known": allow,
		"broken": noOpinion, "redirected": noOpinion, "large": noOpinion,
	} {
		if got := ask(t, a, name, ""); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	before := h.calls.Load()
	if ask(t, a, "allowed", "") != allow || ask(t, a, "denied", "") != deny || h.calls.Load() != before {
		t.Error("answers are not cached")
	}
	if ask(t, a, "x", "", "system:masters") != allow || ask(t, a, "x", "/livez") != allow || h.calls.Load() != before {
		t.Error("the webhook is asked about administrators or health")
	}
	f.WebhookAuthorizedTTL, f.WebhookUnauthorizedTTL = 0, 0
	a = create(t, f)
	before = h.calls.Load()
	ask(t, a, "allowed", "")
	ask(t, a, "allowed", "")
	if h.calls.Load() != before+2 {
		t.Error("answers are cached")
	}
	if _, _, incomplete, err := a.RulesFor(t.Context(), &user.DefaultInfo{Name: "x"}, "ns"); !incomplete || err == nil {
		t.Errorf("the rules of a webhook are complete: %v", err)
	}
}

// structured returns a configuration with a webhook.
func structured(h *hook, timeout, failure, condition string, also ...string) string {
	text := fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: hook.example.com
  webhook:
    timeout: %s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: %s
    authorizedTTL: 1h
    unauthorizedTTL: 1h
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}
`, timeout, failure, h.kubeconfig)
	if condition != "" {
		text += fmt.Sprintf("    matchConditions: [{expression: %q}]\n", condition)
	}
	for _, mode := range also {
		text += fmt.Sprintf("- {type: %s, name: %s}\n", mode, strings.ToLower(mode))
	}
	return text
}

func TestStructured(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := DefaultFlags()
	f.File = filepath.Join(t.TempDir(), "config.yaml")
	write(t, f.File, structured(h, "1s", "Deny", "has(request.resourceAttributes) && request.user != 'known'", "RBAC"))
	a := create(t, f)
	for name, want := range map[string]authorizer.Decision{
		"allowed": allow, "denied": deny, "unknown": noOpinion, "known": allow, "broken": deny, "redirected": deny, "hanging": deny,
	} {
		if got := ask(t, a, name, ""); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if r := h.last.Load(); r == nil || r.Spec.ResourceAttributes == nil || r.Spec.ResourceAttributes.Resource != "pods" || r.Spec.User == "known" {
		t.Errorf("the webhook got %+v", r)
	}
	before := h.calls.Load()
	if ask(t, a, "allowed", "/metrics") != noOpinion || ask(t, a, "known", "") != allow || h.calls.Load() != before {
		t.Error("the webhook is asked although its condition is false")
	}
	for text, want := range map[string]string{
		"":                        "at least one authorization mode must be defined",
		"kind: X\napiVersion: v1": `no kind "X" is registered`,
		structured(h, "1s", "Deny", "request.nothing"):                                                  "undefined field 'nothing'",
		structured(h, "1s", "Deny", "optional.of(1)"+strings.Repeat(".optMap(x, x)", 30)+".hasValue()"): "the expression is too complex to be compiled",
		structured(h, "1m", "Deny", ""):                                                                 "must be > 0s and <= 30s",
		structured(h, "1s", "Ignore", ""):                                                               "failurePolicy",
		structured(h, "1s", "Deny", "", "Node"):                                                         `Unsupported value: "Node"`,
		strings.ReplaceAll(structured(h, "1s", "Deny", "", "RBAC"), "name: rbac", "name: other"):        "expected name rbac for authorizer RBAC instead of other",
		strings.Replace(structured(h, "1s", "Deny", ""), "type: KubeConfigFile, kubeConfigFile: "+fmt.Sprintf("%q", h.kubeconfig), "type: InClusterConfig", 1): "connectionInfo.type: must be KubeConfigFile",
	} {
		write(t, f.File, text)
		if _, err := New(Config{Flags: f, RBAC: newRBAC()}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %s", text, err, want)
		}
	}
}

// TestReloadInvalid checks that an invalid configuration does not replace a valid one.
func TestReloadInvalid(t *testing.T) {
	t.Parallel()
	h := newHook(t)
	f := DefaultFlags()
	f.File = filepath.Join(t.TempDir(), "config.yaml")
	valid := structured(h, "30s", "Deny", "", "RBAC")
	write(t, f.File, valid)
	a := create(t, f)
	for _, bad := range []string{"authorizers: [", structured(h, "30s", "Deny", ""), structured(h, "30s", "Deny", "", "AlwaysAllow")} {
		write(t, f.File, bad)
		if changed, err := a.reload(); changed || err == nil {
			t.Errorf("it is valid: %s", bad)
		}
		if changed, err := a.reload(); changed || err != nil {
			t.Errorf("an error is reported twice: %v", err)
		}
		if ask(t, a, "unknown", "") != noOpinion || ask(t, a, "known", "") != allow {
			t.Errorf("an invalid configuration is in use: %s", bad)
		}
	}
	write(t, f.File, valid)
	if changed, err := a.reload(); changed || err != nil {
		t.Errorf("the configuration has changed: %v", err)
	}
}
