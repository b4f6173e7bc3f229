// Package rig runs the processes of a robustness test: etcd members behind proxies, and the
// server.
package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// process is a child process that can be killed and started again. Each start has a new
// exec.Cmd. The process ends at the latest when the test ends.
type process struct {
	t    testing.TB
	name string
	log  string
	make func() *exec.Cmd

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
}

func newProcess(t testing.TB, name, log string, make func() *exec.Cmd) *process {
	p := &process{t: t, name: name, log: log, make: make}
	t.Cleanup(p.kill)
	return p
}

// start starts the process. Its output is appended to the log file.
func (p *process) start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		p.t.Fatalf("%s runs already", p.name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := p.make()
	cmd.Stdout, cmd.Stderr = out, out
	dieWithParent(cmd)
	err = cmd.Start()
	_ = out.Close() // the child has its own descriptor
	if err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() { // ends with the process
		_ = cmd.Wait()
		close(done)
	}()
}

// kill kills the process and waits for its end. It does nothing if there is none.
func (p *process) kill() { p.end(syscall.SIGKILL) }

func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
	<-p.done
	p.cmd = nil
}

// signal sends a signal that does not end the process.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		p.t.Errorf("%s does not run", p.name)
		return
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
}

// exited returns a channel that is closed when the process has ended.
func (p *process) exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// pid returns the process ID, or an error if the process does not run.
func (p *process) pid() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, fmt.Errorf("%s does not run", p.name)
	}
	return p.cmd.Process.Pid, nil
}

// Tail returns the end of a log file.
func tail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}
