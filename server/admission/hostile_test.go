package admission_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"espalier.dev/espaliertest"
	"espalier.dev/schema"
	"espalier.dev/server/servertest"
)

// written returns nil: the response has been written.
func written(f http.HandlerFunc) respond {
	return func(w http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		f(w, r)
		return nil
	}
}

// bound is the time in which every request must be answered, however slow the machine is.
const bound = time.Minute

// TestFaultyWebhooks checks that the faults of webhooks lead to clear errors within a limited
// time, and that nothing is stored, unless the configuration says that failures are ignored.
func TestFaultyWebhooks(t *testing.T) {
	t.Parallel()
	faults := []struct {
		name    string
		respond respond
		more    string
		want    string
	}{
		{name: "hang", more: ", timeoutSeconds: 1", want: "context deadline exceeded",
			respond: written(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })},
		{name: "trickle", more: ", timeoutSeconds: 1", want: "context deadline exceeded", respond: written(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		})},
		{name: "huge", want: "the response of the webhook is larger than 8 MiB", respond: written(func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
					return
				}
			}
		})},
		{name: "redirect", want: "webhooks must not redirect",
			respond: written(func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://elsewhere.invalid/", http.StatusTemporaryRedirect)
			})},
		{name: "die", want: "EOF", respond: written(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"apiVersion": "admission.k8s.io/v1", `))
			panic(http.ErrAbortHandler)
		})},
		{name: "status", want: "the server is currently unable to handle the request", respond: written(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusServiceUnavailable) })},
		{name: "html", want: "couldn't get version/kind", respond: written(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })},
		{name: "empty", want: "webhook response was absent", respond: written(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}`)
		})},
		{name: "kind", want: "no kind", respond: written(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"apiVersion": "admission.k8s.io/v1", "kind": "Other"}`)
		})},
		{name: "uid", want: `expected response.uid=`, respond: func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, UID: "other"}
		}},
		{name: "certificate", want: "certificate signed by unknown authority", respond: allow, more: "CA"},
	}
	other := base64.StdEncoding.EncodeToString(selfSigned(t, "other.example.com").ca)
	for _, f := range faults {
		for _, kind := range []string{"Mutating", "Validating"} {
			for _, policy := range []string{"Fail", "Ignore"} {
				t.Run(strings.Join([]string{f.name, kind, policy}, " "), func(t *testing.T) {
					t.Parallel()
					e := newEnv(t, schema.KEP)
					h := newHook(t, f.respond)
					more := f.more
					if more == "CA" {
						more = fmt.Sprintf(`, clientConfig: {url: "%s", caBundle: %s}`, h.URL, other)
					}
					e.configure(kind, f.name+"-"+strings.ToLower(policy), h, more+", failurePolicy: "+policy)
					name := strings.ToLower(f.name + "-" + kind + "-" + policy)
					begin := time.Now()
					a := e.do("POST", e.widgets("v1"), widget("v1", name, "{size: 1}"))
					if took := time.Since(begin); took > bound {
						t.Errorf("it took %v", took)
					}
					stored := e.do("GET", e.widgets("v1")+"/"+name, "")
					if policy == "Ignore" {
						if a.code != http.StatusCreated || stored.code != http.StatusOK || stored.at("spec.size") != 1.0 {
							t.Error(a, stored)
						}
						return
					}
					if a.code != http.StatusInternalServerError || a.at("kind") != "Status" || !strings.Contains(a.message(), `failed calling webhook "hook-0.`) || !strings.Contains(a.message(), f.want) {
						t.Errorf("want %q: %v", f.want, a)
					}
					if stored.code != http.StatusNotFound {
						t.Error("the object is stored:", stored)
					}
				})
			}
		}
	}
}

