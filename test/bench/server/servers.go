package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/internal/process/setup"
	"espalier.dev/server/pki"
)

// programs are the binaries of a run.
type programs struct{ espalier, reference, etcd string }

// buildPrograms compiles the programs. etcd is the command of its own module. It and the
// reference stay in the user's cache, where the next run finds them; Espalier is compiled
// into dir, because other source trees may be measured at the same time.
func buildPrograms(ctx context.Context, dir, espalier string) (programs, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return programs{}, err
	}
	cache = filepath.Join(cache, "espalier-bench")
	p := programs{espalier: espalier, reference: filepath.Join(cache, "reference"), etcd: filepath.Join(cache, "etcd")}
	if err := goBuild(ctx, "", p.reference, "espalier.dev/test/bench/server/reference"); err != nil {
		return programs{}, err
	}
	if err := goBuild(ctx, "", p.etcd, "go.etcd.io/etcd/server/v3"); err != nil {
		return programs{}, err
	}
	if espalier == "" {
		module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "espalier.dev").Output()
		if err != nil {
			return programs{}, fmt.Errorf("find the source tree: %w", err)
		}
		p.espalier = filepath.Join(dir, "espalier")
		if err := goBuild(ctx, strings.TrimSpace(string(module)), p.espalier, "./cmd/espalier"); err != nil {
			return programs{}, err
		}
	}
	return p, nil
}

// goBuild compiles a command, with the module of a directory.
func goBuild(ctx context.Context, dir, binary, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", binary, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return nil
}

// server is an API server with its etcd.
type server struct {
	name    string
	dir     string
	url     string
	binary  string
	args    []string
	process *program
	etcd    *program
	// store is a client of the server's etcd, to write many objects quickly.
	store *clientv3.Client
	// clients send the requests that are measured, admin everything else.
	clients []*http.Client
	admin   *http.Client
}

const (
	referenceName = "reference"
	espalierName  = "espalier"
	// prefix is the prefix of all keys in etcd.
	prefix = "/registry"
	// readyTimeout is the time that a server has to become ready.
	readyTimeout = 5 * time.Minute
)

// startServer starts an etcd and a server on it, and returns when the server is ready.
func (b *bench) startServer(ctx context.Context, name string) (_ *server, err error) {
	dir, err := os.MkdirTemp(b.dir, name+"-")
	if err != nil {
		return nil, err
	}
	s := &server{name: name, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	endpoint, err := s.startEtcd(b.programs.etcd)
	if err != nil {
		return nil, err
	}
	return s, b.startOn(ctx, s, endpoint)
}

// startOn starts a server on an etcd that runs, and returns when it is ready. If it fails, the caller
// stops what has been started.
func (b *bench) startOn(ctx context.Context, s *server, endpoints ...string) (err error) {
	if s.store, err = clientv3.New(clientv3.Config{Endpoints: endpoints, DialTimeout: readyTimeout}); err != nil {
		return err
	}
	if _, err := s.store.Get(ctx, "ready"); err != nil { // waits until etcd is up
		return fmt.Errorf("etcd: %w", err)
	}
	ports, err := setup.FreePorts(1)
	if err != nil {
		return err
	}
	s.url = "https://127.0.0.1:" + strconv.Itoa(ports[0])
	common := []string{
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[0]),
		"--etcd-servers=" + strings.Join(endpoints, ","), "--etcd-prefix=" + prefix, "--profiling=true",
		"--tls-cert-file=" + b.certs.Serving.CertFile, "--tls-private-key-file=" + b.certs.Serving.KeyFile,
		"--client-ca-file=" + b.certs.CA.CertFile,
	}
	switch {
	case s.name == espalierName || len(b.with) > 0:
		s.binary = b.programs.espalier
		s.args = append([]string{"serve", "--semantics=kubernetes", "--data-dir=" + filepath.Join(s.dir, "data"), "--disable-admission-plugins=NamespaceLifecycle"}, common...)
		if b.user != "" {
			s.args = append(s.args, "--authorization-mode=AlwaysAllow")
		}
		if s.name == espalierName {
			s.args = append(s.args, b.with...)
		}
	default:
		s.binary = b.programs.reference
		config := filepath.Join(s.dir, "kubeconfig")
		if err := os.WriteFile(config, []byte(noCluster), 0o600); err != nil {
			return err
		}
		// There is no kube-apiserver to ask: the flags are those of the reference's own
		// integration tests.
		s.args = append([]string{
			"--kubeconfig=" + config, "--authentication-kubeconfig=" + config, "--authorization-kubeconfig=" + config,
			"--authentication-skip-lookup", "--enable-priority-and-fairness=false",
			"--disable-admission-plugins=NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy,MutatingAdmissionPolicy",
		}, common...)
	}
	if s.admin, err = newClient(b.certs.CA, b.certs.Admin); err != nil {
		return err
	}
	user := b.certs.Admin
	if b.user != "" {
		if user, err = pki.NewClient(pkiConfig(b.dir), b.user); err != nil {
			return err
		}
	}
	for range concurrency {
		c, err := newClient(b.certs.CA, user)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, c)
	}
	return s.launch(ctx)
}

