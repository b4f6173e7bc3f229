package admission_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// The tests of this package share two servers, one for each schema semantics.
var servers = map[schema.Semantics]*espaliertest.Server{}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "admission-")
	if err != nil {
		log.Fatal(err)
	}
	policy := dir + "/policy.yaml"
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request, verbs: [create, update, patch, delete], resources: [{group: tests.example.com}]}]\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	auditLog = dir + "/audit.log"
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		opts := []espaliertest.Option{espaliertest.WithSemantics(sem)}
		if sem == schema.KEP {
			opts = append(opts, espaliertest.WithFlags("--audit-policy-file="+policy, "--audit-log-path="+auditLog))
		}
		if servers[sem], err = espaliertest.Run(append(opts, servertest.Store())...); err != nil {
			log.Fatal(err)
		}
	}
	code := m.Run()
	for _, s := range servers {
		if err := s.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}

// auditLog is the audit log of the server with the semantics of the documents.
var auditLog string

// env is a namespace of a server, in which a test works alone. Its label test has the name of
// the namespace, so that webhooks and policies can select it.
type env struct {
	*testing.T
	url       string
	client    *http.Client
	namespace string
}

var namespaces = struct {
	sync.Mutex
	n int
}{}

func newEnv(t *testing.T, sem schema.Semantics) *env {
	t.Helper()
	s := servers[sem]
	c, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespaces.Lock()
	namespaces.n++
	name := fmt.Sprintf("test-%d", namespaces.n)
	namespaces.Unlock()
	e := &env{T: t, url: s.URL(), client: c, namespace: name}
	e.must("POST", "/api/v1/namespaces", fmt.Sprintf(`{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {test: %s}}}`, name, name))
	s.InstallCRDs(t, []byte(widgets))
	return e
}

// widgets are a CRD with several versions, a status and a scale. Both versions have the same
// fields, but for one each.
const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.tests.example.com}
spec:
  group: tests.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: integer, maximum: 100}, color: {type: string, default: blue}, replicas: {type: integer}, old: {type: string},
        labels: {type: object, additionalProperties: {type: string}}, nested: {type: object, properties: {a: {type: string, default: x}}}}},
      status: {type: object, properties: {replicas: {type: integer}, phase: {type: string}}}}}}
  - name: v2
    served: true
    storage: false
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema: {openAPIV3Schema: {type: object, properties: {
      spec: {type: object, properties: {size: {type: integer}, color: {type: string, default: blue}, replicas: {type: integer}, new: {type: string},
        labels: {type: object, additionalProperties: {type: string}}, nested: {type: object, properties: {a: {type: string, default: x}}}}},
      status: {type: object, properties: {replicas: {type: integer}, phase: {type: string}}}}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: globals.tests.example.com}
spec:
  group: tests.example.com
  scope: Cluster
  names: {plural: globals, kind: Global}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
`

// answer is the response to a request.
type answer struct {
	code     int
	object   map[string]any
	warnings []string
}

func (a answer) message() string {
	m, _ := a.object["message"].(string)
	return m
}

func (a answer) String() string {
	text, _ := json.Marshal(a.object)
	return fmt.Sprintf("%d %s (warnings %q)", a.code, text, a.warnings)
}

// at returns the value at a path of the object, or nil.
func (a answer) at(path string) any { return at(a.object, path) }

func at(v any, path string) any {
	for _, name := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// do sends a request. The body is YAML. The method APPLY is a server-side apply, and a PATCH whose
// body is a list is a JSON patch. A PUT gets the resourceVersion that the object has.
func (e *env) do(method, path, body string) answer {
	e.Helper()
	a, err := e.try(method, path, body)
	if err != nil {
		e.Fatal(err)
	}
	return a
}

// try sends a request as do does. Other goroutines than that of the test can call it.
func (e *env) try(method, path, body string) (a answer, err error) {
	text := []byte(nil)
	if body != "" {
		if text, err = yaml.YAMLToJSON([]byte(body)); err != nil {
			return a, err
		}
	}
	contentType := "application/json"
	switch method {
	case http.MethodPatch:
		contentType = "application/merge-patch+json"
		if bytes.HasPrefix(text, []byte("[")) {
			contentType = "application/json-patch+json"
		}
	case http.MethodPut:
		now, err := e.try(http.MethodGet, path, "")
		if err != nil {
			return a, err
		}
		text = bytes.Replace(text, []byte(`"metadata":{`), fmt.Appendf(nil, `"metadata":{"resourceVersion":%q,`, now.at("metadata.resourceVersion")), 1)
	case "APPLY":
		method, path, contentType = http.MethodPatch, path+"?fieldManager=test&force=true", "application/apply-patch+yaml"
	}
	req, err := http.NewRequestWithContext(e.Context(), method, e.url+path, bytes.NewReader(text))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := e.client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a.code = resp.StatusCode
	_ = json.Unmarshal(data, &a.object)
	for _, w := range resp.Header.Values("Warning") {
		_, text, _ := strings.Cut(w, `"`)
		a.warnings = append(a.warnings, strings.TrimSuffix(text, `"`))
	}
	return a, nil
}

// must sends a request that succeeds.
func (e *env) must(method, path, body string) answer {
	e.Helper()
	a := e.do(method, path, body)
	if a.code >= 300 {
		e.Fatalf("%s %s: %v", method, path, a)
	}
	return a
}

// widgets returns the path of the widgets of the namespace in a version.
func (e *env) widgets(version string) string {
	return "/apis/tests.example.com/" + version + "/namespaces/" + e.namespace + "/widgets"
}

func widget(version, name, spec string) string {
	return fmt.Sprintf(`{apiVersion: tests.example.com/%s, kind: Widget, metadata: {name: %s}, spec: %s}`, version, name, spec)
}

// hook is a webhook over HTTPS.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	calls []*admissionv1.AdmissionRequest
}

