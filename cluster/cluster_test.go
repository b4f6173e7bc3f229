package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"espalier.dev/cluster/internal/controlplane"
	"espalier.dev/internal/program"
)

// components skips a test if there is no components binary.
func components(t *testing.T) string {
	t.Helper()
	binary := os.Getenv(controlplane.Variable)
	if binary == "" {
		t.Skip(controlplane.Variable + " is not set: build the components with `go build -C cluster/components -o FILE .`, " +
			"which takes minutes, and set it to the path of FILE")
	}
	return binary
}

// built returns the paths of espalier and kubectl. They are built once, unless ESPALIER_CLUSTER_PROGRAMS names a directory that
// has them.
var built = sync.OnceValues(func() (map[string]string, error) {
	if dir := os.Getenv("ESPALIER_CLUSTER_PROGRAMS"); dir != "" {
		return map[string]string{"espalier": filepath.Join(dir, "espalier"), "kubectl": filepath.Join(dir, "kubectl")}, nil
	}
	dir, err := os.MkdirTemp("", "cluster-test-")
	if err != nil {
		return nil, err
	}
	espalier, err := program.Find(program.Complete)
	if err != nil {
		return nil, err
	}
	kubectl := filepath.Join(dir, "kubectl")
	c := exec.Command("go", "build", "-ldflags", "-w", "-o", kubectl, "./kubectl/kubectl")
	c.Dir = "../test/conformance"
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build kubectl: %w\n%s", err, out)
	}
	return map[string]string{"espalier": espalier, "kubectl": kubectl}, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv(controlplane.Variable) != "" && os.Getenv("ESPALIER_CLUSTER_PROGRAMS") == "" {
		if paths, err := built(); err == nil {
			_ = os.RemoveAll(filepath.Dir(paths["kubectl"]))
		}
	}
	os.Exit(code)
}

// output is what the launcher has written. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// cluster is a running cluster.
type cluster struct {
	dir, kubectl   string
	stdout, stderr output
	cancel         context.CancelFunc
	code           chan int
}

// launch starts the launcher, without waiting until the cluster is ready.
func launch(t *testing.T, args ...string) *cluster {
	t.Helper()
	binary := components(t)
	paths, err := built()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cluster{dir: t.TempDir(), kubectl: paths["kubectl"], cancel: cancel, code: make(chan int, 1)}
	args = append([]string{"--components", binary, "--espalier", paths["espalier"], "--data-dir", filepath.Join(c.dir, "data")}, args...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.code <- run(ctx, args, &c.stdout, &c.stderr)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if t.Failed() {
			t.Logf("the launcher writes\n%s%s", c.stdout.String(), c.stderr.String())
		}
	})
	return c
}

// kubeconfig returns the path of the kubeconfig.
func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "data", "kubeconfig") }

// run runs kubectl, and returns what it writes.
func (c *cluster) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.kubectl, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig(), "HOME="+c.dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ok runs kubectl, which must succeed.
func (c *cluster) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// apply creates objects.
func (c *cluster) apply(t *testing.T, yaml string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok(t, "apply", "-f", file)
}

// field returns a field of an object.
func (c *cluster) field(t *testing.T, path string, args ...string) string {
	t.Helper()
	out, err := c.run(t, append([]string{"get", "-o", "jsonpath=" + path}, args...)...)
	if err != nil {
		return ""
	}
	return out
}

// await waits until a condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("waited in vain: %s", what)
}

// awaitReady waits until the cluster is ready.
func (c *cluster) awaitReady(t *testing.T) {
	t.Helper()
	await(t, "the cluster is ready", func() bool {
		select {
		case code := <-c.code:
			t.Fatalf("it has ended with code %d", code)
		default:
		}
		return strings.Contains(c.stdout.String(), "The cluster is ready at https://127.0.0.1:")
	})
}

// exit waits for the end of the launcher, and returns its exit code.
func (c *cluster) exit(t *testing.T) int {
	t.Helper()
	select {
	case code := <-c.code:
		return code
	case <-time.After(3 * time.Minute):
		t.Fatal("it does not end")
		return 0
	}
}

// children returns the processes that run a program of the cluster, with their IDs, or nil if that cannot be known.
func (c *cluster) children(t *testing.T) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		return nil
	}
	found := map[int]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if args := strings.Split(string(data), "\x00"); err == nil && len(args) > 1 && strings.Contains(string(data), c.dir) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				t.Fatal(err)
			}
			found[pid] = args[1]
		}
	}
	return found
}

