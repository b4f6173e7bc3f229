package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// send sends a request and returns the response without its body.
func send(t testing.TB, c *http.Client, method, url string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp
}

// wantBusy checks that a response asks the client to retry later.
func wantBusy(t testing.TB, resp *http.Response) {
	t.Helper()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("got %d, Retry-After %q; want 429 with Retry-After", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}

// TestMutatingLimit holds the only seat for writes with a request whose body does not end.
func TestMutatingLimit(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"AlwaysAllow"}
	o.MaxMutatingRequestsInFlight = 1
	s := servertest.Start(t, o)
	joe, loopback := of(t, s, "joe"), servertest.Client(t, s, s.Loopback())

	body, end := io.Pipe()
	held := make(chan *http.Response, 1)
	go func() {
		defer close(held)
		held <- send(t, of(t, s, "joe"), http.MethodPost, s.URL()+servertest.CRDs, body)
	}()
	// So much of the body is only read when the request holds the seat.
	if _, err := end.Write([]byte(strings.Repeat(" ", server.MaxRequestBody*2/3))); err != nil {
		t.Fatal(err)
	}
	broken := func() io.Reader { return strings.NewReader("{}") }
	servertest.Eventually(t, func() error {
		resp := send(t, joe, http.MethodPost, s.URL()+servertest.CRDs, broken())
		if resp.StatusCode != http.StatusTooManyRequests {
			return fmt.Errorf("a second write: %d", resp.StatusCode)
		}
		wantBusy(t, resp)
		return nil
	})
	if resp := send(t, joe, http.MethodGet, s.URL()+servertest.CRDs, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a read: %d", resp.StatusCode)
	}
	if resp := send(t, loopback, http.MethodPost, s.URL()+servertest.CRDs, broken()); resp.StatusCode == http.StatusTooManyRequests {
		t.Error("the server's own client is limited")
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if resp := send(t, servertest.Client(t, s, servertest.Anonymous(t, s)), http.MethodGet, s.URL()+path, nil); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if err := end.Close(); err != nil {
		t.Fatal(err)
	}
	if resp := <-held; resp.StatusCode != http.StatusBadRequest {
		t.Errorf("the request that held the seat: %d", resp.StatusCode)
	}
	if resp := send(t, joe, http.MethodPost, s.URL()+servertest.CRDs, broken()); resp.StatusCode == http.StatusTooManyRequests {
		t.Error("the seat was not given back")
	}
}

// TestSelectorLimit sends selectors with many requirements.
func TestSelectorLimit(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	c := servertest.Client(t, s, nil)
	for _, path := range []string{servertest.CRDs, "/api/v1/namespaces/default/configmaps"} {
		for query, code := range map[string]int{
			"labelSelector=" + strings.Repeat("!a,", 1000) + "b":                              http.StatusOK,
			"labelSelector=" + strings.Repeat("!a,", 20000) + "b":                             http.StatusBadRequest,
			"watch=true&timeoutSeconds=1&labelSelector=" + strings.Repeat("!a,", 20000) + "b": http.StatusBadRequest,
			"fieldSelector=" + strings.Repeat("metadata.name!=a,", 6000) + "metadata.name!=b": http.StatusBadRequest,
		} {
			if resp := send(t, c, http.MethodGet, s.URL()+path+"?"+query, nil); resp.StatusCode != code {
				t.Errorf("%s?%.60s: got %d, want %d", path, query, resp.StatusCode, code)
			}
		}
	}
}

// TestWatchLimit opens more watches than are allowed.
func TestWatchLimit(t *testing.T) {
	t.Parallel()
	o := servertest.Options(t)
	o.Authorization.Modes = []string{"AlwaysAllow"}
	o.MaxLongRunningRequestsInFlight = 1
	s := servertest.Start(t, o)
	c := of(t, s, "joe")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+servertest.CRDs+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	open, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if open.StatusCode != http.StatusOK {
		t.Fatalf("the first watch: %d", open.StatusCode)
	}
	wantBusy(t, send(t, c, http.MethodGet, s.URL()+servertest.CRDs+"?watch=true&timeoutSeconds=1", nil))
	if resp := send(t, c, http.MethodGet, s.URL()+servertest.CRDs, nil); resp.StatusCode != http.StatusOK {
		t.Errorf("a list: %d", resp.StatusCode)
	}
	cancel()
	_ = open.Body.Close()
	servertest.Eventually(t, func() error {
		if resp := send(t, c, http.MethodGet, s.URL()+servertest.CRDs+"?watch=true&timeoutSeconds=1", nil); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("a watch after the first has ended: %d", resp.StatusCode)
		}
		return nil
	})
}

