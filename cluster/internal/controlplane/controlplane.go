// Package controlplane runs what a cluster has beside its API server: kube-controller-manager,
// kube-scheduler, and kwok, which simulates nodes. All of them are one binary, that of the module
// espalier.dev/cluster/components, by its first argument.
package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"espalier.dev/internal/process"
)

// MaxNodes is the largest number of nodes: that of the largest clusters that Kubernetes supports.
const MaxNodes = 5000

// Variable is the environment variable with the path of the components binary.
const Variable = "ESPALIER_CLUSTER_COMPONENTS"

// Config configures the control plane.
type Config struct {
	// Binary is the path of the components binary.
	Binary string
	// Kubeconfig is the path of an administrator's kubeconfig for the API server.
	Kubeconfig string
	// Nodes is the number of nodes.
	Nodes int
	// Stages are the stages of kwok, from [Stages].
	Stages []byte
	// Directory is the directory for the stages and the logs. It is created.
	Directory string
	// Keys are the keys of the server, which kube-controller-manager uses to sign certificates and tokens.
	Keys Keys
	// ServerControllers are the names of the controllers that the server runs. kube-controller-manager runs all others.
	ServerControllers []string
	// Report receives messages about programs that have exited, and their last log lines.
	Report func(message string)
}

// Keys are files of the server. A file that is empty is not used.
type Keys struct {
	// CACert and CAKey are the certificate and the key of its CA.
	CACert, CAKey string
	// ServiceAccountKey is the private key that signs service account tokens.
	ServiceAccountKey string
}

// KeysIn returns the keys in the data directory of a server. Those that do not exist are empty.
func KeysIn(directory string) Keys {
	existing := func(elements ...string) string {
		path := filepath.Join(append([]string{directory, "pki"}, elements...)...)
		if _, err := os.Stat(path); err != nil {
			return ""
		}
		return path
	}
	k := Keys{CACert: existing("ca.crt"), CAKey: existing("ca.key")}
	if keys, err := filepath.Glob(filepath.Join(directory, "pki", "service-accounts", "*.key")); err == nil && len(keys) > 0 {
		k.ServiceAccountKey = slices.Max(keys) // the server signs with the last one
	}
	return k
}

// CheckBinary returns an error if a file is not the components binary.
func CheckBinary(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the components binary cannot be used: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("the components binary %s is not a regular file", path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Errorf("the components binary cannot be executed: %w", err)
	}
	return nil
}

// Stages returns the stages that kwok plays: those in a file, unless it is empty, and the default ones. It
// returns an error if kwok cannot play them.
func Stages(ctx context.Context, binary, file string) ([]byte, error) {
	args := []string{"stages"}
	if file != "" {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		args = append(args, file)
	}
	c := exec.CommandContext(ctx, binary, args...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "stages: ")
		var exit *exec.ExitError
		if errors.As(err, &exit) && text != "" {
			err = errors.New(text)
		}
		return nil, fmt.Errorf("read stages: %w", err)
	}
	return out, nil
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	supervisor *process.Supervisor
	logs       []*log
	ready      chan error
	cancel     context.CancelFunc
}

// Start starts the control plane of a server that is ready.
func Start(ctx context.Context, c Config) (*ControlPlane, error) {
	if err := os.MkdirAll(c.Directory, 0o700); err != nil {
		return nil, err
	}
	stages := filepath.Join(c.Directory, "stages.yaml")
	if err := os.WriteFile(stages, c.Stages, 0o600); err != nil {
		return nil, err
	}
	programs, err := c.arguments(stages)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &ControlPlane{ready: make(chan error, 1), cancel: cancel}
	p.supervisor = process.NewSupervisor(func(message string) { c.Report(message + "; logs: " + c.Directory) })
	begin := time.Now()
	for name, args := range programs {
		l, err := openLog(filepath.Join(c.Directory, name+".log"))
		if err == nil {
			p.logs = append(p.logs, l)
			err = p.supervisor.Keep(process.Program{
				Name: name, Path: c.Binary, Args: append([]string{name}, args...), Env: c.environment(), Stdout: l, Stderr: l,
			})
		}
		if err != nil {
			p.Stop()
			return nil, err
		}
	}
	go func() { p.ready <- p.await(ctx, c, begin) }()
	return p, nil
}

