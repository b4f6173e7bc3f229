package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/server"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/snapshot"
)

// createData creates a data directory as a server does, and a backup of it.
func createData(t *testing.T, dir, backup string) {
	t.Helper()
	m, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(dir, "etcd"), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	c, err := etcd.Connect(t.Context(), etcd.Endpoints{URLs: []string{m.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	o := server.NewOptions()
	for key, value := range map[string]string{
		keys.NewRoot(o.EtcdPrefix).Semantics():                         "kep",
		"/registry/apiextensions.k8s.io/customresourcedefinitions/a.b": "{}",
		"/registry/b/a/default/x":                                      "{}",
	} {
		if _, err := c.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := snapshot.Save(t.Context(), c, snapshot.SaveOptions{Path: backup, Prefix: o.EtcdPrefix, Espalier: "test"}); err != nil {
		t.Fatal(err)
	}
}

// dataClient sends requests to a running server.
type dataClient struct {
	t      *testing.T
	client *http.Client
	host   string
}

// serveData starts a server, and returns a client and a function that stops the server.
func serveData(t *testing.T, dir string) (c dataClient, stop func()) {
	t.Helper()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.Remove(kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) { // that of an earlier run
		t.Fatal(err)
	}
	p := serveProcess(t, "--data-dir", dir)
	client, host := p.ready(t, kubeconfig)
	return dataClient{t, client, host}, func() {
		t.Helper()
		client.CloseIdleConnections()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(t); code != 0 {
			t.Errorf("the server exits with %d: %s", code, &p.stderr)
		}
	}
}

// do sends a request, and returns the status and the body of the answer.
func (c dataClient) do(method, path, body string) (int, string) {
	c.t.Helper()
	code, text, _, err := request(c.t.Context(), c.client, method, c.host+path, []byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	return code, string(text)
}

const (
	backupCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"crontabs.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"crontabs","kind":"CronTab"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`
	backupObjects = "/apis/example.com/v1/namespaces/default/crontabs"
)

func (c dataClient) create(name string) (resourceVersion string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":"CronTab","metadata":{"name":%q},"spec":{"text":%q}}`, name, strings.Repeat("x", 500))
	var code int
	var text string
	for range 200 { // the CRD may not be established yet
		if code, text = c.do(http.MethodPost, backupObjects, body); code == http.StatusCreated {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var got struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusCreated {
		c.t.Fatalf("create %s: %d %s (%v)", name, code, text, err)
	}
	return got.Metadata.ResourceVersion
}

// TestBackupAndRestore backs up a running server, restores the backup into a new data
// directory and into that of the server, and looks at it with clients that know later objects.
func TestBackupAndRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	t.Parallel()
	dir := t.TempDir()
	data, file := filepath.Join(dir, "data"), filepath.Join(dir, "backup.db")
	c, stop := serveData(t, data)
	if code, text := c.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", backupCRD); code != http.StatusCreated {
		t.Fatalf("%d %s", code, text)
	}
	for i := range 10 {
		c.create(fmt.Sprintf("before-%d", i))
	}
	out, code := runApp(t, "backup", "--data-dir", data, "-o", "json", file)
	var m snapshot.Manifest
	if err := json.Unmarshal([]byte(out), &m); code != 0 || err != nil || m.CRDs != 1 || m.Objects < 10 || m.Semantics != "kep" {
		t.Fatalf("backup exits with %d: %s (%v)", code, out, err)
	}
	// The other commands that read snapshots read backups.
	if out, code := runApp(t, "audit", "--snapshot", file); code != 0 || !strings.Contains(out, "no findings in 10 objects") {
		t.Errorf("audit of the backup exits with %d: %s", code, out)
	}
	var piped, summary bytes.Buffer
	a := newApp(nil, &piped, &summary)
	if code := a.run(t.Context(), []string{"backup", "--data-dir", data, "-"}); code != 0 || !strings.HasPrefix(summary.String(), "1 CRD and ") {
		t.Fatalf("a backup to standard output exits with %d: %s", code, &summary)
	}
	if err := os.WriteFile(filepath.Join(dir, "piped.db"), piped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := runApp(t, "restore", "--dry-run", filepath.Join(dir, "piped.db")); code != 0 {
		t.Errorf("restore of a backup to standard output exits with %d: %s", code, out)
	}
	if out, code := runApp(t, "restore", "-"); code != 2 || !strings.Contains(out, "standard input") {
		t.Errorf("restore - exits with %d: %s", code, out)
	}
	later := c.create("later")
	if out, code := runApp(t, "restore", "--data-dir", data, "--force", file); code != 2 || !strings.Contains(out, "another server uses the data directory") {
		t.Errorf("restore over a running server exits with %d: %s", code, out)
	}
	if out, code := runApp(t, "backup", "--data-dir", data, "--semantics", "kubernetes", filepath.Join(dir, "other.db")); code != 2 || !strings.Contains(out, "the data has the semantics kep, not kubernetes") {
		t.Errorf("a backup with other semantics exits with %d: %s", code, out)
	}
	stop()

	// The stopped server has the later object. Its backup has it too, although etcd's database
	// may not.
	stopped := filepath.Join(dir, "stopped.db")
	if out, code := runApp(t, "backup", "--data-dir", data, stopped); code != 0 || !strings.Contains(out, "stopped.db: 1 CRD and ") {
		t.Errorf("the backup of the stopped server exits with %d: %s", code, out)
	}

	restored := filepath.Join(dir, "restored")
	if out, code := runApp(t, "restore", "--data-dir", restored, file); code != 0 || !strings.Contains(out, "espalier serve --data-dir "+restored+" --semantics kep\n") {
		t.Fatalf("restore exits with %d: %s", code, out)
	}
	check := func(data string) {
		t.Helper()
		c, stop := serveData(t, data)
		defer stop()
		for i := range 10 {
			if code, text := c.do(http.MethodGet, fmt.Sprintf("%s/before-%d", backupObjects, i), ""); code != http.StatusOK {
				t.Errorf("object %d: %d %s", i, code, text)
			}
		}
		if code, _ := c.do(http.MethodGet, backupObjects+"/later", ""); code != http.StatusNotFound {
			t.Errorf("the later object: %d", code)
		}
		// A client that has seen the later object must list again.
		if code, text := c.do(http.MethodGet, backupObjects+"?watch=1&timeoutSeconds=5&resourceVersion="+later, ""); code != http.StatusGone && !strings.Contains(text, `"code":410`) {
			t.Errorf("a watch from before the restore: %d %s", code, text)
		}
		if code, text := c.do(http.MethodGet, backupObjects+"?resourceVersionMatch=Exact&resourceVersion="+later, ""); code != http.StatusGone {
			t.Errorf("a list from before the restore: %d %s", code, text)
		}
		if rv := c.create("new"); len(rv) < len("1000000000") {
			t.Errorf("a new object has resourceVersion %s, one before the restore %s", rv, later)
		}
	}
	check(restored)

	// The data directory keeps its certificates.
	ca, err := os.ReadFile(filepath.Join(data, "pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if out, code := runApp(t, "restore", "--data-dir", data, file); code != 2 || !strings.Contains(out, "has data") {
		t.Errorf("restore without --force exits with %d: %s", code, out)
	}
	if out, code := runApp(t, "restore", "--data-dir", data, "--force", file); code != 0 || !strings.Contains(out, "The replaced data is in ") {
		t.Fatalf("restore with --force exits with %d: %s", code, out)
	}
	check(data)
	if now, err := os.ReadFile(filepath.Join(data, "pki", "ca.crt")); err != nil || !bytes.Equal(now, ca) {
		t.Errorf("the CA has changed (%v)", err)
	}
}

// TestKilledBackupAndRestore kills backups and restores at random moments.
func TestKilledBackupAndRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes")
	}
	t.Parallel()
	dir := t.TempDir()
	source, good := filepath.Join(dir, "source"), filepath.Join(dir, "good.db")
	createData(t, source, good)
	restoreInto := func(data string) error {
		_, err := server.Restore(context.Background(), &server.Options{DataDir: data}, server.RestoreOptions{Path: good, Bump: 1})
		return err
	}
	killed := map[bool]int{}
	for i := range 12 {
		delay := time.Duration(rand.Int64N(int64(600 * time.Millisecond)))
		file, data := filepath.Join(dir, fmt.Sprintf("%d.db", i)), filepath.Join(dir, fmt.Sprintf("data-%d", i))
		args := []string{"backup", "--data-dir", source, file}
		if i%2 == 1 {
			args = []string{"restore", "--data-dir", data, good}
		}
		if i%4 == 3 { // replaces older data
			if err := restoreInto(data); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--force")
		}
		p := startProcess(t, nil, args...)
		select {
		case <-p.exited:
		case <-time.After(delay):
		}
		_ = p.cmd.Process.Kill() // it may have exited
		<-p.exited
		killed[p.cmd.ProcessState.ExitCode() < 0]++

		_, fileErr := os.Stat(file)
		_, dataErr := os.Stat(filepath.Join(data, "etcd"))
		switch {
		case i%2 == 0 && fileErr == nil:
			if _, err := server.Restore(t.Context(), &server.Options{DataDir: data}, server.RestoreOptions{Path: file, Bump: 1}); err != nil {
				t.Errorf("after %v, the backup is bad: %v", delay, err)
			}
		case i%4 == 3 && dataErr != nil:
			t.Errorf("after %v, the old data is gone", delay)
		case i%2 == 1 && dataErr == nil:
			out, code := runApp(t, "backup", "--data-dir", data, file)
			if code != 0 || !strings.Contains(out, "1 CRD and 1 object at revision ") {
				t.Errorf("after %v, the restored data is bad: %s", delay, out)
			}
		case i%2 == 1:
			if err := restoreInto(data); err != nil {
				t.Errorf("after %v, a second restore fails: %v", delay, err)
			}
		}
	}
	t.Logf("killed: %d, finished: %d", killed[true], killed[false])
}
