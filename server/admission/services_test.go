package admission_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"espalier.dev/espaliertest"
	"espalier.dev/server/servertest"
)

func httpClient(t *testing.T, s *espaliertest.Server) *http.Client {
	t.Helper()
	c, err := rest.HTTPClientFor(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestServices calls admission and conversion webhooks that are services.
func TestServices(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t, "external.default.svc", "elsewhere.default.svc", "missing.default.svc")
	bundle := base64.StdEncoding.EncodeToString(cert.ca)
	var mu sync.Mutex
	var paths []string
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.Host+r.URL.Path)
		mu.Unlock()
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request := review["request"].(map[string]any)
		response := map[string]any{"uid": request["uid"], "allowed": true}
		if review["kind"] == "ConversionReview" {
			objects := request["objects"].([]any)
			for _, obj := range objects {
				obj.(map[string]any)["apiVersion"] = request["desiredAPIVersion"]
				obj.(map[string]any)["spec"] = map[string]any{"color": "converted"}
			}
			response = map[string]any{"uid": request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"}}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
	}))
	h.TLS = &tls.Config{Certificates: []tls.Certificate{cert.pair}}
	h.StartTLS()
	t.Cleanup(h.Close)
	u, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}

	conversion := fmt.Sprintf(`{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: elsewhere, namespace: default, path: /convert}, caBundle: %s}}}`, bundle)
	crd := strings.Replace(widgets, "scope: Namespaced\n", "scope: Namespaced\n  conversion: "+conversion+"\n", 1)
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithFlags("--service-resolver=elsewhere.default="+h.URL), espaliertest.WithCRDs([]byte(crd)))
	e := &env{T: t, url: s.URL(), client: httpClient(t, s), namespace: "default"}
	hook := &hook{Server: h}
	client := func(name string, port string) string {
		return fmt.Sprintf(`, namespaceSelector: {}, clientConfig: {service: {name: %s, namespace: default, port: %s, path: /%s}, caBundle: %s}`, name, port, name, bundle)
	}
	last := func(want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(paths) == 0 || paths[len(paths)-1] != want {
			t.Errorf("got %q, want %s", paths, want)
		}
	}

	e.configure("Validating", "elsewhere", hook, client("elsewhere", "443"))
	e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
	last("elsewhere.default.svc:443/elsewhere")
	if a := e.must("GET", e.widgets("v2")+"/a", ""); a.at("spec.color") != "converted" {
		t.Error(a)
	}
	last("elsewhere.default.svc:443/convert")
	e.must("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/default-elsewhere", "")

	e.must("POST", "/api/v1/namespaces/default/services", `{apiVersion: v1, kind: Service, metadata: {name: external}, spec: {type: ExternalName, externalName: localhost}}`)
	e.configure("Validating", "external", hook, client("external", u.Port()))
	e.must("POST", e.widgets("v1"), widget("v1", "b", "{}"))
	last("external.default.svc:" + u.Port() + "/external")
	e.must("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/default-external", "")

	e.configure("Mutating", "missing", hook, client("missing", "443"))
	a := e.do("POST", e.widgets("v1"), widget("v1", "c", "{}"))
	if a.code != http.StatusInternalServerError || !strings.Contains(a.message(), `the service default/missing has no address: services "missing" not found: create the service with an EndpointSlice on this server, or set --service-resolver=missing.default=URL`) {
		t.Error(a)
	}
	e.must("POST", "/api/v1/namespaces/default/services", `{apiVersion: v1, kind: Service, metadata: {name: missing}, spec: {ports: [{port: 443}]}}`)
	if a := e.do("POST", e.widgets("v1"), widget("v1", "c", "{}")); a.code != http.StatusInternalServerError || !strings.Contains(a.message(), `no endpoints available for service "missing"`) {
		t.Error(a)
	}
	// The endpoint does not answer, but its address is used.
	e.must("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: missing-1, labels: {kubernetes.io/service-name: missing}},
		addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}], ports: [{name: "", port: 9}]}`)
	e.must("PATCH", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/default-missing", fmt.Sprintf(`{webhooks: [{name: a.b.c, admissionReviewVersions: [v1], sideEffects: None, timeoutSeconds: 1,
		rules: [{apiGroups: [tests.example.com], apiVersions: ["*"], resources: ["*"], operations: ["*"]}], clientConfig: {service: {name: missing, namespace: default}, caBundle: %s}}]}`, bundle))
	if a := e.do("POST", e.widgets("v1"), widget("v1", "c", "{}")); a.code != http.StatusInternalServerError || strings.Contains(a.message(), "has no address") {
		t.Error(a)
	}
}
