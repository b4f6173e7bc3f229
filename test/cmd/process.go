package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// stopTimeout is the time that a server has to stop before it is killed.
	stopTimeout = 20 * time.Second
	// outputDelay is the time that processes which a function has left may hold its output open.
	outputDelay = 2 * time.Second
)

// runGroup runs a command in a process group of its own, and returns its output. In the end, or
// when ctx is done, it kills the processes that are left in the group.
func runGroup(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = outputDelay
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // there may be none left
	stop := context.AfterFunc(ctx, kill)
	err := cmd.Wait()
	stop()
	kill()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command itself has succeeded
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.Bytes(), err
}

// process is a server that runs.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string
	ended chan struct{} // closed when the process has ended
	err   error         // then
}

// startProcess starts a program, whose log is appended to a file in dir.
func startProcess(dir, program string, args ...string) (*process, error) {
	name := filepath.Base(program)
	p := &process{name: name, cmd: exec.Command(program, args...), log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	file, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has its own
	p.cmd.Stdout, p.cmd.Stderr = file, file
	// An interrupt of the run must not reach it before the functions end.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process
		defer close(p.ended)
		p.err = p.cmd.Wait()
	}()
	return p, nil
}

// check returns an error if the process has ended.
func (p *process) check() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %w; its log is %s", p.name, errors.Join(errors.New("unexpectedly"), p.err), p.log)
	default:
		return nil
	}
}

// stop ends the process.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		p.killNow()
		return fmt.Errorf("%s has not stopped within %v; its log is %s", p.name, stopTimeout, p.log)
	}
}

// killNow kills the process and waits until it has ended.
func (p *process) killNow() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}
