package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopTimeout is the time that a process gets to end after SIGTERM.
const stopTimeout = 15 * time.Second

// process is a program that runs in a process group of its own.
type process struct {
	name    string
	cmd     *exec.Cmd
	stopped atomic.Bool   // its end is expected
	done    chan struct{} // closed when it has ended
	err     error         // why it ended; read after done
}

// startProcess starts a program, whose output is appended to a file. If it ends without
// having been stopped, fail is called.
func startProcess(fail context.CancelCauseFunc, logs, name, path string, args ...string) (*process, error) {
	out, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has its own descriptor
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		close(p.done)
		if !p.stopped.Load() {
			fail(fmt.Errorf("%s has ended: %v, see %s", name, p.err, out.Name()))
		}
	}()
	return p, nil
}

// signal sends a signal to the process group.
func (p *process) signal(s syscall.Signal) error {
	p.stopped.Store(true)
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	return nil
}

// kill ends the process at once.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	if err == nil {
		<-p.done
	}
	return err
}

// stop ends the process.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return p.kill()
	}
}

// runProgram runs a program to its end. When ctx
// is done, it kills the process group.
func runProgram(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // it may have ended
	defer stop()
	if err := cmd.Wait(); err != nil {
		return errors.Join(context.Cause(ctx), fmt.Errorf("%s: %w", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err))
	}
	return nil
}

// freePorts returns ports of 127.0.0.1 on which nothing listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // at the end, so that the ports differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
