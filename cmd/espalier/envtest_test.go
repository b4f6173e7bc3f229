package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"espalier.dev/server/pki"
)

func TestMakeAssets(t *testing.T) {
	files := func(dir string) (apiserver, etcd os.FileInfo) {
		t.Helper()
		apiserver, err := os.Stat(filepath.Join(dir, apiserverName))
		if err != nil {
			t.Fatal(err)
		}
		if etcd, err = os.Stat(filepath.Join(dir, etcdName)); err != nil {
			t.Fatal(err)
		}
		return apiserver, etcd
	}
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	dir, err := makeAssets("", "")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(dir, cache+string(filepath.Separator)) {
		t.Errorf("the directory %s is not in the cache", dir)
	}
	apiserver, etcd := files(dir)
	if !os.SameFile(apiserver, etcd) || apiserver.Mode()&0o111 == 0 {
		t.Errorf("the programs are %v and %v", apiserver, etcd)
	}
	if _, err := os.Lstat(filepath.Join(dir, kubectlName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a kubectl: %v", err)
	}

	// A second run replaces nothing, and adds kubectl if there is one.
	if err := os.WriteFile(filepath.Join(bin, kubectlName), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if again, err := makeAssets("", dir); err != nil || again != dir {
		t.Fatalf("got %s, %v", again, err)
	}
	if same, _ := files(dir); !os.SameFile(apiserver, same) {
		t.Error("the program was replaced by itself")
	}
	if target, err := os.Readlink(filepath.Join(dir, kubectlName)); err != nil || target != filepath.Join(bin, kubectlName) {
		t.Errorf("kubectl is %s, %v", target, err)
	}

	// An older program is replaced.
	if err := os.Remove(filepath.Join(dir, apiserverName)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, apiserverName), []byte("older"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := makeAssets("", dir); err != nil {
		t.Fatal(err)
	}
	if now, etcd := files(dir); now.Size() != apiserver.Size() || !os.SameFile(now, etcd) {
		t.Errorf("the older program is still there: %d bytes", now.Size())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 4 {
		t.Errorf("the directory has %v, %v", entries, err)
	}

	// Programs of others are not.
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, etcdName), []byte("other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := makeAssets("", foreign); err == nil || !strings.Contains(err.Error(), "not from espalier") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(foreign, etcdName)); err != nil || string(text) != "other" {
		t.Errorf("the other etcd is %q, %v", text, err)
	}
}

func TestCopyProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := copyProgram(from, to, info); err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat(to)
	if err != nil || got.Mode() != 0o755 || !got.ModTime().Equal(info.ModTime()) {
		t.Errorf("the copy is %v, %v", got, err)
	}
	// The copy is recognized.
	if err := link(from, to); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(to); err != nil || !os.SameFile(now, got) {
		t.Errorf("the copy was replaced: %v, %v", now, err)
	}
}

// plane is an etcd and kube-apiservers, started as envtest starts them.
type plane struct {
	dir, certs, data         string
	port, etcdPort, peerPort int
	bundle                   *pki.Bundle
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{certs: t.TempDir(), data: filepath.Join(t.TempDir(), "data"), port: freePort(t), etcdPort: freePort(t), peerPort: freePort(t)}
	var err error
	if p.dir, err = makeAssets("", filepath.Join(t.TempDir(), "assets")); err != nil {
		t.Fatal(err)
	}
	p.bundle, err = pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), Hosts: []string{"127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"apiserver.crt": p.bundle.Serving.Cert, "apiserver.key": p.bundle.Serving.Key,
		"client-cert-auth-ca.crt": p.bundle.CA.Cert,
		"sa-signer.crt":           p.bundle.CA.Cert, "sa-signer.key": p.bundle.CA.Key,
	} {
		if err := os.WriteFile(filepath.Join(p.certs, name), data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// start starts one of the programs.
func (p *plane) start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(filepath.Join(p.dir, name), args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return startCommand(t, cmd)
}

func (p *plane) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", p.etcdPort) }

func (p *plane) startEtcd(t *testing.T) *process {
	t.Helper()
	c := p.start(t, etcdName, "--advertise-client-urls="+p.etcdURL(), "--data-dir="+p.data, "--listen-client-urls="+p.etcdURL(),
		fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", p.peerPort), "--unsafe-no-fsync=true")
	awaitAnswer(t, c, p.etcdURL()+"/health", true)
	return c
}

func (p *plane) apiserverArgs(port int, more ...string) []string {
	return append([]string{
		"--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", "--cert-dir=" + p.certs,
		"--client-ca-file=" + filepath.Join(p.certs, "client-cert-auth-ca.crt"), "--disable-admission-plugins=ServiceAccount",
		"--etcd-servers=" + p.etcdURL(), fmt.Sprintf("--secure-port=%d", port), fmt.Sprintf("--service-account-issuer=https://127.0.0.1:%d/", port),
		"--service-account-key-file=" + filepath.Join(p.certs, "sa-signer.crt"),
		"--service-account-signing-key-file=" + filepath.Join(p.certs, "sa-signer.key"), "--service-cluster-ip-range=10.0.0.0/24",
	}, more...)
}

func healthz(port int) string { return fmt.Sprintf("https://127.0.0.1:%d/healthz", port) }

func (p *plane) startAPIServer(t *testing.T, port int, more ...string) *process {
	t.Helper()
	c := p.start(t, apiserverName, p.apiserverArgs(port, more...)...)
	awaitAnswer(t, c, healthz(port), true)
	return c
}

// config returns the configuration of an administrator's client.
func (p *plane) config(port int) *rest.Config {
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d/", port),
		QPS:             -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: p.bundle.CA.Cert, CertData: p.bundle.Admin.Cert, KeyData: p.bundle.Admin.Key},
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// awaitAnswer waits until an anonymous request to a process succeeds, or fails.
func awaitAnswer(t *testing.T, p *process, url string, success bool) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // as in envtest
		DisableKeepAlives: true,
	}}
	var last error
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		resp, err := client.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) == success {
				return
			}
			err = errors.New(resp.Status)
		} else if !success {
			return
		}
		last = err
		select {
		case <-p.exited:
			t.Fatalf("%s exited with %v: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, &p.stderr)
		default:
		}
	}
	t.Fatalf("%s: success is not %t: %v", url, success, last)
}

