package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"espalier.dev/schema"
	"espalier.dev/server"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/pki"
	"espalier.dev/server/servertest"
)

func TestServer(t *testing.T) {
	o := servertest.EtcdOptions(t)
	s := servertest.Start(t, o)
	admin := servertest.Client(t, s, nil)

	t.Run("files", func(t *testing.T) {
		err := filepath.WalkDir(o.DataDir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if mode := info.Mode().Perm(); mode&0o077 != 0 && d.Type()&os.ModeSocket == 0 {
				t.Errorf("%s has mode %o", path, mode)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("kubeconfig", func(t *testing.T) {
		c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if code, body := servertest.Get(t, s, servertest.Client(t, s, c), "/version"); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("version", func(t *testing.T) {
		if code, body := servertest.Get(t, s, admin, "/version"); code != http.StatusOK || !strings.Contains(body, `"v`+server.KubernetesVersion+`+espalier"`) {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("health", func(t *testing.T) {
		for path, checks := range map[string][]string{
			"/livez":   {"[+]etcd ok"},
			"/readyz":  {"[+]etcd ok", "[+]etcd-readiness ok", "[+]controller/crds ok"},
			"/healthz": {"[+]etcd ok"},
		} {
			code, body := servertest.Get(t, s, admin, path+"?verbose")
			if code != http.StatusOK {
				t.Errorf("%s: %d", path, code)
			}
			for _, c := range checks {
				if !strings.Contains(body, c) {
					t.Errorf("%s does not say %q: %s", path, c, body)
				}
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		_, body := servertest.Get(t, s, admin, "/metrics")
		for _, name := range []string{
			"apiserver_request_total", "apiserver_request_duration_seconds_bucket", "apiserver_current_inflight_requests",
			"apiserver_storage_size_bytes", "etcd_request_duration_seconds_bucket", "process_resident_memory_bytes", "go_goroutines",
			`espalier_etcd_failures_total{reason="full"} `, `espalier_etcd_failures_total{reason="unavailable"} `,
			`espalier_controller_restarts_total{name="namespace"} `,
		} {
			if !strings.Contains(body, "\n"+name) {
				t.Errorf("there is no metric %s", name)
			}
		}
	})
	t.Run("the server's own client", func(t *testing.T) {
		if code, body := servertest.Get(t, s, servertest.Client(t, s, s.Loopback()), "/metrics"); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("TLS only", func(t *testing.T) {
		resp, err := http.Get("http" + strings.TrimPrefix(s.URL(), "https") + "/livez")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS the answer is %s", resp.Status)
		}
	})
}

// TestRestart stops a server and restarts it on the same data.
func TestRestart(t *testing.T) {
	t.Parallel()
	o := servertest.EtcdOptions(t)
	s := servertest.Start(t, o)
	if _, err := servertest.Etcd(t, o).Put(t.Context(), "/registry/example.com/things/a", "kept"); err != nil {
		t.Fatal(err)
	}
	before, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "https://")); err == nil {
		t.Error("the port is still open")
	}

	s = servertest.Start(t, o)
	resp, err := servertest.Etcd(t, o).Get(t.Context(), "/registry/example.com/things/a")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "kept" {
		t.Errorf("the data is %v", resp.Kvs)
	}
	// The administrator's credentials are still valid.
	before.Host = s.URL()
	if code, body := servertest.Get(t, s, servertest.Client(t, s, before), "/version"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// TestStop stops a server while it works on a request: the request completes, and others are
// told to retry.
func TestStop(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	admin := servertest.Client(t, s, nil)
	working, finish := make(chan struct{}), make(chan struct{})
	s.Handler().NonGoRestfulMux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(working)
		<-finish
		_, _ = io.WriteString(w, "finished")
	})
	answer := make(chan string, 1)
	go func() {
		resp, err := admin.Get(s.URL() + "/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		body, err := io.ReadAll(resp.Body)
		answer <- fmt.Sprint(resp.StatusCode, string(body), err, resp.Body.Close())
	}()
	<-working
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()
	servertest.Eventually(t, func() error {
		if code, body := servertest.Get(t, s, admin, "/version"); code != http.StatusTooManyRequests {
			return fmt.Errorf("a server that is to stop answers %d %s", code, body)
		}
		return nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("it stopped before the request was answered: %v", err)
	case <-s.Done():
		t.Fatal("it is done before the request was answered")
	default:
	}
	close(finish)
	if got, want := <-answer, "200finished<nil> <nil>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestDatabaseStops checks the server after etcd stops unexpectedly.
func TestDatabaseStops(t *testing.T) {
	t.Parallel()
	s, err := servertest.TryStart(t, servertest.EtcdOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	s.CloseEtcd()
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Error("the server goes on without its database")
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "etcd has stopped") {
		t.Errorf("got %v", err)
	}
}

// TestStartErrors checks the errors that prevent a start. A failed start leaves nothing
// behind: a later one in the same place succeeds.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not what is asked for"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		set   func(t *testing.T, o *server.Options)
		parts []string
	}{{
		name: "the data directory is used by another server",
		set: func(t *testing.T, o *server.Options) {
			other := servertest.Options(t)
			servertest.Start(t, other)
			o.DataDir = other.DataDir
			o.KubeconfigOut = file + "2"
		},
		parts: []string{"another server uses the data directory", "--data-dir"},
	}, {
		name: "the port is in use",
		set: func(t *testing.T, o *server.Options) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			o.SecurePort = l.Addr().(*net.TCPAddr).Port
		},
		parts: []string{"is in use", "--secure-port"},
	}, {
		name:  "not an address of the machine",
		set:   func(_ *testing.T, o *server.Options) { o.BindAddress = "192.0.2.1" },
		parts: []string{"--bind-address 192.0.2.1"},
	}, {
		name:  "the data directory is a file",
		set:   func(_ *testing.T, o *server.Options) { o.DataDir = file; o.KubeconfigOut = file + "2" },
		parts: []string{"data directory", file},
	}, {
		name:  "the kubeconfig is somebody else's",
		set:   func(_ *testing.T, o *server.Options) { o.KubeconfigOut = file },
		parts: []string{"--kubeconfig-out", file, "was not written by this server"},
	}, {
		name: "etcd cannot be reached",
		set: func(_ *testing.T, o *server.Options) {
			o.Storage, o.Etcd.URLs = server.StorageEtcd, []string{"http://127.0.0.1:1"}
		},
		parts: []string{"no etcd member can be reached", "http://127.0.0.1:1", "connection refused"},
	}, {
		name:  "the token file",
		set:   func(_ *testing.T, o *server.Options) { o.TokenAuthFile = file },
		parts: []string{"--token-auth-file", file},
	}, {
		name:  "the client authority",
		set:   func(_ *testing.T, o *server.Options) { o.ClientCAFile = file },
		parts: []string{"--client-ca-file"},
	}, {
		name:  "the serving certificate",
		set:   func(_ *testing.T, o *server.Options) { o.TLSCertFile, o.TLSPrivateKeyFile = file, file },
		parts: []string{"--tls-cert-file"},
	}, {
		name: "the audit policy",
		set: func(t *testing.T, o *server.Options) {
			o.AuditPolicyFile, o.AuditLogPath = file, filepath.Join(t.TempDir(), "log")
		},
		parts: []string{"audit policy", file},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := servertest.Options(t)
			bad := *o
			tt.set(t, &bad)
			if bad.KubeconfigOut == file {
				_, err := servertest.TryStart(t, &bad)
				for _, p := range tt.parts {
					if err == nil || !strings.Contains(err.Error(), p) {
						t.Errorf("%v does not say %q", err, p)
					}
				}
			} else {
				servertest.StartFails(t, &bad, tt.parts...)
			}
			servertest.Start(t, o)
		})
	}
}

// TestFailedStartRemovesDirectory checks that a start that fails leaves no data directory behind that it
// has created, and one that existed as it was.
func TestFailedStartRemovesDirectory(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, exists := range []bool{false, true} {
		o := servertest.Options(t)
		o.SecurePort = l.Addr().(*net.TCPAddr).Port
		o.DataDir = filepath.Join(t.TempDir(), "data")
		if exists {
			if err := os.Mkdir(o.DataDir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		servertest.StartFails(t, o, "is in use")
		if _, err := os.Stat(o.DataDir); exists != (err == nil) {
			t.Errorf("a directory that existed (%v) before the start: %v", exists, err)
		}
	}
}

// TestSemantics checks that the semantics is logged and recorded, and that data can only be used
// with the semantics that it was written with.
func TestSemantics(t *testing.T) {
	t.Run("M-01 own database", func(t *testing.T) {
		o := servertest.Options(t)
		o.Semantics = schema.Kubernetes
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), time.Minute)
		defer cancel()
		s, err := server.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := servertest.Etcd(t, o).Get(ctx, keys.NewRoot(o.EtcdPrefix).Semantics())
		if err := errors.Join(err, s.Stop()); err != nil {
			t.Fatal(err)
		}
		if len(recorded.Kvs) != 1 || string(recorded.Kvs[0].Value) != "kubernetes" {
			t.Errorf("recorded: %v", recorded.Kvs)
		}
		if logs := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); !strings.Contains(logs, `semantics="kubernetes"`) {
			t.Errorf("not logged: %s", logs)
		}
		o.Semantics = schema.KEP
		servertest.StartFails(t, o, "written with --semantics kubernetes", "started with --semantics kep", "start it with --semantics kubernetes")
		o.Semantics = schema.Kubernetes
		servertest.Start(t, o)
	})
	t.Run("M-01 another database", func(t *testing.T) {
		m, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		with := func(sem schema.Semantics, prefix string) *server.Options {
			o := servertest.ShareEtcd(t, []string{m.Endpoint()})
			o.EtcdPrefix = prefix
			o.Semantics = sem
			return o
		}
		servertest.Start(t, with(schema.KEP, "/a"))
		servertest.Start(t, with(schema.Kubernetes, "/b"))
		servertest.Start(t, with(schema.KEP, "a/")) // the same, and two at a time
		servertest.StartFails(t, with(schema.Kubernetes, "/a"), "written with --semantics kep", "--etcd-prefix", "apply their manifests")
	})
}

// TestLeaks starts and stops servers and checks that they leave nothing behind.
func TestLeaks(t *testing.T) {
	cycle := func() {
		s, err := servertest.TryStart(t, servertest.EtcdOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		c := servertest.Client(t, s, nil)
		servertest.Get(t, s, c, "/metrics")
		c.CloseIdleConnections()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // start what runs once per process
	before := runtime.NumGoroutine()
	for range 5 {
		cycle()
	}
	servertest.Eventually(t, func() error {
		if now := runtime.NumGoroutine(); now > before {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before: %s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// TestRenew checks that new certificates are used without a restart.
func TestRenew(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, servertest.Options(t))
	old, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(time.Now, func(*pki.Bundle) error { return errors.New("nothing was to renew") }); err != nil {
		t.Fatal(err)
	}
	// More than two thirds of the certificate's lifetime have passed.
	later := func() time.Time { return time.Now().Add(300 * 24 * time.Hour) }
	if err := s.Renew(later, nil); err != nil {
		t.Fatal(err)
	}
	c, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if string(c.CertData) == string(old.CertData) {
		t.Error("the kubeconfig has the old certificate")
	}
	// The server presents the new certificate, which is not valid yet.
	servertest.Eventually(t, func() error {
		h := servertest.Client(t, s, old)
		resp, err := h.Get(s.URL() + "/livez")
		if err != nil {
			return nil // not yet valid: the new one
		}
		_ = resp.Body.Close()
		return errors.New("the server shows the old certificate")
	})
}
