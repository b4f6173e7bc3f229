package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"espalier.dev/internal/process"
	"espalier.dev/internal/process/setup"
)

const (
	// startTimeout is the time that a server has to become ready.
	startTimeout = 3 * time.Minute
	startPoll    = 100 * time.Millisecond
	// stopTimeout is the time that a server has to stop before it is killed.
	stopTimeout = 20 * time.Second
	// node is the node that functions expect. Without an annotation, the object would have no
	// fields that a manager could own.
	node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"127.0.0.1","annotations":{"save-managers":"true"}},` +
		`"status":{"capacity":{"memory":"1Gi"}}}`
	// token is in the scripts' file of tokens.
	token = "admin-token"
)

// cluster is a server with kube-controller-manager.
type cluster struct {
	r           *runner
	dir         string
	port        int    // the port of the server, or of what forwards to it
	certificate []byte // of the server, as PEM
	client      *http.Client
	args        []string // the command line of the server
	etcd        *process.Process
	manager     *process.Process
	forward     *forwarder
	killer      *process.Killer
	server      *process.Process // the first one, if there is a killer
}

// startCluster starts the servers with new data, as hack/make-rules/test-cmd.sh starts them.
func (r *runner) startCluster(ctx context.Context) (_ *cluster, err error) {
	c := &cluster{r: r}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.dir, err = os.MkdirTemp(r.dir, "cluster-"); err != nil {
		return nil, err
	}
	c.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	key := filepath.Join(c.dir, "service-account.key")
	if err := setup.WriteKey(key); err != nil {
		return nil, err
	}
	ports, err := setup.FreePorts(4)
	if err != nil {
		return nil, err
	}
	c.port = ports[0]
	c.args = r.serverArgs(c.dir, key, c.port, ports[1])
	if r.real {
		if err := c.startEtcd(ctx, ports[1], ports[2]); err != nil {
			return nil, err
		}
	}
	if c.server, err = c.startServer(); err != nil {
		return nil, err
	}
	if err := c.ready(ctx, c.server); err != nil {
		return nil, err
	}
	if c.certificate, err = certificate(c.port); err != nil {
		return nil, err
	}
	if r.kill > 0 {
		if c.forward, err = startForwarder(c.port); err != nil {
			return nil, err
		}
		c.port = c.forward.port
	}
	if err := c.startManager(ctx, ports[3]); err != nil {
		return nil, err
	}
	if err := c.createNode(ctx); err != nil {
		return nil, err
	}
	if r.kill > 0 {
		c.killer = &process.Killer{Interval: r.kill, Start: c.startServer, Ready: c.ready}
		c.killer.Run(ctx, c.server)
	}
	return c, nil
}

// startProgram starts a program, whose log is appended to a file.
func (c *cluster) startProgram(program string, args ...string) (*process.Process, error) {
	name := filepath.Base(program)
	return process.Start(process.Program{Name: name, Path: program, Args: args, Log: c.r.log(name)})
}

// startServer starts the server, also after it has been killed.
func (c *cluster) startServer() (*process.Process, error) {
	return c.startProgram(c.args[0], c.args[1:]...)
}

// ready waits until the server is ready.
func (c *cluster) ready(ctx context.Context, p *process.Process) error {
	return c.await(ctx, c.url("/readyz"), p)
}

// serverArgs returns the command line of the server: the flags of hack/make-rules/test-cmd.sh,
// apart from those that are about ports and files.
func (r *runner) serverArgs(dir, key string, port, etcd int) []string {
	testdata := filepath.Join(r.scripts, "hack", "testdata")
	args := []string{
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--authorization-mode=RBAC,AlwaysAllow",
		"--enable-admission-plugins=LimitRanger,ResourceQuota",
		"--disable-admission-plugins=ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,StorageObjectInUseProtection",
		"--runtime-config=api/v1",
		"--service-account-key-file=" + key,
		"--service-account-lookup=true",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--client-ca-file=" + filepath.Join(testdata, "ca", "ca.crt"),
		"--token-auth-file=" + filepath.Join(testdata, "auth-tokens.csv"),
	}
	if r.real {
		return append([]string{filepath.Join(r.bin, "kube-apiserver"),
			fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", etcd), "--cert-dir=" + filepath.Join(dir, "certificates")}, args...)
	}
	// The controllers of kube-controller-manager run, and not those of the server.
	return append([]string{r.espalier, "serve", "--semantics=" + r.semantics, "--controllers=",
		"--data-dir=" + filepath.Join(dir, "data")}, args...)
}

// startEtcd starts the etcd of the real server.
func (c *cluster) startEtcd(ctx context.Context, client, peer int) (err error) {
	clients, peers := fmt.Sprintf("http://127.0.0.1:%d", client), fmt.Sprintf("http://127.0.0.1:%d", peer)
	c.etcd, err = c.startProgram(filepath.Join(c.r.bin, "etcd"), "--data-dir="+filepath.Join(c.dir, "etcd"),
		"--listen-client-urls="+clients, "--advertise-client-urls="+clients,
		"--listen-peer-urls="+peers, "--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	if err != nil {
		return err
	}
	return c.await(ctx, clients+"/health", c.etcd)
}

// startManager starts kube-controller-manager.
func (c *cluster) startManager(ctx context.Context, port int) error {
	kubeconfig := filepath.Join(c.dir, "controller-manager.yaml")
	err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: %s
    insecure-skip-tls-verify: true
users:
- name: controller-manager
  user:
    token: %s
contexts:
- name: local
  context:
    cluster: local
    user: controller-manager
current-context: local
`, c.url(""), token), 0o600)
	if err != nil {
		return err
	}
	ca := filepath.Join(c.r.scripts, "hack", "testdata", "ca")
	c.manager, err = c.startProgram(filepath.Join(c.r.bin, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--cert-dir="+filepath.Join(c.dir, "manager"),
		// There is one, which must survive that the server is killed.
		"--leader-elect=false",
		// No kubelet reports about the node: do not wait long for the conditions that it gets then.
		"--node-startup-grace-period=1s", "--node-monitor-period=1s",
		"--cluster-signing-cert-file="+filepath.Join(ca, "ca.crt"), "--cluster-signing-key-file="+filepath.Join(ca, "ca.key"))
	if err != nil {
		return err
	}
	return c.await(ctx, fmt.Sprintf("https://127.0.0.1:%d/healthz", port), c.manager)
}

