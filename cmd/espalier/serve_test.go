package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// asProgram is the environment variable that makes the test binary run the program, or one
// that an example needs: etcd, or a load balancer in place of haproxy.
const asProgram = "ESPALIER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "":
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "haproxy":
		if err := balance(os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		main()
	}
	os.Exit(m.Run())
}

// process is a running espalier process.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr output
	exited         chan struct{}
}

// serveProcess starts `espalier serve` in a new process.
func serveProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startProcess(t, nil, append([]string{"serve", "--secure-port=0"}, args...)...)
}

// startProcess starts espalier in a new process.
func startProcess(t *testing.T, stdin io.Reader, args ...string) *process {
	t.Helper()
	return startIn(t, "", stdin, nil, args...)
}

// startIn starts espalier in a directory, with variables in addition to those of this process.
func startIn(t *testing.T, dir string, stdin io.Reader, env []string, args ...string) *process {
	t.Helper()
	cmd := programCommand(t, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, append(cmd.Env, env...), stdin
	return startCommand(t, cmd)
}

// programCommand returns a command that runs the program in another process.
func programCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

// startCommand starts a command, which is killed when the test ends.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // the exit code is in ProcessState
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has usually exited
		<-p.exited
	})
	return p
}

// ready waits until the server is ready, and returns a client.
func (p *process) ready(t *testing.T, kubeconfig string) (*http.Client, string) {
	t.Helper()
	p.stdout.await(t, p.exited, func(text string) bool { return strings.Contains(text, "is ready at") })
	// There are no retries.
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, config.Host
}

// exit waits for the process to exit and returns its exit code.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		t.Fatal("the process does not exit")
	}
	return p.cmd.ProcessState.ExitCode()
}

func TestServe(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a dir")
	kubeconfig := filepath.Join(dir, "kubeconfig")
	p := serveProcess(t, "--data-dir", dir, "--log-format=json", "-v=1")
	client, url := p.ready(t, kubeconfig)
	resp, err := client.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the server is not ready: %s", resp.Status)
	}

	t.Run("a second one", func(t *testing.T) {
		second := serveProcess(t, "--data-dir", dir)
		if code := second.exit(t); code != 2 || !strings.Contains(second.stderr.String(), "another server uses the data directory") {
			t.Errorf("exit code %d: %s", code, &second.stderr)
		}
		if _, err := os.Stat(kubeconfig); err != nil {
			t.Errorf("the kubeconfig of the first server is gone: %v", err)
		}
	})

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
	if got, want := p.stdout.String(), fmt.Sprintf("  export KUBECONFIG='%s'\n", kubeconfig); !strings.Contains(got, want) || !strings.Contains(got, url) {
		t.Errorf("the output does not show how to use the server: %s", got)
	}
	for line := range strings.Lines(p.stderr.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("not a line of a JSON log: %s", line)
		}
	}
}

