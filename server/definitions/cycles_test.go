package definitions_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"espalier.dev/server/servertest"
)

// TestCycles repeatedly creates, uses and deletes CRDs. They must not leave goroutines, files
// or connections behind. ESPALIER_CYCLES is the number of cycles; the default is a handful.
func TestCycles(t *testing.T) {
	if testing.Short() {
		t.Skip("creates and deletes CRDs many times")
	}
	cycles := 10
	if text := os.Getenv("ESPALIER_CYCLES"); text != "" {
		var err error
		if cycles, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	p := servertest.NewCluster(t).Start()
	for i := range 3 {
		cycle(p, i) // start what runs once per process
	}
	p.Client.CloseIdleConnections()
	goroutines, memory := servertest.Settled()
	files := openFiles(t)
	for i := range cycles {
		cycle(p, i)
	}
	p.Client.CloseIdleConnections()
	var n int
	var m uint64
	for range 20 {
		// A leak grows with every cycle. Some goroutines and connections come and go.
		if n, m = servertest.Settled(); n < goroutines+cycles && openFiles(t) < files+cycles {
			break
		}
	}
	t.Logf("%d cycles: %d goroutines, %d before; %d files, %d before; %d MB, %d before", cycles, n, goroutines, openFiles(t), files, m>>20, memory>>20)
	if n >= goroutines+min(cycles, 20) {
		stacks := make([]byte, 1<<20)
		t.Errorf("goroutines are left: %s", stacks[:runtime.Stack(stacks, true)])
	}
	if openFiles(t) >= files+min(cycles, 20) {
		t.Error("files are left")
	}
	if left := append(p.Keys("/registry/cycle"), p.Keys("espalier.dev/fences/registry/")...); len(left) > 0 {
		t.Error(left)
	}
}

// openFiles returns the number of open files and connections of the process.
func openFiles(t *testing.T) int {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(files)
}

// cycle creates a CRD, uses it in both versions, changes it and deletes it.
func cycle(p *servertest.Peer, i int) {
	p.Helper()
	plural := fmt.Sprint("things", i%3)
	d := boxDefinition()
	d["metadata"].(map[string]any)["name"] = plural + ".cycle.example.com"
	spec := d["spec"].(map[string]any)
	spec["group"], spec["names"] = "cycle.example.com", map[string]any{"plural": plural, "kind": "Thing"}
	crd := servertest.CRDs + "/" + plural + ".cycle.example.com"
	p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, d)
	for _, version := range []string{"v1", "v2"} {
		collection := "/apis/cycle.example.com/" + version + "/namespaces/default/" + plural
		thing := box(version, "a"+version)
		thing["apiVersion"], thing["kind"] = "cycle.example.com/"+version, "Thing"
		p.Want(http.StatusCreated, http.MethodPost, collection, thing)
		p.Want(http.StatusOK, http.MethodGet, collection, nil)
	}
	watched := watchUntilEnd(p, "/apis/cycle.example.com/v1/"+plural+"?watch=true")
	p.Want(http.StatusOK, http.MethodPatch, crd, fmt.Sprintf(`{"spec": {"names": {"shortNames": ["s%d"]}}}`, i%3))
	ended(p, watched)
	watched = watchUntilEnd(p, "/apis/cycle.example.com/v2/"+plural+"?watch=true")
	p.Want(http.StatusOK, http.MethodDelete, crd, nil)
	p.Gone(crd)
	ended(p, watched)
}

// watchUntilEnd starts a watch and reads the first event. The returned channel is closed when the
// watch has ended.
func watchUntilEnd(p *servertest.Peer, path string) <-chan struct{} {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL()+path, nil)
	if err != nil {
		p.Fatal(err)
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	if resp.StatusCode != http.StatusOK || !lines.Scan() || !strings.Contains(lines.Text(), `"ADDED"`) {
		p.Fatalf("%s: %d %s", path, resp.StatusCode, lines.Text())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		for lines.Scan() {
		}
	}()
	return ended
}

func ended(p *servertest.Peer, watch <-chan struct{}) {
	p.Helper()
	select {
	case <-watch:
	case <-time.After(30 * time.Second):
		p.Fatal("the watch does not end")
	}
}

// TestWatchOfChangingCRD opens watches while their CRD changes. Each must get a response, and
// end after the CRD has changed.
func TestWatchOfChangingCRD(t *testing.T) {
	t.Parallel()
	p := servertest.NewCluster(t).Start()
	p.Want(http.StatusCreated, http.MethodPost, servertest.CRDs, boxDefinition())
	p.Want(http.StatusCreated, http.MethodPost, boxesV1, box("v1", "a"))
	changes := 0
	change := func() {
		changes++
		p.Want(http.StatusOK, http.MethodPatch, servertest.CRDs+"/"+boxes, fmt.Sprintf(`{"spec": {"names": {"shortNames": ["b%d"]}}}`, changes))
	}
	for range 20 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a, err := p.Send(t.Context(), http.MethodGet, boxesV1+"?watch=true&timeoutSeconds=120", nil)
			busy := strings.Contains(string(a.Body), "(re)initializing") // the cache is slow to fill
			if err != nil || a.Code != http.StatusOK && !busy {
				t.Errorf("%d %s %v", a.Code, a.Body, err)
			}
		}()
		for began, open := time.Now(), true; open; {
			change()
			select {
			case <-ended:
				open = false
			case <-time.After(100 * time.Millisecond): // it began after the change
			}
			if time.Since(began) > 30*time.Second {
				t.Fatal("a watch goes on although its CRD has changed")
			}
		}
	}
}