// noCluster is a kubeconfig for a cluster that does not exist.
const noCluster = `{"apiVersion":"v1","kind":"Config","current-context":"none",
"clusters":[{"name":"none","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"none","context":{"cluster":"none","user":"none"}}],
"users":[{"name":"none","user":{"username":"none","password":"none"}}]}
`

// startEtcd starts an etcd and returns its address. It does not wait for the disk, so that
// requests take less time; the servers' CPU time is not affected.
func (s *server) startEtcd(binary string) (endpoint string, err error) {
	ports, err := setup.FreePorts(2)
	if err != nil {
		return "", err
	}
	client, peer := "http://127.0.0.1:"+strconv.Itoa(ports[0]), "http://127.0.0.1:"+strconv.Itoa(ports[1])
	s.etcd, err = start("etcd", filepath.Join(s.dir, "etcd.log"), binary,
		"--name=bench", "--data-dir="+filepath.Join(s.dir, "etcd"), "--log-level=error",
		"--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--max-txn-ops=1024",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=bench="+peer)
	return client, err
}

// launch starts the server process and returns when it is ready.
func (s *server) launch(ctx context.Context) (err error) {
	if s.process, err = start(s.name, filepath.Join(s.dir, "server.log"), s.binary, s.args...); err != nil {
		return err
	}
	return s.await(ctx, func() error {
		// The reference reports informers of a cluster that does not exist.
		_, err := s.get(ctx, "/readyz?exclude=informer-sync")
		return err
	})
}

// restart stops the server process and starts another one on the same etcd. It returns the
// time and the CPU time until the new one is ready, as the function says.
func (s *server) restart(ctx context.Context, ready func() error) (elapsed, cpu time.Duration, err error) {
	if err := s.process.stop(); err != nil {
		return 0, 0, err
	}
	s.disconnect()
	begin := time.Now()
	if err := s.launch(ctx); err != nil {
		return 0, 0, err
	}
	if err := s.await(ctx, ready); err != nil {
		return 0, 0, err
	}
	elapsed = time.Since(begin)
	cpu, err = s.process.cpu()
	return elapsed, cpu, err
}

// await calls a function until it succeeds.
func (s *server) await(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		if dead := s.process.Check(); dead != nil {
			return dead
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.name, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// settle waits until the server is idle: less than 2% of a CPU for half a second.
func (s *server) settle(ctx context.Context) error {
	const window, idle = 500 * time.Millisecond, 10 * time.Millisecond
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		before, err := s.process.cpu()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(window):
		}
		after, err := s.process.cpu()
		if err != nil || after-before < idle {
			return err
		}
	}
	return nil // a server that is never idle is measured as it is
}

// heap returns the live heap in bytes: what is left after two garbage collections, because
// the first only moves pooled values aside.
func (s *server) heap(ctx context.Context) (float64, error) {
	var text []byte
	for range 2 {
		var err error
		if text, err = s.get(ctx, "/debug/pprof/heap?gc=1&debug=1"); err != nil {
			return 0, err
		}
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "# HeapAlloc = "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, errors.New("the heap profile has no HeapAlloc")
}

// goroutines returns the number of goroutines.
func (s *server) goroutines(ctx context.Context) (float64, error) {
	text, err := s.get(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	var n float64
	if _, err := fmt.Sscanf(string(text), "goroutine profile: total %f", &n); err != nil {
		return 0, fmt.Errorf("goroutine profile: %w", err)
	}
	return n, nil
}

// disconnect closes all connections, because the next process does not know them.
func (s *server) disconnect() {
	for _, c := range s.clients {
		c.CloseIdleConnections()
	}
	if s.admin != nil {
		s.admin.CloseIdleConnections()
	}
}

// stop ends the server and its etcd, and deletes their data.
func (s *server) stop() error {
	s.disconnect()
	var errs []error
	if s.process != nil {
		errs = append(errs, s.process.stop())
	}
	if s.store != nil {
		_ = s.store.Close() // nothing is written any more
	}
	if s.etcd != nil {
		errs = append(errs, s.etcd.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// newCertificates returns the certificates that both servers and all clients use.
func newCertificates(dir string) (*pki.Bundle, error) {
	return pki.Ensure(pkiConfig(dir))
}

func pkiConfig(dir string) pki.Config {
	return pki.Config{Dir: filepath.Join(dir, "pki"), Hosts: []string{"127.0.0.1"}}
}
