package server

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

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"espalier.dev/analysis/lint"
	"espalier.dev/schema"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/server/pki"
)

// testOptions returns options for a server in its own directory.
func testOptions(t testing.TB) *Options {
	t.Helper()
	o := NewOptions()
	o.DataDir = filepath.Join(t.TempDir(), "data")
	o.SecurePort = 0
	o.Ephemeral = true
	o.Warnings = lint.Warnings
	// Tests of custom resources use namespaces that do not exist.
	o.DisableAdmissionPlugins = []string{"NamespaceLifecycle", "ServiceAccount"}
	return o
}

// start starts a server.
func start(t testing.TB, o *Options) (*Server, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return Start(ctx, o)
}

// startServer starts a server and stops it at the end of the test.
func startServer(t testing.TB, o *Options) *Server {
	t.Helper()
	s, err := start(t, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// startFails checks that a server fails to start, with an error that contains the parts.
func startFails(t testing.TB, o *Options, parts ...string) {
	t.Helper()
	s, err := start(t, o)
	if err == nil {
		_ = s.Stop()
		t.Error("it started")
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	if _, err := os.Stat(o.kubeconfigPath()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a kubeconfig: %v", err)
	}
}

// client returns a client of the server with the credentials of a configuration; nil means
// the administrator's.
func client(t testing.TB, s *Server, c *rest.Config) *http.Client {
	t.Helper()
	if c == nil {
		var err error
		if c, err = s.ClientConfig(); err != nil {
			t.Fatal(err)
		}
	}
	// Connections from client-go's cache would outlive the test.
	tlsConfig, err := rest.TLSConfigFor(c)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	rt, err := rest.HTTPWrappersForConfig(c, transport)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: rt, Timeout: time.Minute}
}

// get returns the status and the body of a response.
func get(t testing.TB, s *Server, c *http.Client, path string) (int, string) {
	t.Helper()
	resp, err := c.Get(s.URL() + path)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// eventually retries until try succeeds or a timeout expires.
func eventually(t testing.TB, try func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestServer(t *testing.T) {
	o := testOptions(t)
	s := startServer(t, o)
	admin := client(t, s, nil)

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
		if code, body := get(t, s, client(t, s, c), "/version"); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("version", func(t *testing.T) {
		if code, body := get(t, s, admin, "/version"); code != http.StatusOK || !strings.Contains(body, `"v`+KubernetesVersion+`+espalier"`) {
			t.Errorf("%d %s", code, body)
		}
	})
	t.Run("health", func(t *testing.T) {
		for path, checks := range map[string][]string{
			"/livez":   {"[+]etcd ok"},
			"/readyz":  {"[+]etcd ok", "[+]etcd-readiness ok", "[+]controller/crds ok"},
			"/healthz": {"[+]etcd ok"},
		} {
			code, body := get(t, s, admin, path+"?verbose")
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
		_, body := get(t, s, admin, "/metrics")
		for _, name := range []string{
			"apiserver_request_total", "apiserver_request_duration_seconds_bucket", "apiserver_current_inflight_requests",
			"apiserver_storage_size_bytes", "etcd_request_duration_seconds_bucket", "process_resident_memory_bytes", "go_goroutines",
		} {
			if !strings.Contains(body, "\n"+name) {
				t.Errorf("there is no metric %s", name)
			}
		}
	})
	t.Run("the server's own client", func(t *testing.T) {
		if code, body := get(t, s, client(t, s, s.api.LoopbackClientConfig), "/metrics"); code != http.StatusOK {
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
	o := testOptions(t)
	s := startServer(t, o)
	if _, err := s.db.client.Put(t.Context(), "/registry/example.com/things/a", "kept"); err != nil {
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

	s = startServer(t, o)
	resp, err := s.db.client.Get(t.Context(), "/registry/example.com/things/a")
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) != 1 || string(resp.Kvs[0].Value) != "kept" {
		t.Errorf("the data is %v", resp.Kvs)
	}
	// The administrator's credentials are still valid.
	before.Host = s.URL()
	if code, body := get(t, s, client(t, s, before), "/version"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}

// TestStop stops a server while it works on a request: the request completes, and others are
// told to retry.
func TestStop(t *testing.T) {
	s := startServer(t, testOptions(t))
	admin := client(t, s, nil)
	working, finish := make(chan struct{}), make(chan struct{})
	s.api.Handler.NonGoRestfulMux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
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
	eventually(t, func() error {
		if code, body := get(t, s, admin, "/version"); code != http.StatusTooManyRequests {
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
	s, err := start(t, testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	s.db.member.Close()
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
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not what is asked for"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		set   func(t *testing.T, o *Options)
		parts []string
	}{{
		name: "the data directory is used by another server",
		set: func(t *testing.T, o *Options) {
			o.DataDir = startServer(t, testOptions(t)).options.DataDir
			o.KubeconfigOut = file + "2"
		},
		parts: []string{"another server uses the data directory", "--data-dir"},
	}, {
		name: "the port is in use",
		set: func(t *testing.T, o *Options) {
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
		set:   func(_ *testing.T, o *Options) { o.BindAddress = "192.0.2.1" },
		parts: []string{"--bind-address 192.0.2.1"},
	}, {
		name:  "the data directory is a file",
		set:   func(_ *testing.T, o *Options) { o.DataDir = file; o.KubeconfigOut = file + "2" },
		parts: []string{"data directory", file},
	}, {
		name:  "the kubeconfig is somebody else's",
		set:   func(_ *testing.T, o *Options) { o.KubeconfigOut = file },
		parts: []string{"--kubeconfig-out", file, "was not written by this server"},
	}, {
		name: "etcd cannot be reached",
		set: func(_ *testing.T, o *Options) {
			o.Etcd.URLs = []string{"http://127.0.0.1:1"}
		},
		parts: []string{"no etcd member can be reached", "http://127.0.0.1:1", "connection refused"},
	}, {
		name:  "the token file",
		set:   func(_ *testing.T, o *Options) { o.TokenAuthFile = file },
		parts: []string{"--token-auth-file", file},
	}, {
		name:  "the client authority",
		set:   func(_ *testing.T, o *Options) { o.ClientCAFile = file },
		parts: []string{"--client-ca-file"},
	}, {
		name:  "the serving certificate",
		set:   func(_ *testing.T, o *Options) { o.TLSCertFile, o.TLSPrivateKeyFile = file, file },
		parts: []string{"--tls-cert-file"},
	}, {
		name: "the audit policy",
		set: func(t *testing.T, o *Options) {
			o.AuditPolicyFile, o.AuditLogPath = file, filepath.Join(t.TempDir(), "log")
		},
		parts: []string{"audit policy", file},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions(t)
			bad := *o
			tt.set(t, &bad)
			if bad.KubeconfigOut == file {
				_, err := start(t, &bad)
				for _, p := range tt.parts {
					if err == nil || !strings.Contains(err.Error(), p) {
						t.Errorf("%v does not say %q", err, p)
					}
				}
			} else {
				startFails(t, &bad, tt.parts...)
			}
			startServer(t, o)
		})
	}
}

// TestSemantics checks that the semantics is logged and recorded, and that data can only be used
// with the semantics that it was written with.
func TestSemantics(t *testing.T) {
	t.Run("M-01 own database", func(t *testing.T) {
		o := testOptions(t)
		o.Semantics = schema.Kubernetes
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		ctx, cancel := context.WithTimeout(klog.NewContext(t.Context(), logger), time.Minute)
		defer cancel()
		s, err := Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := s.db.client.Get(ctx, keys.NewRoot(o.EtcdPrefix).Semantics())
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
		startFails(t, o, "written with --semantics kubernetes", "started with --semantics kep", "start it with --semantics kubernetes")
		o.Semantics = schema.Kubernetes
		startServer(t, o)
	})
	t.Run("M-01 another database", func(t *testing.T) {
		m, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir(), UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		with := func(sem schema.Semantics, prefix string) *Options {
			o := testOptions(t)
			o.Etcd.URLs = []string{m.Endpoint()}
			o.EtcdPrefix = prefix
			o.Semantics = sem
			return o
		}
		startServer(t, with(schema.KEP, "/a"))
		startServer(t, with(schema.Kubernetes, "/b"))
		startServer(t, with(schema.KEP, "a/")) // the same, and two at a time
		startFails(t, with(schema.Kubernetes, "/a"), "written with --semantics kep", "--etcd-prefix", "apply their manifests")
	})
}

// TestLeaks starts and stops servers and checks that they leave nothing behind.
func TestLeaks(t *testing.T) {
	cycle := func() {
		s, err := start(t, testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, s, nil)
		get(t, s, c, "/metrics")
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
	eventually(t, func() error {
		if now := runtime.NumGoroutine(); now > before {
			stacks := make([]byte, 1<<20)
			return fmt.Errorf("%d goroutines, %d before: %s", now, before, stacks[:runtime.Stack(stacks, true)])
		}
		return nil
	})
}

// TestRenew checks that new certificates are used without a restart.
func TestRenew(t *testing.T) {
	s := startServer(t, testOptions(t))
	old, err := s.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.identity.renewOnce(func(*pki.Bundle) error { return errors.New("nothing was to renew") }); err != nil {
		t.Fatal(err)
	}
	// More than two thirds of the certificate's lifetime have passed.
	s.identity.config.Now = func() time.Time { return time.Now().Add(300 * 24 * time.Hour) }
	if err := s.identity.renewOnce(s.writeKubeconfig); err != nil {
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
	eventually(t, func() error {
		h := client(t, s, old)
		resp, err := h.Get(s.URL() + "/livez")
		if err != nil {
			return nil // not yet valid: the new one
		}
		_ = resp.Body.Close()
		return errors.New("the server shows the old certificate")
	})
}

// BenchmarkStart measures a start without data: certificates, database, server.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		o := testOptions(b)
		o.Ephemeral = false
		b.StartTimer()
		s, err := start(b, o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Stop(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
