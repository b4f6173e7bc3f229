package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"espalier.dev/server/etcd/kine"
	"espalier.dev/server/etcd/kine/kinetest"
	"espalier.dev/server/servertest"
)

// kineThings is the path of the objects of the tests.
const kineThings = "/apis/kine.example.com/v1/things"

// kineThing returns an object.
func kineThing(name, extra string) string {
	return fmt.Sprintf(`{"apiVersion":"kine.example.com/v1","kind":"Thing","metadata":{"name":%q%s}}`, name, extra)
}

// kineBackend is something that behaves like kine.
type kineBackend struct {
	url string
	// restart ends and starts it.
	restart func()
	// compact removes the history up to a revision. It is nil if that is not possible.
	compact func(revision int64)
}

// TestKine runs kine with SQLite and with Postgres. ESPALIER_KINE is the path of kine; `make
// kine` builds it and sets the variable.
func TestKine(t *testing.T) {
	binary := os.Getenv("ESPALIER_KINE")
	if binary == "" {
		t.Skip("needs kine: run make kine")
	}
	t.Run("SQLite", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "kine.db")
		testKine(t, startKine(t, binary, "sqlite://"+file+"?_journal=WAL&cache=shared&_busy_timeout=30000&_txlock=immediate"))
	})
	t.Run("Postgres", func(t *testing.T) {
		dsn, query := startPostgres(t)
		b := startKine(t, binary, dsn)
		b.compact = func(revision int64) {
			// These are the statements of kine, which waits five minutes before it compacts.
			query(fmt.Sprintf(`BEGIN;
DELETE FROM kine AS kv USING (SELECT prev_revision AS id FROM kine WHERE name != 'compact_rev_key' AND prev_revision != 0 AND id <= %[1]d
UNION SELECT id FROM kine WHERE deleted != 0 AND id <= %[1]d) AS ks WHERE kv.id = ks.id;
UPDATE kine SET prev_revision = %[1]d WHERE name = 'compact_rev_key'; COMMIT`, revision))
		}
		testKine(t, b)
	})
}

// TestKineLimits runs the same test with an etcd that has the limits of kine.
func TestKineLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the limits of kine")
	}
	t.Parallel()
	b := kinetest.Start(t)
	testKine(t, &kineBackend{url: b.URL, restart: b.Restart, compact: func(revision int64) {
		if _, err := b.Client.Compact(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
		b.EndWatches()
	}})
}

// TestKineLost checks that a server stops when its registration is gone.
func TestKineLost(t *testing.T) {
	t.Parallel()
	b := kinetest.Start(t)
	o := servertest.ShareEtcd(t, []string{b.URL})
	o.ServerLease = 3 * time.Second
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Client.Delete(t.Context(), "//espalier.dev/servers/registry/alone")
	if err != nil || resp.Deleted != 1 {
		t.Fatal(resp, err)
	}
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Error("it has not stopped")
	}
	if err := s.Stop(); !errors.Is(err, kine.ErrLost) {
		t.Error(err)
	}
}

// background starts a process, which is killed at the end of the test.
func background(t *testing.T, cmd *exec.Cmd) (kill func()) {
	t.Helper()
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			text := out.String()
			t.Logf("%s:\n%s", cmd.Path, text[max(0, len(text)-4000):])
		}
	})
	t.Cleanup(kill)
	return kill
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// listening waits until something listens on an address.
func listening(t *testing.T, address string) {
	t.Helper()
	servertest.Eventually(t, func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// startKine runs kine on a database.
func startKine(t *testing.T, binary, database string) *kineBackend {
	t.Helper()
	address := freeAddress(t)
	run := func() func() {
		kill := background(t, exec.Command(binary, "--listen-address", address, "--metrics-bind-address", "0", "--endpoint", database))
		listening(t, address)
		return kill
	}
	kill := run()
	return &kineBackend{url: "http://" + address, restart: func() { kill(); kill = run() }}
}

// startPostgres runs Postgres, and returns its address for kine, and a function that executes
// statements. It skips the test where Postgres is not installed.
func startPostgres(t *testing.T) (dsn string, query func(string)) {
	t.Helper()
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // Debian leaves it out of the PATH
	if path, err := exec.LookPath("initdb"); err == nil {
		bin = []string{path}
	}
	if len(bin) == 0 {
		t.Skip("Postgres is not installed: initdb is not in the PATH")
	}
	initdb, err := filepath.EvalSymlinks(bin[len(bin)-1])
	if err != nil {
		t.Fatal(err)
	}
	// The directory of the test belongs to its user only.
	dir, err := os.MkdirTemp("", "espalier-postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // Postgres does not run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("there is no user to run Postgres:", err)
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(initdb), name), args...)
		cmd.SysProcAttr, cmd.Dir = as, dir
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "espalier", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	server := command("postgres", "-D", data, "-h", host, "-p", port, "-k", dir, "-F")
	background(t, server)
	listening(t, address)
	query = func(statements string) {
		t.Helper()
		if out, err := command("psql", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", "espalier", "-d", "kubernetes", "-c", statements).CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
	}
	servertest.Eventually(t, func() error {
		return command("psql", "-h", host, "-p", port, "-U", "espalier", "-d", "postgres", "-c", "SELECT 1").Run()
	})
	return (&url.URL{Scheme: "postgres", User: url.User("espalier"), Host: address, Path: "/kubernetes", RawQuery: "sslmode=disable"}).String(), query
}

// kineEvents collects the events of a watch, as "TYPE name resourceVersion".
type kineEvents struct {
	mu     sync.Mutex
	events []string
}

// watchThings watches objects from a revision until the test ends. A watch that ends is
// continued from the last event.
func watchThings(t *testing.T, e *servertest.Running, from string) *kineEvents {
	k := &kineEvents{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, e.URL()+kineThings+"?watch=1&resourceVersion="+from, nil)
			resp, err := e.Client.Do(req)
			if err != nil {
				return // the server has stopped
			}
			for decoder := json.NewDecoder(resp.Body); ; {
				var event struct {
					Type   string
					Object struct {
						Metadata struct{ Name, ResourceVersion string }
					}
				}
				if err := decoder.Decode(&event); err != nil {
					break
				}
				from = event.Object.Metadata.ResourceVersion
				k.mu.Lock()
				k.events = append(k.events, event.Type+" "+event.Object.Metadata.Name+" "+from)
				k.mu.Unlock()
			}
			_ = resp.Body.Close()
		}
	}()
	return k
}