// TestLoad sends requests from many clients concurrently, all of them administrators. Each
// must get a response or be told when to retry. The server must stay healthy and its memory
// bounded. ESPALIER_LOAD=1000 (make load) uses 1,000 clients and the default limits; without
// it there are fewer clients and the limits are low.
func TestLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const requests = 5
	clients := 60
	o := servertest.Options(t)
	o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = 10, 5
	if n := os.Getenv("ESPALIER_LOAD"); n != "" {
		var err error
		if clients, err = strconv.Atoi(n); err != nil {
			t.Fatalf("ESPALIER_LOAD: %v", err)
		}
		o.MaxRequestsInFlight, o.MaxMutatingRequestsInFlight = server.NewOptions().MaxRequestsInFlight, server.NewOptions().MaxMutatingRequestsInFlight
	}
	s := servertest.Start(t, o)
	create(t, s, servertest.Client(t, s, nil), "load.example.com", "Load", 300)

	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var answered, busy atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		c := servertest.Client(t, s, nil)
		wg.Go(func() {
			for j := range requests {
				var resp *http.Response
				if j%2 == 0 {
					resp = send(t, c, http.MethodGet, s.URL()+"/apis/load.example.com/v1/loads", nil)
				} else {
					resp = send(t, c, http.MethodPost, s.URL()+"/apis/load.example.com/v1/namespaces/default/loads",
						strings.NewReader(fmt.Sprintf(`{"apiVersion":"load.example.com/v1","kind":"Load","metadata":{"name":"c%d-%d"}}`, i, j)))
				}
				switch resp.StatusCode {
				case http.StatusOK, http.StatusCreated:
					answered.Add(1)
				case http.StatusTooManyRequests:
					wantBusy(t, resp)
					busy.Add(1)
				default:
					t.Errorf("%d", resp.StatusCode)
				}
			}
			c.CloseIdleConnections()
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	anonymous := servertest.Client(t, s, servertest.Anonymous(t, s))
	var peak uint64
	for checks := 0; ; checks++ {
		select {
		case <-done:
			var after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&after)
			t.Logf("%d answered, %d told to come back, %d health checks, heap %d MB before, at most %d MB, %d MB after", answered.Load(), busy.Load(), checks, before.HeapAlloc>>20, peak>>20, after.HeapAlloc>>20)
			if answered.Load() == 0 {
				t.Error("no client got an answer")
			}
			if limit := uint64(2 << 30); peak > limit {
				t.Errorf("the heap grew to %d MB", peak>>20)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
		if resp := send(t, anonymous, http.MethodGet, s.URL()+"/readyz", nil); resp.StatusCode != http.StatusOK {
			t.Errorf("readyz: %d", resp.StatusCode)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
}

// create creates a CRD of the group with the plural loads, and n objects.
func create(t testing.TB, s *server.Server, c *http.Client, group, kind string, n int) {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	definition := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.%s"},
		"spec":{"group":%q,"scope":"Namespaced","names":{"plural":%q,"kind":%q},"versions":[{"name":"v1","served":true,"storage":true,
		"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, plural, group, group, plural, kind)
	if resp := send(t, c, http.MethodPost, s.URL()+servertest.CRDs, strings.NewReader(definition)); resp.StatusCode != http.StatusCreated {
		t.Fatalf("create the CRD: %d", resp.StatusCode)
	}
	filler := strings.Repeat("x", 2_000)
	for i := range n {
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":%q,"metadata":{"name":"o%d"},"spec":{"filler":%q}}`, group, kind, i, filler)
		if resp := send(t, c, http.MethodPost, fmt.Sprintf("%s/apis/%s/v1/namespaces/default/%s", s.URL(), group, plural), strings.NewReader(body)); resp.StatusCode != http.StatusCreated {
			t.Fatalf("create an object: %d", resp.StatusCode)
		}
	}
}

// TestLongQueries sends selectors that would take very long to parse. Clients need no password to
// send them.
func TestLongQueries(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	for size, code := range map[int]int{server.MaxQuery - 200: http.StatusOK, server.MaxQuery + 1: http.StatusRequestURITooLong} {
		key := strings.Repeat("a", 60) // few requirements, whose number is limited too
		query := "labelSelector=" + strings.Repeat("!"+key+",", size/(len(key)+2)+1)
		resp, err := admin.Get(s.URL() + "/api/v1/configmaps?" + strings.TrimSuffix(query, ","))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != code {
			t.Errorf("%d bytes: got %d, want %d", size, resp.StatusCode, code)
		}
	}
}