// TestLyingWebhooks checks that webhooks cannot change what they must not.
func TestLyingWebhooks(t *testing.T) {
	t.Parallel()
	for _, sem := range []schema.Semantics{schema.KEP, schema.Kubernetes} {
		t.Run(sem.String(), func(t *testing.T) {
			e := newEnv(t, sem)
			for i, c := range []struct {
				name, patch string
				create      int
				update      int
				want        string
			}{
				{"namespace", `[{"op": "replace", "path": "/metadata/namespace", "value": "default"}]`, http.StatusBadRequest, http.StatusBadRequest, "namespace of the provided object does not match"},
				{"kind", `[{"op": "replace", "path": "/kind", "value": "Other"}]`, http.StatusUnprocessableEntity, http.StatusUnprocessableEntity, `kind: Invalid value: "Other": must be Widget`},
				{"group", `[{"op": "replace", "path": "/apiVersion", "value": "other.example.com/v1"}]`, http.StatusInternalServerError, http.StatusInternalServerError, "request to convert CR from an invalid group/version: other.example.com/v1"},
				{"no kind", `[{"op": "remove", "path": "/kind"}]`, http.StatusInternalServerError, http.StatusInternalServerError, "Object 'Kind' is missing"},
				{"missing path", `[{"op": "remove", "path": "/spec/missing"}]`, http.StatusInternalServerError, http.StatusInternalServerError, "missing"},
				{"no patch", `{"op"`, http.StatusInternalServerError, http.StatusInternalServerError, "received undecodable patch in webhook response"},
				{"list", `[{"op": "replace", "path": "", "value": []}]`, http.StatusInternalServerError, http.StatusInternalServerError, ""},
				{"name", `[{"op": "replace", "path": "/metadata/name", "value": "other"}]`, 0, http.StatusUnprocessableEntity, `metadata.name: Invalid value: "other": field is immutable`},
				{"uid", `[{"op": "add", "path": "/metadata/uid", "value": "other"}]`, 0, http.StatusUnprocessableEntity, `metadata.uid: Invalid value: "other": field is immutable`},
				{"invalid", `[{"op": "add", "path": "/spec/size", "value": 1000}]`, http.StatusUnprocessableEntity, http.StatusUnprocessableEntity, "should be less than or equal to 100"},
			} {
				name := fmt.Sprintf("object-%d", i)
				e.must("POST", e.widgets("v1"), widget("v1", name, "{size: 1}"))
				before := e.must("GET", e.widgets("v1")+"/"+name, "")
				config := fmt.Sprintf("lie-%d", i)
				e.configure("Mutating", config, newHook(t, patching(c.patch)), ", failurePolicy: Fail")
				if c.create != 0 {
					a := e.do("POST", e.widgets("v1"), widget("v1", name+"-new", "{size: 1}"))
					if a.code != c.create || !strings.Contains(a.message(), c.want) {
						t.Errorf("%s: create: want %d %s, got %v", c.name, c.create, c.want, a)
					}
					if a := e.do("GET", e.widgets("v1")+"/"+name+"-new", ""); a.code != http.StatusNotFound {
						t.Errorf("%s: stored: %v", c.name, a)
					}
				}
				a := e.do("PATCH", e.widgets("v1")+"/"+name, "{spec: {size: 2}}")
				if a.code != c.update || !strings.Contains(a.message(), c.want) {
					t.Errorf("%s: update: want %d %s, got %v", c.name, c.update, c.want, a)
				}
				if after := e.must("GET", e.widgets("v1")+"/"+name, ""); after.at("metadata.resourceVersion") != before.at("metadata.resourceVersion") {
					t.Errorf("%s: the object has changed: %v", c.name, after)
				}
				e.must("DELETE", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"+e.namespace+"-"+config, "")
			}
		})
	}
}

// TestConfigurationsUnderLoad changes configurations while objects are created. Each change
// applies to the next request of its writer, and no other request fails.
func TestConfigurationsUnderLoad(t *testing.T) {
	t.Parallel()
	e := newEnv(t, schema.KEP)
	sizes := newHook(t, func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
		return patching(fmt.Sprintf(`[{"op": "add", "path": "/spec/size", "value": %s}]`, strings.TrimPrefix(r.URL.Path, "/")))(w, r, review)
	})
	e.configure("Mutating", "sizes", sizes, fmt.Sprintf(`, clientConfig: {url: "%s/1", caBundle: %s}`, sizes.URL, sizes.caBundle()))
	path := "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" + e.namespace + "-sizes"
	var stop atomic.Bool
	var load sync.WaitGroup
	var created atomic.Int32
	for worker := range 4 {
		load.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if a := e.do("POST", e.widgets("v1"), widget("v1", fmt.Sprintf("load-%d-%d", worker, i), "{}")); a.code != http.StatusCreated || a.at("spec.size") == nil {
					t.Error(a)
					return
				}
				created.Add(1)
			}
		})
	}
	changes := 30
	if testing.Short() {
		changes = 5
	}
	for i := range changes {
		size := i%90 + 2
		current := e.must("GET", path, "")
		hooks, _ := current.at("webhooks").([]any)
		hooks[0].(map[string]any)["clientConfig"].(map[string]any)["url"] = fmt.Sprintf("%s/%d", sizes.URL, size)
		e.must("PATCH", path, fmt.Sprintf(`{webhooks: %s}`, mustJSON(t, hooks)))
		if a := e.must("POST", e.widgets("v1"), widget("v1", fmt.Sprintf("mine-%d", i), "{}")); a.at("spec.size") != float64(size) {
			t.Errorf("the configuration of %d did not apply: %v", size, a)
		}
	}
	stop.Store(true)
	load.Wait()
	if created.Load() == 0 {
		t.Error("there was no load")
	}
}

// TestConnectionsEnd checks that a server that stops leaves no connections to webhooks.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "", http.StatusTeapot) }))
	h.Config.ConnState = func(c net.Conn, s http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if s == http.StateClosed || s == http.StateHijacked {
			delete(open, c)
		} else {
			open[c] = true
		}
	}
	h.StartTLS()
	t.Cleanup(h.Close)
	s := espaliertest.Start(t, servertest.Store(), espaliertest.WithCRDs([]byte(widgets)))
	e := &env{T: t, url: s.URL(), client: httpClient(t, s), namespace: "default"}
	e.configure("Validating", "v", &hook{Server: h}, `, failurePolicy: Ignore, namespaceSelector: {}`)
	e.must("POST", e.widgets("v1"), widget("v1", "a", "{}"))
	mu.Lock()
	n := len(open)
	mu.Unlock()
	if n == 0 {
		t.Fatal("the webhook was not called")
	}
	e.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/default-v")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	e.eventually("the connections are closed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})
}

// certificate is a certificate that has signed itself.
type certificate struct {
	ca   []byte
	pair tls.Certificate
}

func selfSigned(t *testing.T, names ...string) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: names,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}}
}
