package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
)

// TestCancelledStart checks that a start can be cancelled at any time: it returns an error,
// the process continues, and all resources are released so that the next start succeeds.
func TestCancelledStart(t *testing.T) {
	o := testOptions(t)
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	if s, err := Start(cancelled, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a cancelled context: %v, %v", s, err)
	}
	failures := 0
	for patience := 5 * time.Millisecond; ; patience += max(5*time.Millisecond, patience/5) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s, err := Start(ctx, o)
		cancel()
		if err == nil {
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			break
		}
		failures++
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", patience, err)
		}
		if patience > time.Minute {
			t.Fatal("it never starts")
		}
	}
	if failures < 3 {
		t.Errorf("the start was cancelled %d times only", failures)
	}
}

// TestStopWhileLoading stops a server before its CRDs are loaded. The hooks of the generic
// server must not end the process.
func TestStopWhileLoading(t *testing.T) {
	c := newControllers()
	begun := make(chan struct{})
	c.add(controller{name: "never-synced", synced: make(chan struct{}), run: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}})
	c.add(controller{name: "later", run: func(context.Context) error {
		t.Error("it runs although the server is not ready")
		return nil
	}})
	c.start(t.Context())
	<-begun
	for _, check := range c.checks() {
		if err := check.Check(nil); (err != nil) != (check.Name() == "controller/never-synced") {
			t.Errorf("%s: %v", check.Name(), err)
		}
	}
	c.stop()
	c.start(t.Context()) // a hook may come late
	select {
	case <-c.Ready():
		t.Error("it is ready")
	default:
	}
}

// TestControllerRestarts checks that a controller that fails or panics is reported as
// unhealthy and restarted.
func TestControllerRestarts(t *testing.T) {
	c := newControllers()
	var runs atomic.Int32
	steady := make(chan struct{})
	c.add(controller{name: "frail", run: func(ctx context.Context) error {
		switch runs.Add(1) {
		case 1:
			panic("at first")
		case 2:
			return errors.New("then")
		}
		close(steady)
		<-ctx.Done()
		return nil
	}})
	c.start(t.Context())
	defer c.stop()
	var seen []string
	for running := false; !running; {
		select {
		case <-steady:
			running = true
		case <-time.After(time.Millisecond):
			if err := c.checks()[0].Check(nil); err != nil {
				seen = append(seen, err.Error())
			}
		}
	}
	if all := strings.Join(seen, "\n"); !strings.Contains(all, "at first") || !strings.Contains(all, "then") {
		t.Errorf("the health check said %q", all)
	}
	if err := c.checks()[0].Check(nil); err != nil {
		t.Errorf("while it runs: %v", err)
	}
}

// TestUnavailableUntilReady checks that no resource appears missing while the server starts.
func TestUnavailableUntilReady(t *testing.T) {
	ready := make(chan struct{})
	m := whenReady(ready, serializer.NewCodecFactory(newScheme()), http.NotFoundHandler())
	for _, path := range []string{"/api", "/api/v1", "/api/v1/namespaces/a", "/apis", "/apis/example.com", "/apis/example.com/v1",
		"/apis/example.com/v1/namespaces/a/things/b", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d, retry after %q", path, w.Code, w.Header().Get("Retry-After"))
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/apisomething"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	close(ready)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/example.com", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("when ready: %d", w.Code)
	}
}

// TestUnavailableUsers checks that requests are not rejected as those of unknown users while the
// server starts.
func TestUnavailableUsers(t *testing.T) {
	ready := make(chan struct{})
	c := genericapiserver.NewConfig(serializer.NewCodecFactory(newScheme()))
	c.FeatureGate = utilfeature.DefaultFeatureGate
	c.RequestInfoResolver = genericapiserver.NewRequestInfoResolver(c)
	c.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, errors.New("the service account is unknown")
	})
	limitRequests(c, NewOptions(), ready)
	h := c.BuildHandlerChainFunc(http.NotFoundHandler(), c)
	get := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/namespaces", nil))
		return w.Code
	}
	if code := get(); code != http.StatusServiceUnavailable {
		t.Error("while starting:", code)
	}
	close(ready)
	if code := get(); code != http.StatusUnauthorized {
		t.Error("when ready:", code)
	}
}

// TestObjectsWhileStarting requests an existing object as soon as the port of a restarted
// server is open: no response may claim that the object does not exist, or that a user with the
// right role or token has no access.
func TestObjectsWhileStarting(t *testing.T) {
	o := testOptions(t)
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, s, nil)
	for i := range 40 {
		plural := "things" + strconv.Itoa(i)
		if code, body := exchange(t, c, http.MethodPost, s.URL()+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{
"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]s.example.com"},"spec":{"group":"example.com","scope":"Cluster",
"names":{"plural":"%[1]s","kind":"Thing%[2]d"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, i)); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	const object = "/apis/example.com/v1/things39/it"
	if code, body := exchange(t, c, http.MethodPost, s.URL()+"/apis/example.com/v1/things39", `{"apiVersion":"example.com/v1","kind":"Thing39","metadata":{"name":"it"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, body)
	}
	// An administrator, a user with a role, and a service account with a role.
	user, err := s.UserConfig("ann")
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"clusterroles": `{"metadata":{"name":"things"},"rules":[{"apiGroups":["example.com"],"resources":["*"],"verbs":["get"]}]}`,
		"clusterrolebindings": `{"metadata":{"name":"things"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"things"},
"subjects":[{"kind":"User","name":"ann"},{"kind":"ServiceAccount","name":"default","namespace":"default"}]}`,
	} {
		if code, body := exchange(t, c, http.MethodPost, s.URL()+"/apis/rbac.authorization.k8s.io/v1/"+path, body); code != http.StatusCreated {
			t.Fatalf("%d %s", code, body)
		}
	}
	var issued authenticationv1.TokenRequest
	eventually(t, func() error {
		code, body := exchange(t, c, http.MethodPost, s.URL()+"/api/v1/namespaces/default/serviceaccounts/default/token", "{}")
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, body)
		}
		return json.Unmarshal([]byte(body), &issued)
	})
	account := rest.AnonymousClientConfig(user)
	account.BearerToken = issued.Status.Token
	clients := map[string]*http.Client{"administrator": c, "user": client(t, s, user), "service account": client(t, s, account)}

	address, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	if o.SecurePort, err = strconv.Atoi(address.Port()); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var group sync.WaitGroup
	for who, c := range clients {
		group.Go(func() {
			seen := map[int]int{}
			for run := true; run; {
				select {
				case <-done:
					run = false // after a last request
				default:
				}
				resp, err := c.Get(s.URL() + object)
				if err != nil {
					time.Sleep(5 * time.Millisecond) // the port is closed
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				seen[resp.StatusCode]++
			}
			for code := range seen {
				if code != http.StatusOK && code != http.StatusServiceUnavailable {
					t.Errorf("%s: while starting: %v", who, seen)
				}
			}
			if seen[http.StatusOK] == 0 {
				t.Errorf("%s: when ready: %v", who, seen)
			}
			if seen[http.StatusServiceUnavailable] == 0 {
				t.Logf("%s: the server was too quick: %v", who, seen)
			}
		})
	}
	startServer(t, o)
	close(done)
	group.Wait()
}

// exchange sends a body and returns the status and the body of the response.
func exchange(t testing.TB, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