// signal sends a signal and waits for the exit.
func (p *process) signal(t *testing.T, s syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	return p.exit(t)
}

// TestEnvtestHelp reads the help texts as envtest does, which looks for flags.
func TestEnvtestHelp(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	for name, flag := range map[string]string{apiserverName: "\n      --etcd-servers ", etcdName: "\n  --unsafe-no-fsync "} {
		c := p.start(t, name, "--help")
		if code := c.exit(t); code != 0 || !strings.Contains(c.stdout.String()+c.stderr.String(), flag) {
			t.Errorf("%s --help exits with %d: %s%s", name, code, &c.stdout, &c.stderr)
		}
		if strings.Contains(c.stdout.String(), "insecure-port") {
			t.Errorf("%s has the flag --insecure-port, which envtest would use", name)
		}
	}
	for _, test := range []struct {
		name, flag string
		code       int
		message    string
	}{
		{apiserverName, "--cloud-provider=x", 1, "Error: unknown flag: --cloud-provider\n"},
		{apiserverName, "--max-requests-inflight=x", 1, `Error: invalid argument "x" for "--max-requests-inflight" flag`},
		{apiserverName, "--feature-gates=NoSuchFeature=true", 1, "unrecognized feature gate: NoSuchFeature"},
		{apiserverName, "--v=1", 1, "--etcd-servers must be specified"},
		{etcdName, "--no-such-flag=x", 2, "flag provided but not defined: -no-such-flag\n"},
	} {
		c := p.start(t, test.name, test.flag)
		if code := c.exit(t); code != test.code || !strings.Contains(c.stderr.String(), test.message) {
			t.Errorf("%s %s exits with %d: %s", test.name, test.flag, code, &c.stderr)
		}
	}
}