// await creates the nodes, and returns when the cluster is ready or cannot become so.
func (p *ControlPlane) await(ctx context.Context, c Config, begin time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-p.supervisor.Failed():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	var out bytes.Buffer
	nodes := process.Program{
		Name: "nodes", Path: c.Binary, Args: []string{
			"nodes", "--kubeconfig=" + c.Kubeconfig, "--count=" + strconv.Itoa(c.Nodes), "--since=" + begin.UTC().Format(time.RFC3339Nano),
		},
		Env: c.environment(), Stdout: io.Discard, Stderr: &out,
	}
	if err := process.Run(ctx, nodes, p.supervisor.Grace); err != nil {
		text := strings.TrimPrefix(strings.TrimSpace(out.String()), "nodes: ")
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && text != "":
			return errors.New(text)
		case ctx.Err() != nil:
			return fmt.Errorf("the cluster is not ready: %w; its log is in %s", err, c.Directory)
		}
		return fmt.Errorf("create nodes: %w", err)
	}
	return nil
}

// Ready receives nil when the cluster is ready, or an error if it cannot become so.
func (p *ControlPlane) Ready() <-chan error { return p.ready }

// Stop ends all programs.
func (p *ControlPlane) Stop() {
	p.cancel()
	p.supervisor.Stop()
	for _, l := range p.logs {
		l.close()
	}
}

// manyNodes is the number of nodes from which on a cluster has longer leases.
const manyNodes = 100

// controllers are the controllers that the server can run: their names in its flags, and in those of kube-controller-manager.
var controllers = map[string]string{
	"clusterrole-aggregation":                     "clusterrole-aggregation-controller",
	"garbagecollector":                            "garbage-collector-controller",
	"namespace":                                   "namespace-controller",
	"pod-garbage-collector-controller":            "pod-garbage-collector-controller",
	"resourcequota":                               "resourcequota-controller",
	"root-ca-certificate-publisher":               "root-ca-certificate-publisher-controller",
	"serviceaccount":                              "serviceaccount-controller",
	"validatingadmissionpolicy-status-controller": "validatingadmissionpolicy-status-controller",
}

// RunByServer returns the names of the controllers that a server runs with values of its flag --controllers. The first one that applies
// to a controller decides.
func RunByServer(values []string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(controllers)), func(name string) bool {
		for _, v := range values {
			switch v {
			case name:
				return false
			case "-" + name:
				return true
			}
		}
		return !slices.Contains(values, "*")
	})
}

// managerControllers returns the value of the flag --controllers of kube-controller-manager.
func (c Config) managerControllers() (string, error) {
	value := "*"
	for _, name := range c.ServerControllers {
		manager, ok := controllers[name]
		if !ok {
			return "", fmt.Errorf("the server runs the controller %q, which is unknown: kube-controller-manager may run it, too", name)
		}
		value += ",-" + manager
	}
	return value, nil
}

// arguments returns the arguments of each program.
func (c Config) arguments(stages string) (map[string][]string, error) {
	run, err := c.managerControllers()
	if err != nil {
		return nil, err
	}
	// Nothing connects to the programs, so they do not listen. The limits of requests are for clusters
	// that share an API server.
	common := []string{"--kubeconfig=" + c.Kubeconfig, "--secure-port=0", "--profiling=false", "--kube-api-qps=5000", "--kube-api-burst=10000"}
	manager := append(slices.Clone(common), "--controllers="+run,
		// The next start need not wait until the lease ends. kube-scheduler always does so.
		"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true")
	if k := c.Keys; k.CACert != "" {
		manager = append(manager, "--root-ca-file="+k.CACert)
		if k.CAKey != "" {
			manager = append(manager, "--cluster-signing-cert-file="+k.CACert, "--cluster-signing-key-file="+k.CAKey)
		}
	}
	if key := c.Keys.ServiceAccountKey; key != "" {
		manager = append(manager, "--service-account-private-key-file="+key)
	}
	scheduler := slices.Clone(common)
	lease := 40 // seconds, as that of a kubelet
	if c.Nodes > manyNodes {
		// On a busy machine, a leader that cannot renew its lease in time would exit, although it has no rival.
		patience := []string{"--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s"}
		manager, scheduler = append(manager, patience...), append(scheduler, patience...)
		// kwok renews leases after a quarter of their duration, and kube-controller-manager waits 50 seconds for
		// it. Many nodes renew as rarely as possible.
		lease = 120
	}
	return map[string][]string{
		"kube-controller-manager": manager,
		"kube-scheduler":          scheduler,
		"kwok": {
			"--kubeconfig=" + c.Kubeconfig, "--config=" + stages,
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", "--node-lease-duration-seconds=" + strconv.Itoa(lease), "--v=warn",
		},
	}, nil
}

// environment returns variables of the programs.
func (c Config) environment() []string {
	return []string{
		// kwok would also read the configuration in the home directory.
		"KWOK_WORKDIR=" + c.Directory,
	}
}
