package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

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
	limitRequests(c, NewOptions(), ready, nil)
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
