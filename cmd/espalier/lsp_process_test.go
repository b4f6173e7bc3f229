package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"espalier.dev/cmd/espalier/internal/lsp"
	"espalier.dev/cmd/espalier/internal/lsp/lsptest"
)

// lspProgram is the environment variable with the program to test. Without it, the test binary is the
// program.
const lspProgram = "ESPALIER_LSP_PROGRAM"

// lspProcess is a language server in a process of its own, and its client.
type lspProcess struct {
	*lsptest.Client
	cmd    *exec.Cmd
	stderr bytes.Buffer
	exited chan struct{}
}

// processPipes are the standard input and output of a process.
type processPipes struct {
	io.Reader
	io.WriteCloser
}

// startLSPProcess starts the language server in a process of its own, without a session.
func startLSPProcess(t testing.TB, flags ...string) *lspProcess {
	t.Helper()
	p := &lspProcess{cmd: programCommand(t, append([]string{"lsp"}, flags...)...), exited: make(chan struct{})}
	if program := os.Getenv(lspProgram); program != "" {
		p.cmd = exec.Command(program, append([]string{"lsp"}, flags...)...)
	}
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// An own pipe: Wait closes that of StdoutPipe before everything is read.
	out, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = child
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = child.Close()
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait() // the exit code is in ProcessState
	}()
	p.Client = lsptest.New(t, processPipes{out, in})
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has usually exited
		<-p.exited
		_ = out.Close()
		if strings.Contains(p.stderr.String(), "panic") {
			t.Errorf("the server has panicked: %s", &p.stderr)
		}
	})
	return p
}

// open starts a session in a folder. The client tells about changed files, and watches nothing itself.
func (p *lspProcess) open(root string) {
	p.Initialize(map[string]any{
		"processId": os.Getpid(), "rootUri": lsp.FileURI(root),
		"capabilities": map[string]any{"workspace": map[string]any{"didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}}},
	})
}

// exit waits for the end of the process, and returns its exit code.
func (p *lspProcess) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		t.Fatal("the process does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the session in order, and expects the process to end with it.
func (p *lspProcess) stop(t testing.TB) {
	t.Helper()
	p.Shutdown()
	if code := p.exit(t); code != 0 {
		t.Errorf("the exit code is %d: %s", code, &p.stderr)
	}
}

// memory returns the resident set and the proportional set of the process in MB, and its number of
// open files. It reports false if the system does not tell.
func (p *lspProcess) memory() (rss, pss float64, files int, ok bool) {
	dir := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	data, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return 0, 0, 0, false
	}
	field := func(name string) float64 {
		_, after, _ := strings.Cut(string(data), "\n"+name+":")
		kb, _ := strconv.Atoi(strings.Fields(after + " 0")[0])
		return float64(kb) * 1024 / 1e6
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	return field("Rss"), field("Pss"), len(open), err == nil
}

// cpu returns the CPU time of the process so far, or 0 if the system does not tell.
func (p *lspProcess) cpu() time.Duration {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	_, after, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // ticks
}

// children returns the processes that the process has started and that run.
func (p *lspProcess) children() []string {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.cmd.Process.Pid))
	var all []string
	for _, file := range threads {
		data, _ := os.ReadFile(file)
		all = append(all, strings.Fields(string(data))...)
	}
	return all
}

// goroutines ends the process, and returns the number of its goroutines.
func (p *lspProcess) goroutines(t testing.TB) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	p.exit(t)
	return strings.Count(p.stderr.String(), "\ngoroutine ")
}

// fence makes diagnostics of everything before it arrive: its file is the last one of the folder, and
// has a finding always.
type fence struct {
	p       *lspProcess
	uri     lsp.URI
	version int
}

// fenceName is the name of the file of a fence, and fenceText its text.
const (
	fenceName = "zzz-fence.yaml"
	fenceText = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: fence}\nspec: {replicas: three}\n"
)

// newFence opens the file of a fence.
func newFence(p *lspProcess, root string) *fence {
	f := &fence{p: p, uri: lsp.FileURI(filepath.Join(root, fenceName)), version: 1}
	p.Open(f.uri, fenceText)
	return f
}

// wait waits for the diagnostics of all changes so far.
func (f *fence) wait() {
	f.version++
	f.p.Change(f.uri, f.version, whole(fenceText))
	f.p.AwaitDiagnostics(f.uri, func(d *lsp.PublishDiagnosticsParams) bool { return d.Version != nil && *d.Version == f.version })
}