// TestEnvtestPlane uses a control plane as tests with envtest do.
func TestEnvtestPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	t.Parallel()
	ctx := t.Context()
	whole := t // processes live longer than subtests
	p := newPlane(t)
	etcd := p.startEtcd(t)
	apiserver := p.startAPIServer(t, p.port)
	// A healthy server answers requests: there are no retries here.
	plain, err := rest.HTTPClientFor(p.config(p.port))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := plain.Get(fmt.Sprintf("https://127.0.0.1:%d/api/v1/namespaces/default", p.port))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the namespace default: %s", resp.Status)
	}
	client := kubernetes.NewForConfigOrDie(p.config(p.port))

	// No controllers run.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lasting"}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	t.Run("busy port", func(t *testing.T) {
		c := p.start(t, apiserverName, p.apiserverArgs(p.port)...)
		want := fmt.Sprintf("failed to create listener: failed to listen on 127.0.0.1:%d: listen tcp 127.0.0.1:%[1]d: bind: address already in use", p.port)
		if code := c.exit(t); code != 1 || !strings.Contains(c.stderr.String(), want) {
			t.Errorf("kube-apiserver exits with %d: %s", code, &c.stderr)
		}
		c = p.start(t, etcdName, "--data-dir="+t.TempDir(), "--advertise-client-urls="+p.etcdURL(), "--listen-client-urls="+p.etcdURL(),
			fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", freePort(t)))
		if code := c.exit(t); code != 1 || !strings.Contains(c.stderr.String(), "bind: address already in use") {
			t.Errorf("etcd exits with %d: %s", code, &c.stderr)
		}
	})

	t.Run("second server", func(t *testing.T) {
		port := freePort(t)
		second := p.startAPIServer(t, port)
		establish(t, p.config(port), "firsts")
		establish(t, p.config(p.port), "seconds")
		crds := dynamic.NewForConfigOrDie(p.config(p.port)).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "firsts"})
		if _, err := crds.Namespace("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("the first server does not serve the CRD: %v", err)
		}
		if code := second.signal(t, syscall.SIGTERM); code != 0 {
			t.Errorf("kube-apiserver exits with %d: %s", code, &second.stderr)
		}
	})

	t.Run("killed etcd", func(t *testing.T) {
		etcd.signal(t, syscall.SIGKILL)
		awaitAnswer(t, apiserver, healthz(p.port), false)
		etcd = p.startEtcd(whole)
		awaitAnswer(t, apiserver, healthz(p.port), true)
	})

	t.Run("killed server", func(t *testing.T) {
		apiserver.signal(t, syscall.SIGKILL)
		apiserver = p.startAPIServer(whole, p.port)
		establish(t, p.config(p.port), "thirds")
	})

	got, err := client.CoreV1().Namespaces().Get(ctx, namespace.Name, metav1.GetOptions{})
	if err != nil || got.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the namespace is %v, %v", got, err)
	}
	if code := apiserver.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("kube-apiserver exits with %d: %s", code, &apiserver.stderr)
	}
	etcd.signal(t, syscall.SIGTERM)
	if status := etcd.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("etcd exits with %v: %s", etcd.cmd.ProcessState, &etcd.stderr)
	}
}

// TestEnvtestLog makes sure that the log names everything that has no effect, and the reason of
// the end.
func TestEnvtestLog(t *testing.T) {
	if testing.Short() {
		t.Skip("starts several servers")
	}
	t.Parallel()
	p := newPlane(t)
	p.startEtcd(t)
	c := p.startAPIServer(t, p.port, "--audit_log_mode=blocking", "--kubelet-timeout=5s", "--feature-gates=DynamicResourceAllocation=true",
		"--enable-admission-plugins=ImagePolicyWebhook")
	if code := c.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("kube-apiserver exits with %d: %s", code, &c.stderr)
	}
	for _, want := range []string{"--audit-log-mode", "--kubelet-timeout", "feature gates of kube-apiserver have no effect in this server: DynamicResourceAllocation", "ImagePolicyWebhook", `"The API server is stopping" cause="terminated"`} {
		if !strings.Contains(c.stderr.String(), want) {
			t.Errorf("the log does not mention %s: %s", want, &c.stderr)
		}
	}
	if strings.Contains(c.stderr.String(), "--etcd-servers ") {
		t.Errorf("the log mentions a flag that has an effect: %s", &c.stderr)
	}
}

// establish creates a CRD and waits until it is established.
func establish(t *testing.T, config *rest.Config, plural string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	client := dynamic.NewForConfigOrDie(config)
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind, "metadata": map[string]any{"name": "a"}}}
	for {
		_, err := objects.Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
