package robustness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/test/robustness/internal/rig"
)

const (
	mb = 1 << 20
	// windowLimit is more than the window of events, which has 64 MB.
	windowLimit = 112 * mb
)

// memorySite returns a site for measurements.
func memorySite(t *testing.T) *site {
	if long(t) == 0 {
		t.Skip("writes hundreds of megabytes: make robustness runs it")
	}
	return newSite(t, 1, "--profiling")
}

// heap returns the bytes of the server's heap that are in use after two garbage collections:
// what is in a pool survives one.
func (s *site) heap() int64 {
	s.t.Helper()
	var a answer
	for range 2 {
		a = s.must(s.t, http.MethodGet, "/debug/pprof/heap?gc=1&debug=1", nil)
	}
	_, text, ok := strings.Cut(string(a.body), "# HeapAlloc = ")
	var n int64
	if _, err := fmt.Sscan(text, &n); !ok || err != nil {
		s.t.Fatalf("the profile has no HeapAlloc: %v", err)
	}
	return n
}

// bounded checks that the heap has grown by less than a limit.
func (s *site) bounded(before, limit int64, what string) {
	s.t.Helper()
	grown := s.heap() - before
	s.t.Logf("%s: the heap has grown by %.1f MB", what, float64(grown)/mb)
	if grown > limit {
		s.t.Errorf("%s: the heap has grown by more than %d MB", what, limit/mb)
	}
}

// put writes an object of a size directly to etcd, as the server would store it.
func (s *site) put(key string, n, size int) {
	s.t.Helper()
	namespace, name := split(key)
	value := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Thing","metadata":{"creationTimestamp":"2020-01-01T00:00:00Z","generation":%d,"name":"%s","namespace":"%s","uid":"%s"},"spec":{"value":"%s"}}`,
		group, n+1, name, namespace, key, strings.Repeat("x", size))
	if _, err := s.etcd.Client.Put(s.t.Context(), prefix+key, value); err != nil {
		s.t.Fatal(err)
	}
}

// watchList are the parameters of a watch that replaces a list. The client accepts gzip.
const watchList = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// openWatch opens a watch and reads one event.
func (s *site) openWatch(ctx context.Context, c *client, parameters string) io.Closer {
	s.t.Helper()
	resp, err := c.open(ctx, http.MethodGet, collection("v1", "a/")+"?watch=true"+parameters, "", nil)
	if err != nil {
		s.t.Error(err)
		return io.NopCloser(nil)
	}
	if _, err := bufio.NewReaderSize(resp.Body, 1024).ReadBytes('\n'); err != nil {
		s.t.Error(err)
	}
	return resp.Body
}

// TestSlowWatcher rewrites a large object while watchers do not read.
func TestSlowWatcher(t *testing.T) {
	s := memorySite(t)
	before := s.heap()
	for range 4 {
		defer func(c io.Closer) { _ = c.Close() }(s.openWatch(t.Context(), newClient(s.server), ""))
	}
	const writes, size = 800, 256 << 10
	for n := range writes {
		s.put("a/large", n, size)
	}
	s.must(t, http.MethodGet, collection("v1", "a/"), nil) // has seen all writes
	s.bounded(before, windowLimit, fmt.Sprintf("4 slow watchers, %d MB written", writes*size/mb))
}

// TestRewrittenObject rewrites an object many times.
func TestRewrittenObject(t *testing.T) {
	s := memorySite(t)
	const writes, size = 100_000, 2_000
	before := s.heap()
	for n := range writes {
		s.put("a/rewritten", n, size)
	}
	s.must(t, http.MethodGet, collection("v1", "a/"), nil)
	s.bounded(before, windowLimit, fmt.Sprintf("%d writes of %d bytes", writes, size))
}

// TestManyWatchers opens 1,000 watches, which do not read, and closes them.
func TestManyWatchers(t *testing.T) {
	s := memorySite(t)
	before := s.heap()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const (
		watchers, perClient = 1000, 50
		each                = 64 << 10 // more than a watch may hold: its goroutine, and frames of up to 32 KB
	)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []io.Closer
	for range watchers / perClient {
		c := newClient(s.server)
		wg.Go(func() {
			for n := range perClient {
				parameters := ""
				if n%2 == 0 {
					parameters = watchList
				}
				body := s.openWatch(ctx, c, parameters)
				mu.Lock()
				open = append(open, body)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	s.bounded(before, watchers*each, "1,000 watchers")
	for n := range 100 {
		s.put("a/shared", n, 100<<10)
	}
	s.must(t, http.MethodGet, collection("v1", "a/"), nil)
	// Objects are shared. What is on its way to each client is limited.
	s.bounded(before, watchers*each, "1,000 watchers, 10 MB written")
	cancel()
	for _, body := range open {
		_ = body.Close()
	}
	deadline := time.Now().Add(30 * time.Second)
	for s.heap()-before > 32*mb && time.Now().Before(deadline) {
		time.Sleep(200 * time.Millisecond)
	}
	s.bounded(before, 32*mb, "after the watches")
}

// TestMemoryLimit serves 1 GB of objects with a memory limit.
func TestMemoryLimit(t *testing.T) {
	if long(t) == 0 || runtime.GOOS != "linux" {
		t.Skip("takes minutes, and reads /proc")
	}
	dir := shortDir(t)
	etcd := rig.StartEtcd(t, dir, 1, 8<<30)
	const limit = 1800 * mb
	server := rig.StartServer(t, binary, filepath.Join(dir, "server"), rig.URLs(etcd.Links(t)), []string{fmt.Sprint("GOMEMLIMIT=", limit)}, "--profiling")
	s := &site{newClient(server), t, etcd, server}
	s.must(t, http.MethodPost, crdPath, definition("v1", ""))
	const size = 256 << 10
	for n := range 1024 * mb / size {
		s.put(fmt.Sprintf("a/o%d", n), 0, size)
	}
	for range 2 {
		for from := 0; from < 1024*mb/size; from += 512 {
			s.must(t, http.MethodGet, objectPath("v1", fmt.Sprintf("a/o%d", from)), nil)
		}
		resp, err := s.open(t.Context(), http.MethodGet, collection("v1", "a/"), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || n < 1024*mb {
			t.Errorf("the list has %d bytes: %v", n, err)
		}
		rss, err := server.RssAnon()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("heap %d MB, RssAnon %d MB", s.heap()/mb, rss/mb)
		if rss > limit*5/4 {
			t.Errorf("RssAnon is %d MB with a limit of %d MB", rss/mb, limit/mb)
		}
		server.Kill()
		server.Start(t.Context())
	}
}
