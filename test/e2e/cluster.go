package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"espalier.dev/internal/process"
	"espalier.dev/internal/process/setup"
	"espalier.dev/server/pki"
)

const (
	// nodes is the number of simulated nodes. Specs need two.
	nodes = 3
	// readyTimeout is the time to wait for a program, and readyPoll the time between requests.
	readyTimeout = 3 * time.Minute
	readyPoll    = 100 * time.Millisecond
	// restartDelay is the time until a supervised program is started again.
	restartDelay = time.Second
	// stopTimeout is the time that a program has to end before it is killed.
	stopTimeout = 15 * time.Second
	// issuer is the issuer of service account tokens.
	issuer = "https://kubernetes.default.svc.cluster.local"
	// simulated is an annotation of the nodes that kwok simulates.
	simulated = "kwok.x-k8s.io/node"
	// trackingConfigMap is written by kube-apiserver, and read by kube-controller-manager.
	trackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
)

// cluster is an API server with the other programs of a control plane, and simulated nodes.
type cluster struct {
	kubeconfig string // of the administrator
	logs       string
	health     *http.Client
	url        string
	fail       context.CancelCauseFunc
	// supervised programs are started again if they end. While the server is killed again and
	// again they may end: they give up after a time, and kube-scheduler 1.36 ends if it sees the
	// deletion and the creation of a pod as one change, because it was not connected.
	supervised bool
	key        string      // the file of the key that signs tokens
	bundle     *pki.Bundle // the certificates

	server *process.Process
	start  func() (*process.Process, error) // starts the server, also after it has been killed
	killer *process.Killer                  // or nil

	mu       sync.Mutex
	others   map[string]*process.Process
	restarts map[string]int // of supervised programs
	stopping bool
}

// startCluster starts a cluster. It returns one that must be stopped, even with an error.
func startCluster(ctx context.Context, fail context.CancelCauseFunc, o *options, p *programs) (*cluster, error) {
	c := &cluster{logs: o.artifacts, fail: fail, supervised: o.kill > 0 || o.faults, others: map[string]*process.Process{}, restarts: map[string]int{}}
	data, err := os.MkdirTemp(o.artifacts, "data-")
	if err != nil {
		return c, err
	}
	bundle, err := pki.Ensure(pki.Config{Dir: filepath.Join(data, "certificates"), Hosts: []string{"127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"}, UnsafeNoFsync: true})
	if err != nil {
		return c, err
	}
	c.bundle = bundle
	ports, err := setup.FreePorts(3)
	if err != nil {
		return c, err
	}
	c.url = fmt.Sprintf("https://127.0.0.1:%d", ports[0])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle.CA.Cert)
	admin, err := tls.X509KeyPair(bundle.Admin.Cert, bundle.Admin.Key)
	if err != nil {
		return c, err
	}
	c.health = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{admin}}}}
	users := map[string]string{"admin": "", "controller-manager": "system:kube-controller-manager", "scheduler": "system:kube-scheduler"}
	configs := map[string]string{}
	for name, user := range users {
		configs[name] = filepath.Join(data, name+".kubeconfig")
		if err := writeKubeconfig(configs[name], c.url, bundle, user); err != nil {
			return c, err
		}
	}
	c.kubeconfig = configs["admin"]
	key := filepath.Join(data, "service-accounts.key")
	c.key = key
	if err := setup.WriteKey(key); err != nil {
		return c, err
	}
	args := []string{
		"--anonymous-auth=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", ports[0]),
		"--client-ca-file=" + bundle.CA.CertFile, "--tls-cert-file=" + bundle.Serving.CertFile, "--tls-private-key-file=" + bundle.Serving.KeyFile,
		"--service-account-issuer=" + issuer, "--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-cluster-ip-range=10.96.0.0/16", "--enable-priority-and-fairness",
	}
	if o.real {
		client := fmt.Sprintf("http://127.0.0.1:%d", ports[1])
		if err := c.add("etcd", p.etcd, "--data-dir="+filepath.Join(data, "etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
			fmt.Sprintf("--listen-peer-urls=http://127.0.0.1:%d", ports[2])); err != nil {
			return c, err
		}
		args = append(args, "--allow-privileged=true", "--cert-dir="+filepath.Join(data, "certificates"), "--etcd-servers="+client)
	} else {
		args = slices.Concat([]string{"serve"}, args, []string{"--controllers=", "--data-dir=" + filepath.Join(data, "server"), "--semantics=kubernetes"})
	}
	c.start = func() (*process.Process, error) { return c.program(fail, "server", p.server, args...) }
	if c.server, err = c.start(); err != nil {
		return c, err
	}
	if err := c.ready(ctx, c.server); err != nil {
		return c, err
	}
	if err := createNodes(ctx, c.kubeconfig); err != nil {
		return c, err
	}
	stages := filepath.Join(data, "stages.yaml")
	text, err := exec.Command(p.components, "stages").Output()
	if err != nil {
		return c, fmt.Errorf("print the stages of kwok: %w", err)
	}
	if err := os.WriteFile(stages, text, 0o600); err != nil {
		return c, err
	}
	manage := "--manage-all-nodes"
	if o.faults {
		manage = "--manage-nodes-with-annotation-selector=" + simulated + "=fake"
	}
	return c, errors.Join(
		c.add("kube-controller-manager", p.components, "kube-controller-manager", "--kubeconfig="+configs["controller-manager"], "--leader-elect=false", "--secure-port=0",
			"--use-service-account-credentials", "--service-account-private-key-file="+key, "--root-ca-file="+bundle.CA.CertFile,
			"--cluster-signing-cert-file="+bundle.CA.CertFile, "--cluster-signing-key-file="+bundle.CA.KeyFile, "--kube-api-qps=200", "--kube-api-burst=400"),
		c.add("kube-scheduler", p.components, "kube-scheduler", "--kubeconfig="+configs["scheduler"], "--leader-elect=false", "--secure-port=0",
			"--kube-api-qps=200", "--kube-api-burst=400"),
		c.add("kwok", p.components, "kwok", "--kubeconfig="+c.kubeconfig, "--config="+stages, manage, "--cidr=10.240.0.0/16", "--node-ip=10.0.0.1",
			"--node-lease-duration-seconds=40"),
	)
}

