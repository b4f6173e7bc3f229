package server_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// largeMaps and otherMaps are URLs of config maps that createMaps creates.
const (
	largeMaps = "/api/v1/namespaces/default/configmaps"
	otherMaps = "/api/v1/namespaces/kube-system/configmaps"
)

// createMaps creates config maps that are larger together than what a client and the kernel
// buffer.
func createMaps(t *testing.T, s *server.Server, path string) (bytes uint64) {
	t.Helper()
	const n, size = 20, 900_000
	text := strings.Repeat("x", size)
	for i := range n {
		body := fmt.Sprintf(`{"metadata":{"name":"large-%d"},"data":{"a":%q}}`, i, text)
		if resp := send(t, servertest.Client(t, s, nil), http.MethodPost, s.URL()+path, strings.NewReader(body)); resp.StatusCode != http.StatusCreated {
			t.Fatalf("create: %d", resp.StatusCode)
		}
	}
	return n * size
}

// stall requests a list and does not read it. It returns the status.
func stall(t *testing.T, s *server.Server, path, accept string) *http.Response {
	t.Helper()
	c := servertest.Client(t, s, nil)
	transport := c.Transport.(*http.Transport)
	transport.ForceAttemptHTTP2, transport.DisableCompression = false, true
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// liveHeap returns the bytes of live objects on the heap.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantExhausted checks that a list is rejected while a client does not read another one. On a slow machine, that
// one may have ended before.
func wantExhausted(t *testing.T, s *server.Server) (stalled *http.Response) {
	t.Helper()
	servertest.Eventually(t, func() error {
		stalled = stall(t, s, largeMaps, "application/json")
		other := stall(t, s, otherMaps, "application/json")
		if stalled.StatusCode != http.StatusOK || other.StatusCode == http.StatusOK {
			_, _ = stalled.Body.Close(), other.Body.Close()
			return fmt.Errorf("a list that is not read: %d, another one at the same time: %d", stalled.StatusCode, other.StatusCode)
		}
		wantBusy(t, other)
		return nil
	})
	return stalled
}

// TestStalledLists runs clients that request lists of large objects and do not read them. Their
// memory must grow with the objects, not with the clients, and be bounded, and other requests must
// be answered meanwhile. It is not parallel, because it measures the heap.
func TestStalledLists(t *testing.T) {
	if testing.Short() {
		t.Skip("writes large lists")
	}
	const clients = 16
	o := servertest.Options(t)
	o.MaxListBytesInFlight = 30 << 20
	s := servertest.Start(t, o)
	size := createMaps(t, s, largeMaps)
	createMaps(t, s, otherMaps)
	before := liveHeap()
	for i := range clients {
		form := []struct{ query, accept string }{
			{"", "application/json"}, {"", "application/vnd.kubernetes.protobuf"}, {"?pretty=true", "application/json"}, {"", "application/yaml"},
			{"?resourceVersion=0", "application/json"},
		}[i%5]
		if resp := stall(t, s, largeMaps+form.query, form.accept); resp.StatusCode != http.StatusOK {
			t.Errorf("%v: %d", form, resp.StatusCode)
		}
	}
	grown := int64(liveHeap()) - int64(before)
	t.Logf("%d lists of %d MB were answered, and the heap has grown by %d MB", clients, size>>20, grown>>20)
	// Each list has one object as text beside those that all of them share.
	if grown > 4*int64(size) {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}

	// Other objects would need more memory than is left.
	wantExhausted(t, s)
	c := servertest.Client(t, s, nil)
	for _, path := range []string{largeMaps + "/large-1", largeMaps + "?limit=1", "/api/v1/namespaces", "/api/v1/namespaces/kube-public/configmaps"} {
		if code, body := servertest.Get(t, s, c, path); code != http.StatusOK {
			t.Errorf("%s: %d %.200s", path, code, body)
		}
	}
	servertest.Eventually(t, func() error {
		if code, body := servertest.Get(t, s, c, largeMaps); code != http.StatusOK || uint64(len(body)) < size {
			return fmt.Errorf("a client that reads: %d %.200s", code, body)
		}
		return nil
	})
}

// TestStalledListEnds checks that a list whose client does not read ends before the request
// would time out.
func TestStalledListEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the end of a list")
	}
	t.Parallel()
	o := servertest.Options(t)
	o.MaxListBytesInFlight = 1 << 20 // one list at a time
	o.RequestTimeout = 10 * time.Minute
	s := servertest.Start(t, o)
	createMaps(t, s, largeMaps)
	createMaps(t, s, otherMaps)
	resp := wantExhausted(t, s)
	c := servertest.Client(t, s, nil)
	servertest.Eventually(t, func() error {
		if resp := send(t, c, http.MethodGet, s.URL()+otherMaps, nil); resp.StatusCode != http.StatusOK {
			return fmt.Errorf("a list while a client does not read its own: %d", resp.StatusCode)
		}
		return nil
	})
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the client that did not read has got everything")
	}
}