// respond is what a webhook does. It returns nil if it has written the response.
type respond func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse

func newHook(t *testing.T, f respond) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		h.calls = append(h.calls, review.Request)
		h.mu.Unlock()
		uid := review.Request.UID
		response := f(w, r, review)
		if response == nil {
			return
		}
		if response.UID == "" {
			response.UID = uid
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// requests returns the requests that the webhook got.
func (h *hook) requests() []*admissionv1.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

func (h *hook) reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = nil
}

// caBundle returns the certificate of a webhook.
func (h *hook) caBundle() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

// allow accepts everything.
func allow(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

// patching applies a JSON patch.
func patching(patch string) respond {
	return func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	}
}

// configure stores a configuration of webhooks for the namespace of the test, and deletes it
// with the test. kind is Mutating or Validating. Each webhook is YAML; CLIENT is its
// clientConfig.
func (e *env) configure(kind, name string, h *hook, hooks ...string) {
	e.Helper()
	client := fmt.Sprintf(`clientConfig: {url: "%s", caBundle: %s}`, h.URL, h.caBundle())
	var list []string
	for i, w := range hooks {
		if !strings.Contains(w, "namespaceSelector") {
			w += fmt.Sprintf(`, namespaceSelector: {matchLabels: {test: %s}}`, e.namespace)
		}
		if !strings.Contains(w, "sideEffects") {
			w += `, sideEffects: None`
		}
		if !strings.Contains(w, "rules:") {
			w += `, rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: [widgets], operations: [CREATE, UPDATE]}]`
		}
		if !strings.Contains(w, "clientConfig") {
			w += ", " + client
		}
		list = append(list, fmt.Sprintf(`{name: hook-%d.%s.example.com, admissionReviewVersions: [v1]%s}`, i, name, w))
	}
	path := "/apis/admissionregistration.k8s.io/v1/" + strings.ToLower(kind) + "webhookconfigurations"
	e.must("POST", path, fmt.Sprintf(`{apiVersion: admissionregistration.k8s.io/v1, kind: %sWebhookConfiguration, metadata: {name: %s}, webhooks: [%s]}`,
		kind, e.namespace+"-"+name, strings.Join(list, ", ")))
	e.Cleanup(func() { e.delete(path + "/" + e.namespace + "-" + name) })
}

// delete deletes an object at the end of a test, when its context has ended. The server may have
// stopped, too.
func (e *env) delete(path string) {
	req, err := http.NewRequest(http.MethodDelete, e.url+path, nil)
	if err != nil {
		e.Fatal(err)
	}
	resp, err := e.client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}

// eventually waits until something is true.
func (e *env) eventually(what string, f func() bool) {
	e.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	e.Fatalf("it did not happen: %s", what)
}