// program starts a program, whose output is appended to a file. If it ends without having been stopped, fail is called.
func (c *cluster) program(fail func(error), name, path string, args ...string) (*process.Process, error) {
	p, err := process.Start(process.Program{Name: name, Path: path, Args: args, Log: filepath.Join(c.logs, name+".log")})
	if err == nil {
		p.Watch(fail)
	}
	return p, err
}

// add starts another program.
func (c *cluster) add(name, path string, args ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping {
		return nil
	}
	var fail func(error) = c.fail
	if c.supervised {
		fail = func(error) {
			time.Sleep(restartDelay)
			c.mu.Lock()
			stopping := c.stopping
			if !stopping {
				c.restarts[name]++
			}
			c.mu.Unlock()
			if stopping {
				return
			}
			if err := c.add(name, path, args...); err != nil {
				c.fail(err)
			}
		}
	}
	p, err := c.program(fail, name, path, args...)
	if err == nil {
		c.others[name] = p
	}
	return err
}

// crash kills a supervised program that runs, and reports whether there is one. It is started again.
func (c *cluster) crash(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.others[name]
	if p == nil || p.Check() != nil {
		return false
	}
	running, err := os.FindProcess(p.PID())
	return err == nil && running.Kill() == nil // Kill of p would be an expected end
}

// ready waits until the server is ready.
func (c *cluster) ready(ctx context.Context, server *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := c.health.Do(req); err != nil {
			last = err
		} else {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = errors.New(resp.Status)
		}
		select {
		case <-server.Done():
			return server.Check()
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w: %w", context.Cause(ctx), last)
		case <-time.After(readyPoll):
		}
	}
}

// startKiller kills the server each time it has been ready for a time.
func (c *cluster) startKiller(ctx context.Context, interval time.Duration) {
	c.killer = &process.Killer{Interval: interval, Start: c.start, Ready: c.ready, Failed: c.fail}
	c.killer.Run(ctx, c.server)
}

// stopKiller ends the kills. The server is ready then, or an error is returned.
func (c *cluster) stopKiller() error {
	err := c.killer.Stop()
	c.server = c.killer.Process()
	fmt.Printf("the server was killed %d times\n", c.killer.Kills())
	return err
}

// stop ends all programs: those that the server needs last.
func (c *cluster) stop() {
	// After that nothing changes the maps.
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.restarts)) {
		fmt.Printf("%s was started again %d times\n", name, c.restarts[name])
	}
	var others sync.WaitGroup
	for name, p := range c.others {
		if name != "etcd" {
			others.Go(func() { p.Stop(stopTimeout) })
		}
	}
	others.Wait()
	for _, p := range []*process.Process{c.server, c.others["etcd"]} {
		if p != nil {
			p.Stop(stopTimeout)
		}
	}
}

// serverLogs returns the path of the server's log.
func (c *cluster) serverLogs() string { return filepath.Join(c.logs, "server.log") }

// newClient returns a client of the administrator.
func newClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// createNodes creates the nodes that kwok simulates.
func createNodes(ctx context.Context, kubeconfig string) error {
	client, err := newClient(kubeconfig)
	if err != nil {
		return err
	}
	has := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("16"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
		corev1.ResourcePods:             resource.MustParse("200"),
	}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{simulated: "fake"}, Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			}},
			Status: corev1.NodeStatus{Capacity: has, Allocatable: has, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubernetesVersion, OperatingSystem: "linux", Architecture: "amd64"}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create a node: %w", err)
		}
	}
	return nil
}

// check makes the checks of a cluster that has run specs.
func (c *cluster) check(ctx context.Context) error {
	client, err := newClient(c.kubeconfig)
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, trackingConfigMap, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("kube-controller-manager needs a config map: %w", err)
	}
	return nil
}