// TestFailures starts clusters that cannot run, and expects clear errors and no processes.
func TestFailures(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // after the subtests
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	dir := t.TempDir()
	for _, f := range []struct {
		name, stages string
		args         []string
		code         int
		want         []string
	}{
		{name: "port in use", args: []string{"--secure-port", port}, code: 2, want: []string{"is in use: choose another port with --secure-port"}},
		{name: "unknown flag", args: []string{"--no-such-flag"}, code: 2, want: []string{"unknown flag: --no-such-flag"}},
		{name: "not YAML", stages: "{", code: 1, want: []string{"cluster: read stages: ", "document 1"}},
		{name: "another kind", stages: "apiVersion: v1\nkind: Pod\n", code: 1, want: []string{"document 1", "must be a Stage of kwok.x-k8s.io/v1alpha1"}},
		{name: "empty", stages: "# nothing\n", code: 1, want: []string{"the file has no stages"}},
		{name: "unknown field", stages: stage("unknown: true"), code: 1, want: []string{"unknown"}},
		{name: "template", stages: stage("next: {statusTemplate: '{{ no }}'}"), code: 1, want: []string{`stage "broken"`, `function "no" not defined`}},
		{name: "expression", stages: stage("next: {delete: true}", "selector: {matchExpressions: [{key: '.[', operator: Exists}]}"), code: 1, want: []string{`stage "broken"`}},
		{name: "no effect", stages: stage(), code: 1, want: []string{`stage "broken" has no spec.steps`}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--storage=memory"}, f.args...)
			if f.stages != "" {
				file := filepath.Join(dir, strings.ReplaceAll(f.name, " ", "-")+".yaml")
				if err := os.WriteFile(file, []byte(f.stages), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "--stages", file)
			}
			c := launch(t, args...)
			if code := c.exit(t); code != f.code {
				t.Errorf("the exit code is %d", code)
			}
			for _, want := range f.want {
				if !strings.Contains(c.stderr.String(), want) {
					t.Errorf("it writes %q, want %q", c.stderr.String(), want)
				}
			}
			if left := c.children(t); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// stage returns a stage with more lines in its spec.
func stage(spec ...string) string {
	text := "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: broken}\nspec:\n  resourceRef: {kind: Pod}\n"
	if !strings.Contains(strings.Join(spec, ""), "selector") {
		spec = append(spec, "selector: {matchLabels: {a: b}}")
	}
	return text + "  " + strings.Join(spec, "\n  ") + "\n"
}

// TestRestart kills a component, which is restarted, and ends the cluster, which ends all processes.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := launch(t, "--nodes=1", "--secure-port=0", "--storage=memory")
	c.awaitReady(t)
	children := c.children(t)
	if children == nil {
		t.Skip("the processes of this system cannot be listed")
	}
	if len(children) != 4 {
		t.Errorf("the processes are %v", children)
	}
	for pid, name := range children {
		if name == "kube-scheduler" {
			p, err := os.FindProcess(pid)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, "a message", func() bool {
		return strings.Contains(c.stderr.String(), "cluster: kube-scheduler has exited: signal: killed; restarting it in 500ms")
	})
	c.ok(t, "create", "deployment", "web", "--image=example.com/image")
	c.ok(t, "rollout", "status", "deployment/web", "--timeout=3m")

	c.cancel()
	if code := c.exit(t); code != exitSuccess {
		t.Errorf("the exit code is %d", code)
	}
	if left := c.children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestServerEnds kills the server: everything ends.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	c := launch(t, "--nodes=0", "--secure-port=0", "--storage=memory")
	c.awaitReady(t)
	children := c.children(t)
	if children == nil {
		t.Skip("the processes of this system cannot be listed")
	}
	for pid, name := range children {
		if name == "serve" {
			if p, err := os.FindProcess(pid); err != nil || p.Kill() != nil {
				t.Fatal(err)
			}
		}
	}
	if code := c.exit(t); code == exitSuccess {
		t.Error("the exit code is 0")
	}
	if left := c.children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestOtherControllers turns the garbage collector of the server off: that of kube-controller-manager runs.
func TestOtherControllers(t *testing.T) {
	t.Parallel()
	c := launch(t, "--nodes=1", "--secure-port=0", "--storage=memory", "--controllers=*,-garbagecollector")
	c.awaitReady(t)
	c.ok(t, "create", "deployment", "web", "--image=example.com/image")
	c.ok(t, "rollout", "status", "deployment/web", "--timeout=3m")
	c.ok(t, "delete", "deployment/web")
	await(t, "the pods are deleted", func() bool { return c.field(t, "{.items}", "pods") == "[]" })
}
