package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServeWithoutData checks what the log says about data that is missing or there, and about resources
// that are not encrypted because they do not exist.
func TestServeWithoutData(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(config, []byte(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [{"resources": ["secret"], "providers": [{"identity": {}}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		created = "No data found: the server creates new data"
		found   = "The data has the schema semantics of this server"
		missing = "the data directory has certificates of an earlier start, but no etcd"
		unknown = "--encryption-provider-config has resources that do not exist"
	)
	for _, test := range []struct {
		name      string
		want, not []string
		args      []string
	}{
		{"first start", []string{created, `prefix="/registry"`}, []string{found, missing, unknown}, nil},
		{"second start", []string{found, unknown, `["secret"]`}, []string{created, missing}, []string{"--encryption-provider-config", config}},
		{"without the volume", []string{created, missing}, []string{found, unknown}, nil},
	} {
		if test.name == "without the volume" {
			if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
				t.Fatal(err)
			}
		}
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		p := serveProcess(t, append([]string{"--data-dir", dir, "--kubeconfig-out", kubeconfig}, test.args...)...)
		client, url := p.ready(t, kubeconfig)
		// What a liveness probe asks: a server without etcd answers reads from memory.
		resp, err := client.Get(url + "/livez?exclude=etcd")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: /livez?exclude=etcd: %s", test.name, resp.Status)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(t); code != 0 {
			t.Errorf("%s: exit code %d", test.name, code)
		}
		log := p.stderr.String()
		for _, text := range test.want {
			if !strings.Contains(log, text) {
				t.Errorf("%s: the log does not contain %s: %s", test.name, text, log)
			}
		}
		for _, text := range test.not {
			if strings.Contains(log, text) {
				t.Errorf("%s: the log contains %s: %s", test.name, text, log)
			}
		}
	}
}