// await waits for an event, and checks that the revisions of all events increase.
func (k *kineEvents) await(t *testing.T, event string) {
	t.Helper()
	servertest.Eventually(t, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		last := int64(0)
		for _, e := range k.events {
			revision, err := strconv.ParseInt(e[strings.LastIndexByte(e, ' ')+1:], 10, 64)
			if err != nil || revision <= last {
				t.Fatalf("%q after %d", e, last)
			}
			last = revision
		}
		if !slices.ContainsFunc(k.events, func(e string) bool { return strings.HasPrefix(e, event+" ") }) {
			return fmt.Errorf("no event %q in %q", event, k.events)
		}
		return nil
	})
}

// versionOf returns the resourceVersion in a response.
func versionOf(t *testing.T, text string) string {
	t.Helper()
	var obj struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal([]byte(text), &obj); err != nil || obj.Metadata.ResourceVersion == "" {
		t.Fatal(err, text)
	}
	return obj.Metadata.ResourceVersion
}

// testKine uses kine as the storage: CRDs and objects are created, read, listed, watched,
// changed and deleted, kine and the server are restarted, and a second server is rejected.
func testKine(t *testing.T, b *kineBackend) {
	o := servertest.ShareEtcd(t, []string{b.url})
	s, err := servertest.TryStart(t, o)
	if err != nil {
		t.Fatal(err)
	}
	e := servertest.Use(t, s, o)
	e.Must(http.StatusCreated, http.MethodPost, servertest.CRDs, servertest.ThingCRD("kine.example.com"))
	servertest.Eventually(t, func() error {
		if !servertest.IsEstablished(t, s, e.Client, "things.kine.example.com") {
			return errors.New("not established")
		}
		return nil
	})
	oldest := versionOf(t, e.Must(http.StatusOK, http.MethodGet, kineThings, ""))
	events := watchThings(t, e, oldest)

	// Each client reads its own writes, although the server reads from memory.
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for i := range 15 {
				name := fmt.Sprintf("c%d-%02d", c, i)
				if code, text := servertest.Exchange(t, e.Client, http.MethodPost, e.URL()+kineThings, kineThing(name, "")); code != http.StatusCreated {
					t.Errorf("create %s: %d %s", name, code, text)
				}
				if code, text := servertest.Exchange(t, e.Client, http.MethodGet, e.URL()+kineThings+"/"+name, ""); code != http.StatusOK {
					t.Errorf("read %s: %d %s", name, code, text)
				}
				if code, text := servertest.Exchange(t, e.Client, http.MethodGet, e.URL()+kineThings+"?fieldSelector=metadata.name%3D"+name, ""); code != http.StatusOK || !strings.Contains(text, `"`+name+`"`) {
					t.Errorf("list %s: %d %s", name, code, text)
				}
			}
		})
	}
	clients.Wait()
	for c := range 4 {
		for i := range 15 {
			events.await(t, fmt.Sprintf("ADDED c%d-%02d", c, i))
		}
	}

	e.Must(http.StatusConflict, http.MethodPost, kineThings, kineThing("c0-01", ""))
	if text := e.Must(http.StatusBadRequest, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles",
		`{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "Readers"}}`); !strings.Contains(text, "names and an --etcd-prefix for kine must not") {
		t.Error(text)
	}
	object := e.Must(http.StatusOK, http.MethodGet, kineThings+"/c0-02", "")
	changed := e.Must(http.StatusOK, http.MethodPut, kineThings+"/c0-02", strings.Replace(object, `"name"`, `"labels":{"a":"b"},"name"`, 1))
	e.Must(http.StatusConflict, http.MethodPut, kineThings+"/c0-02", object)
	if got := e.Must(http.StatusOK, http.MethodGet, kineThings+"/c0-02", ""); versionOf(t, got) != versionOf(t, changed) {
		t.Errorf("%s instead of %s", got, changed)
	}
	events.await(t, "MODIFIED c0-02")
	e.Must(http.StatusOK, http.MethodDelete, kineThings+"/c0-03", "")
	e.Must(http.StatusNotFound, http.MethodDelete, kineThings+"/c0-03", "")
	e.Must(http.StatusCreated, http.MethodPost, kineThings, kineThing("c0-03", ""))
	events.await(t, "DELETED c0-03")
	e.Must(http.StatusCreated, http.MethodPost, kineThings, kineThing("kept", `,"finalizers":["example.com/f"]`))
	e.Must(http.StatusOK, http.MethodDelete, kineThings+"/kept", "")
	e.Must(http.StatusOK, http.MethodGet, kineThings+"/kept", "")
	if text := e.Must(http.StatusOK, http.MethodGet, kineThings+"?labelSelector=a%3Db", ""); strings.Count(text, `"kind":"Thing"`) != 1 {
		t.Error(text)
	}
	kinePages(t, e)

	// A second server is rejected, and leaves the first one alone.
	other := servertest.ShareEtcd(t, []string{b.url})
	if _, err := servertest.TryStart(t, other); !errors.Is(err, kine.ErrTaken) {
		t.Errorf("a second server: %v", err)
	}
	// Data below another prefix is other data.
	other.EtcdPrefix = "/other"
	if second, err := servertest.TryStart(t, other); err != nil {
		t.Error(err)
	} else if err := second.Stop(); err != nil {
		t.Error(err)
	}

	if b.compact != nil {
		now, err := strconv.ParseInt(versionOf(t, e.Must(http.StatusOK, http.MethodGet, kineThings, "")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		b.compact(now)
		e.Must(http.StatusCreated, http.MethodPost, kineThings, kineThing("after-compaction", ""))
		events.await(t, "ADDED after-compaction")
	}

	b.restart()
	servertest.Eventually(t, func() error {
		if code, text := servertest.Exchange(t, e.Client, http.MethodPost, e.URL()+kineThings, kineThing("after-restart", "")); code != http.StatusCreated && code != http.StatusConflict {
			return errors.New(text)
		}
		return nil
	})
	events.await(t, "ADDED after-restart")
	before := e.Must(http.StatusOK, http.MethodGet, kineThings, "")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}

	// The registration of the first server is gone, so one in another directory can start.
	e = servertest.Run(t, servertest.ShareEtcd(t, []string{b.url}))
	after := e.Must(http.StatusOK, http.MethodGet, kineThings, "")
	if want := strings.Count(before, `"kind":"Thing"`); strings.Count(after, `"kind":"Thing"`) != want || want < 61 {
		t.Errorf("%d objects before the restart of the server, then %s", want, after)
	}
	e.Must(http.StatusOK, http.MethodDelete, servertest.CRDs+"/things.kine.example.com", "")
	if code, text := servertest.Exchange(t, e.Client, http.MethodPost, e.URL()+kineThings, kineThing("late", "")); code != http.StatusForbidden && code != http.StatusMethodNotAllowed {
		t.Errorf("create an object of a CRD that is being deleted: %d %s", code, text)
	}
	servertest.Eventually(t, func() error {
		object = e.Must(http.StatusOK, http.MethodGet, kineThings+"/kept", "")
		code, text := servertest.Exchange(t, e.Client, http.MethodPut, e.URL()+kineThings+"/kept", strings.Replace(object, `"example.com/f"`, "", 1))
		if code != http.StatusOK {
			return errors.New(text)
		}
		return nil
	})
	servertest.Eventually(t, func() error {
		if code, text := servertest.Get(t, e.Server, e.Client, servertest.CRDs+"/things.kine.example.com"); code != http.StatusNotFound {
			return errors.New(text)
		}
		return nil
	})
}

// kinePages reads a list in pages while it changes.
func kinePages(t *testing.T, e *servertest.Running) {
	t.Helper()
	var names []string
	for token, page := "", 0; page == 0 || token != ""; page++ {
		text := e.Must(http.StatusOK, http.MethodGet, kineThings+"?limit=7&continue="+url.QueryEscape(token), "")
		var list struct {
			Metadata struct{ Continue string }
			Items    []struct{ Metadata struct{ Name string } }
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			names = append(names, item.Metadata.Name)
		}
		token = list.Metadata.Continue
		e.Must(http.StatusCreated, http.MethodPost, kineThings, kineThing(fmt.Sprint("page", page), ""))
	}
	if want := 61; len(names) != want || !slices.IsSorted(names) || strings.Contains(strings.Join(names, " "), "page") {
		t.Errorf("%d names instead of %d: %q", len(names), want, names)
	}
}
