package servertest

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/server"
)

// processDir is the environment variable with the data directory of the server of a Process.
const processDir = "ESPALIER_TEST_SERVER_PROCESS"

// Process is a server in a process of its own, which a test kills. The process is the test binary:
// it runs the test again, which calls ServeProcess first.
type Process struct {
	testing.TB
	URL    string
	Client *http.Client
	// Log is what the process has written since its start.
	Log bytes.Buffer

	dir string
	cmd *exec.Cmd
}

// ServeProcess reports whether this is the process of a Process. Then it runs the server.
func ServeProcess(t testing.TB, change func(*server.Options)) bool {
	t.Helper()
	dir := os.Getenv(processDir)
	if dir == "" {
		return false
	}
	o := server.NewOptions()
	o.DataDir, o.SecurePort = dir, 0
	if change != nil {
		change(o)
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
	return true
}

// StartProcess starts a server as a process.
func StartProcess(t testing.TB) *Process {
	t.Helper()
	p := &Process{TB: t, dir: t.TempDir()}
	p.Start()
	return p
}

// Start starts the server again, after it was killed.
func (p *Process) Start() {
	p.Helper()
	kubeconfig := filepath.Join(p.dir, "kubeconfig")
	if err := os.RemoveAll(kubeconfig); err != nil {
		p.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	p.Log.Reset()
	test, _, _ := strings.Cut(p.Name(), "/")
	cmd := exec.Command(self, "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), processDir+"="+p.dir)
	cmd.Stdout, cmd.Stderr = &p.Log, &p.Log
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	p.cmd = cmd
	p.Cleanup(func() { _ = cmd.Process.Kill() }) // usually dead already
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		if time.Now().After(deadline) {
			p.Kill()
			p.Fatalf("it does not start: %s", &p.Log)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		p.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		p.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}
	p.URL, p.Client = config.Host, &http.Client{Transport: transport, Timeout: time.Minute}
}

// Kill kills the process, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed
	if p.Client != nil {
		p.Client.CloseIdleConnections()
	}
}
