package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server"
	"espalier.dev/server/servertest"
)

// crashingServer is the environment variable with the data directory of the server that
// TestCrash kills. If it is set, the test binary runs that server.
const crashingServer = "ESPALIER_TEST_CRASHING_SERVER"

// crashingEtcd is the one with the address of its etcd, if that is not embedded.
const crashingEtcd = "ESPALIER_TEST_CRASHING_ETCD"

// TestCrash repeatedly kills a server while clients create, change and delete objects and
// CRDs, and restarts it on the same data. Acknowledged writes and deletions must persist,
// nothing else may have changed, and a deletion of a CRD that a crash interrupted must
// complete. ESPALIER_CRASH_ROUNDS is the number of rounds; the default is a handful.
func TestCrash(t *testing.T) {
	if dir := os.Getenv(crashingServer); dir != "" {
		serveUntilKilled(t, dir)
		return
	}
	if testing.Short() {
		t.Skip("kills servers")
	}
	rounds := 5
	if text := os.Getenv("ESPALIER_CRASH_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := &crash{T: t, dir: t.TempDir(), objects: map[string]*crashObject{}, crds: newCrashCRDs()}
	c.run(rounds)
}

// run runs rounds, and checks the result.
func (c *crash) run(rounds int) {
	for round := range rounds {
		c.round(round)
	}
	c.start()
	c.check()
	c.kill()
	c.Logf("%d rounds, %d objects, %d acknowledged writes, %d without an answer; %d deletions of CRDs, of which %d were interrupted",
		rounds, len(c.objects), c.acknowledged, c.unanswered, c.deleted, c.interrupted)
	if c.acknowledged < 10*rounds {
		c.Error("too few writes to prove anything")
	}
}

// serveUntilKilled runs the server.
func serveUntilKilled(t *testing.T, dir string) {
	o := server.NewOptions()
	o.DataDir, o.SecurePort = dir, 0
	o.DisableAdmissionPlugins = []string{"NamespaceLifecycle"} // objects are in namespaces that do not exist
	if url := os.Getenv(crashingEtcd); url != "" {
		o.Etcd.URLs = []string{url}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := server.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// crash is a server that is killed repeatedly, and the state that its clients expect.
type crash struct {
	*testing.T
	dir    string
	etcd   string // empty if it is embedded
	cmd    *exec.Cmd
	log    bytes.Buffer
	client *http.Client
	url    string

	mu                       sync.Mutex
	objects                  map[string]*crashObject // by path
	crds                     []*crashCRD
	acknowledged, unanswered int
	// deleted counts acknowledged deletions of CRDs, interrupted those that may have been
	// incomplete when the server was killed.
	deleted, interrupted int
}

// crashObject is the expected state of an object. Only one goroutine writes it.
type crashObject struct {
	// value was acknowledged; zero means no object. tried was sent without a response. The
	// server may have either.
	value, tried int64
	unknown      bool
	// version is the resourceVersion of the last acknowledged write.
	version uint64
}

// round starts the server, checks its state, writes, and kills the server.
func (c *crash) round(n int) {
	c.start()
	if n == 0 {
		c.define("things")
	}
	c.check()
	ctx, cancel := context.WithCancel(c.Context())
	var wg sync.WaitGroup
	wg.Go(func() { c.writeCRDs(ctx) })
	wg.Go(func() { c.writeExtras(ctx, n) })
	for w := range 2 {
		wg.Go(func() { c.write(ctx, n, w) })
	}
	time.Sleep(time.Duration(50+rand.IntN(300)) * time.Millisecond)
	c.kill()
	cancel()
	wg.Wait()
}

func (c *crash) start() {
	kubeconfig := filepath.Join(c.dir, "kubeconfig")
	if err := os.RemoveAll(kubeconfig); err != nil {
		c.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		c.Fatal(err)
	}
	c.log.Reset()
	c.cmd = exec.Command(self, "-test.run=^TestCrash$")
	c.cmd.Env = append(os.Environ(), crashingServer+"="+c.dir, crashingEtcd+"="+c.etcd)
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = c.cmd.Process.Kill() }) // usually dead already
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		if time.Now().After(deadline) {
			c.kill()
			c.Fatalf("it does not start: %s", &c.log)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		c.Fatal(err)
	}
	if c.client, err = rest.HTTPClientFor(config); err != nil {
		c.Fatal(err)
	}
	c.url = config.Host
}

func (c *crash) kill() {
	if err := c.cmd.Process.Kill(); err != nil {
		c.Error(err)
	}
	_ = c.cmd.Wait() // it was killed
	c.client.CloseIdleConnections()
}

// do sends a request. It returns an error if there was no response.
func (c *crash) do(ctx context.Context, method, path string, obj any) (int, map[string]any, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err
	}
	var answer map[string]any
	return resp.StatusCode, answer, errors.Join(json.Unmarshal(data, &answer), ctx.Err())
}

// define creates a CRD.
func (c *crash) define(plural string) {
	code, answer, err := c.do(c.Context(), http.MethodPost, servertest.CRDs, crashDefinition(plural))
	if err != nil || code != http.StatusCreated {
		c.Fatal(code, answer, err)
	}
}

