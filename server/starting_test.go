package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/server/mux"
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
	m := mux.NewPathRecorderMux("test")
	mount(m, whenReady(ready, serializer.NewCodecFactory(newScheme()), http.NotFoundHandler()))
	for _, path := range []string{"/api", "/api/v1", "/api/v1/namespaces/a", "/apis", "/apis/example.com", "/apis/example.com/v1",
		"/apis/example.com/v1/namespaces/a/things/b", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/example.com/v1"} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: %d, retry after %q", path, w.Code, w.Header().Get("Retry-After"))
		}
	}
	close(ready)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/example.com", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("when ready: %d", w.Code)
	}
}

// TestObjectsWhileStarting requests an existing object as soon as the port of a restarted
// server is open: no response may claim that the object does not exist.
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
	codes := make(chan map[int]int, 1)
	go func() {
		seen := map[int]int{}
		for {
			resp, err := c.Get(s.URL() + object)
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				seen[resp.StatusCode]++
			}
			select {
			case <-done:
				codes <- seen
				return
			default:
			}
		}
	}()
	startServer(t, o)
	if code, body := get(t, s, c, object); code != http.StatusOK {
		t.Errorf("when ready: %d %s", code, body)
	}
	close(done)
	seen := <-codes
	for code := range seen {
		if code != http.StatusOK && code != http.StatusServiceUnavailable {
			t.Errorf("while starting: %v", seen)
		}
	}
	if seen[http.StatusServiceUnavailable] == 0 {
		t.Logf("the server was too quick: %v", seen)
	}
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