// TestServeMemory checks that a server in memory keeps nothing, says so, and begins with newer
// revisions than an earlier one, so that clients of that one list again.
func TestServeMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var revisions []int64
	for n := range 2 {
		kubeconfig := filepath.Join(dir, fmt.Sprint("kubeconfig", n))
		p := serveProcess(t, "--data-dir", dir, "--kubeconfig-out", kubeconfig, "--storage", "memory")
		client, url := p.ready(t, kubeconfig)
		answer := func(method, path, body string) (int, map[string]any) {
			t.Helper()
			code, text, _, err := request(t.Context(), client, method, url+path, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			var object map[string]any
			if err := json.Unmarshal(text, &object); err != nil {
				t.Fatal(err)
			}
			return code, object
		}
		if code, _ := answer("GET", "/api/v1/namespaces/default/configmaps/kept", ""); code != http.StatusNotFound {
			t.Errorf("start %d: GET answers %d before the object is created", n, code)
		}
		code, object := answer("POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"kept"}}`)
		if code != http.StatusCreated {
			t.Fatalf("start %d: POST answers %d: %v", n, code, object)
		}
		metadata, _ := object["metadata"].(map[string]any)
		text, _ := metadata["resourceVersion"].(string)
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		revisions = append(revisions, revision)
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.exit(t); code != 0 {
			t.Errorf("exit code %d: %s", code, &p.stderr)
		}
		if !strings.Contains(p.stdout.String(), "nothing is kept when the server stops") {
			t.Errorf("the output does not say that nothing is kept: %s", &p.stdout)
		}
		if _, err := os.Stat(filepath.Join(dir, "etcd")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the data directory has an etcd: %v", err)
		}
	}
	if revisions[0] >= revisions[1] {
		t.Errorf("the revisions of the first server reach %d, those of the second begin before %d", revisions[0], revisions[1])
	}
}

// TestServeSemantics checks where a server gets its semantics from: the flag, then the environment.
// It does not read the configuration file of the directory that it is started in.
func TestServeSemantics(t *testing.T) {
	t.Parallel()
	t.Run("M-04", func(t *testing.T) {
		at := newPlace(t)
		at.write(".espalier.yaml", "semantics: kubernetes\n")
		serve := func(dir, variable string, args ...string) *process {
			t.Helper()
			return startIn(t, at.dir, nil, []string{semanticsVariable + "=" + variable}, append([]string{"serve", "--secure-port=0", "--data-dir", dir}, args...)...)
		}
		for _, test := range []struct {
			variable string
			args     []string
			want     string
		}{
			{"", nil, "kep"},
			{"kubernetes", nil, "kubernetes"},
			{"kep", []string{"--semantics", "kubernetes"}, "kubernetes"},
			{"kubernetes", []string{"--semantics", "kep"}, "kep"},
		} {
			dir := t.TempDir()
			var storage []string
			if len(test.args) > 0 {
				storage = []string{"--storage", "memory"}
			}
			p := serve(dir, test.variable, append(storage, test.args...)...)
			client, url := p.ready(t, filepath.Join(dir, "kubeconfig"))
			// Only kep semantics rejects superseded spellings.
			resp, err := client.Post(url+"/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions?dryRun=All", "application/yaml", strings.NewReader(
				`{apiVersion: apiextensions.k8s.io/v1beta1, kind: CustomResourceDefinition, metadata: {name: xs.example.com},
					spec: {group: example.com, version: v1, scope: Cluster, names: {plural: xs, kind: X}, prune: true}}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if rejected := resp.StatusCode == http.StatusBadRequest; rejected != (test.want == "kep") {
				t.Errorf("%s=%s %v: %s", semanticsVariable, test.variable, test.args, resp.Status)
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if code := p.exit(t); code != 0 || !strings.Contains(p.stderr.String(), fmt.Sprintf("semantics=%q", test.want)) {
				t.Errorf("%s=%s %v: exit code %d: %s", semanticsVariable, test.variable, test.args, code, &p.stderr)
			}
			if storage != nil {
				continue // nothing is kept
			}
			// The data can be used with nothing else.
			other := map[string]string{"kep": "kubernetes", "kubernetes": "kep"}[test.want]
			p = serve(dir, other)
			if code := p.exit(t); code != 2 || !strings.Contains(p.stderr.String(), "written with --semantics "+test.want) {
				t.Errorf("%s=%s: exit code %d: %s", semanticsVariable, other, code, &p.stderr)
			}
		}
	})
}

// TestServeSignals makes sure that a second signal stops the server without waiting for
// requests.
func TestServeSignals(t *testing.T) {
	t.Parallel()
	// In the background of a shell, this process ignores SIGINT, and the server would inherit that.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	dir := t.TempDir()
	p := serveProcess(t, "--data-dir", dir, "--shutdown-delay-duration=10m")
	client, url := p.ready(t, filepath.Join(dir, "kubeconfig"))
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	// It is the last line of the log. The server then leaves the next signal to the system.
	p.stderr.await(t, p.exited, func(text string) bool {
		return strings.Contains(text, `"The API server is stopping" cause="interrupted"`)
	})
	await(t, "the server is not ready", func() error {
		code, _, _, err := request(t.Context(), client, http.MethodGet, url+"/readyz", nil)
		if err == nil && code != http.StatusInternalServerError {
			err = fmt.Errorf("it answers %d", code)
		}
		return err
	})
	again, timeout := time.NewTicker(100*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for stopped := false; !stopped; {
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case <-p.exited:
			stopped = true
		case <-again.C:
		case <-timeout:
			t.Fatal("the server does not stop")
		}
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && (!status.Signaled() || status.Signal() != syscall.SIGINT) {
		t.Errorf("the server exited with %v", p.cmd.ProcessState)
	}
}