func crashDefinition(plural string) map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".crash.example.com"},
		"spec": map[string]any{
			"group": "crash.example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": "K" + plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type": "object", "properties": map[string]any{"value": map[string]any{"type": "integer"}},
			}}}},
		},
	}
}

const crashCollection = "/apis/crash.example.com/v1/namespaces/default/things"

// write creates, changes and deletes objects until the server is killed.
func (c *crash) write(ctx context.Context, round, writer int) {
	for i := 0; ctx.Err() == nil; i++ {
		// Some objects are written repeatedly, some once.
		name := fmt.Sprintf("w%d-%d", writer, i%5)
		if i%2 == 0 {
			name = fmt.Sprintf("w%d-r%d-%d", writer, round, i)
		}
		if !c.step(ctx, name, i) {
			return
		}
	}
}

// step writes one object and records the result. It reports whether there was a response.
func (c *crash) step(ctx context.Context, name string, i int) bool {
	path := crashCollection + "/" + name
	c.mu.Lock()
	o := c.objects[path]
	if o == nil {
		o = &crashObject{}
		c.objects[path] = o
	}
	next := max(o.value, o.tried) + 1
	method, target, want := http.MethodPost, crashCollection, http.StatusCreated
	value := map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"value": strconv.FormatInt(next, 10)}}, "value": next}
	switch {
	case o.value != 0 && i%7 == 6:
		method, target, want, next = http.MethodDelete, path, http.StatusOK, 0
	case o.value != 0:
		method, target, want = http.MethodPatch, path, http.StatusOK
	default:
		value["apiVersion"], value["kind"] = "crash.example.com/v1", "Kthings"
	}
	o.tried, o.unknown = next, true
	c.mu.Unlock()
	code, answer, err := c.do(ctx, method, target, value)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.unanswered++
		return false
	}
	o.unknown = false
	if code != want {
		c.Errorf("%s %s: %d %v", method, target, code, answer)
		return false
	}
	c.acknowledged++
	o.value = next
	if text, ok := servertest.Field(answer, "metadata.resourceVersion"); ok && method != http.MethodDelete {
		o.version, _ = strconv.ParseUint(fmt.Sprint(text), 10, 64)
	}
	return true
}

func terminating(obj map[string]any) bool {
	_, ok := servertest.Field(obj, "metadata.deletionTimestamp")
	return ok
}

// list adds the objects of a collection to have, by path, and returns the server's revision.
func (c *crash) list(collection string, have map[string]map[string]any) (revision uint64) {
	code, list, err := c.do(c.Context(), http.MethodGet, collection, nil)
	for began := time.Now(); code == http.StatusTooManyRequests && time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		// On a busy machine the cache may still be filling.
		code, list, err = c.do(c.Context(), http.MethodGet, collection, nil)
	}
	if err != nil || code != http.StatusOK {
		c.Fatal(code, list, err)
	}
	text, _ := servertest.Field(list, "metadata.resourceVersion")
	if revision, err = strconv.ParseUint(fmt.Sprint(text), 10, 64); err != nil {
		c.Error(err)
	}
	items, _ := list["items"].([]any)
	for _, item := range items {
		name, _ := servertest.Field(item, "metadata.name")
		have[collection+"/"+fmt.Sprint(name)] = item.(map[string]any)
	}
	return revision
}

// check compares the state of the server with the state that its clients expect.
func (c *crash) check() {
	crds := map[string]map[string]any{}
	c.list(servertest.CRDs, crds)
	if crds[servertest.CRDs+"/things.crash.example.com"] == nil {
		c.Error("the CRD is gone")
	}
	if len(crds) > 1+len(c.crds) {
		c.Errorf("nobody wrote all of these: %v", crds)
	}
	for _, d := range c.crds {
		if d.deletionSent() {
			c.interrupted++
		}
		c.checkCRD(d)
	}

	have := map[string]map[string]any{}
	newest := c.list(crashCollection, have)
	for path := range have {
		if c.objects[path] == nil {
			c.Errorf("nobody wrote %s", path)
		}
	}
	for path, o := range c.objects {
		var value int64
		var version uint64
		if item := have[path]; item != nil {
			text, _ := servertest.Field(item, "metadata.labels.value")
			value, _ = strconv.ParseInt(fmt.Sprint(text), 10, 64)
			text, _ = servertest.Field(item, "metadata.resourceVersion")
			version, _ = strconv.ParseUint(fmt.Sprint(text), 10, 64)
			if v, ok := item["value"]; ok && fmt.Sprint(v) != strconv.FormatInt(value, 10) {
				c.Errorf("%s is half written: %v", path, item)
			}
		}
		switch {
		case value == o.value && version > 0 && version != o.version && !o.unknown:
			c.Errorf("%s has version %d, and was written at %d", path, version, o.version)
		case value != o.value && (!o.unknown || value != o.tried):
			c.Errorf("%s is %d; %d was acknowledged, %d tried", path, value, o.value, o.tried)
		}
		if max(version, o.version) > newest {
			c.Errorf("%s has version %d, and the server is at %d", path, max(version, o.version), newest)
		}
		o.value, o.tried, o.version, o.unknown = value, value, version, false
	}
}
