package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const token = "robustness"

// Server is a process of the espalier binary.
type Server struct {
	*process
	dir string
	url atomic.Pointer[string]
}

// StartServer starts a server on an etcd cluster, and waits until it is ready.
func StartServer(t testing.TB, binary, dir, etcd string, env []string, args ...string) *Server {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+`,robustness,1,"system:masters"`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{dir: dir}
	s.process = newProcess(t, "server", filepath.Join(dir, "log"), func() *exec.Cmd {
		cmd := exec.Command(binary, append([]string{
			"serve", "--data-dir", filepath.Join(dir, "data"), "--kubeconfig-out", s.kubeconfig(),
			"--secure-port", "0", "--token-auth-file", tokens,
			"--etcd-servers", etcd, "--etcd-compaction-interval", "0",
			"--disable-admission-plugins", "NamespaceLifecycle", // objects are in namespaces that do not exist
		}, args...)...)
		cmd.Env = append(os.Environ(), env...)
		return cmd
	})
	s.Start(t.Context())
	return s
}

func (s *Server) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// Log returns the end of the server's log.
func (s *Server) Log() string { return tail(s.log) }

// LogFile returns the path of the server's log.
func (s *Server) LogFile() string { return s.log }

// Kill kills the server.
func (s *Server) Kill() { s.kill() }

// Stop asks the server to stop and waits for its end.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Pause stops the server from running until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Start starts the server and waits until it has written its kubeconfig, which it does when it
// is ready. A server that exits, because no etcd can be reached, is started again.
func (s *Server) Start(ctx context.Context) {
	s.t.Helper()
	if err := os.RemoveAll(s.kubeconfig()); err != nil {
		s.t.Fatal(err)
	}
	s.start()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if data, err := os.ReadFile(s.kubeconfig()); err == nil {
			for line := range strings.SplitSeq(string(data), "\n") {
				if _, url, ok := strings.Cut(line, "server: "); ok {
					s.url.Store(&url)
					return
				}
			}
		}
		select {
		case <-s.exited():
			s.kill()
			s.start()
		case <-ctx.Done():
			s.t.Error("the test ended while the server was starting")
			return
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server does not start:\n%s", s.Log())
		}
	}
}

// URL returns the address of the server. It changes when the server is restarted.
func (s *Server) URL() string { return *s.url.Load() }

// HTTPClient returns a client with connections of its own that is authenticated as an
// administrator.
func (s *Server) HTTPClient() *http.Client {
	pool := x509.NewCertPool()
	files, err := filepath.Glob(filepath.Join(s.dir, "data", "pki", "*.crt"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		pool.AppendCertsFromPEM(data)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: authenticated{transport}}
}

// authenticated adds the administrator's token to requests.
type authenticated struct{ next http.RoundTripper }

func (a authenticated) RoundTrip(req *http.Request) (*http.Response, error) {
	req.Header.Set("Authorization", "Bearer "+token)
	return a.next.RoundTrip(req)
}

// RssAnon returns the anonymous memory of the server's process in bytes.
func (s *Server) RssAnon() (int64, error) {
	pid, err := s.pid()
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			var kb int64
			if _, err := fmt.Sscan(value, &kb); err != nil {
				return 0, err
			}
			return kb << 10, nil
		}
	}
	return 0, fmt.Errorf("no RssAnon in the status of process %d", pid)
}