// createNode creates the node that functions expect, and waits until it has conditions.
func (c *cluster) createNode(ctx context.Context) error {
	status, body, err := c.request(ctx, http.MethodPost, c.url("/api/v1/nodes"), node)
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("create a node: %s", body)
	}
	for begin := time.Now(); err == nil && !bytes.Contains(body, []byte(`"conditions":[{`)); time.Sleep(startPoll) {
		if time.Since(begin) > startTimeout {
			return fmt.Errorf("the node has no conditions: %s", body)
		}
		_, body, err = c.request(ctx, http.MethodGet, c.url("/api/v1/nodes/127.0.0.1"), "")
	}
	return err
}

func (c *cluster) url(path string) string { return fmt.Sprintf("https://127.0.0.1:%d%s", c.port, path) }

// request sends a request as the administrator.
func (c *cluster) request(ctx context.Context, method, url, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// await waits until a URL answers with 200.
func (c *cluster) await(ctx context.Context, url string, p *process.Process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%s is not ready after %v; logs: %s", url, startTimeout, c.r.output))
	defer cancel()
	for {
		if status, _, err := c.request(ctx, http.MethodGet, url, ""); err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-p.Done():
			return p.Check()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(startPoll):
		}
	}
}

// check returns an error if a server has ended by itself.
func (c *cluster) check() error {
	var errs []error
	for _, p := range []*process.Process{c.etcd, c.manager} {
		if p != nil {
			errs = append(errs, p.Check())
		}
	}
	if c.killer != nil {
		return errors.Join(append(errs, c.killer.Err())...)
	}
	return errors.Join(append(errs, c.server.Check())...)
}

// stop ends all servers. What the race detector has found is an error.
func (c *cluster) stop() error {
	var errs []error
	if c.killer != nil {
		errs = append(errs, c.killer.Stop())
		c.server = c.killer.Process()
	}
	for _, p := range []*process.Process{c.manager, c.server, c.etcd} {
		if p != nil && !p.Stop(stopTimeout) {
			errs = append(errs, fmt.Errorf("a program has not stopped within %v: %w", stopTimeout, p.Check()))
		}
	}
	if c.forward != nil {
		errs = append(errs, c.forward.stop())
	}
	if c.r.race {
		errs = append(errs, c.races())
	}
	return errors.Join(errs...)
}

// races returns an error if the race detector has written to the log of the server.
func (c *cluster) races() error {
	if c.server == nil {
		return nil
	}
	log := c.r.log(filepath.Base(c.args[0]))
	data, err := os.ReadFile(log)
	if err == nil && strings.Contains(string(data), "WARNING: DATA RACE") {
		err = fmt.Errorf("the server has a data race: see %s", log)
	}
	return err
}

// certificate returns the certificate of the server at a port, as PEM.
func certificate(port int) ([]byte, error) {
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: conn.ConnectionState().PeerCertificates[0].Raw}), nil
}
