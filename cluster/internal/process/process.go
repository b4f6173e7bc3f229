// Package process runs the programs of a cluster as processes: it restarts those that exit, and ends
// all of them.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Program is a command line.
type Program struct {
	// Name is the name for messages.
	Name string
	// Path is the executable file.
	Path string
	// Args are the arguments, without the name of the program.
	Args []string
	// Env is added to the environment of this process. A variable that the environment has stays as it is.
	Env []string
	// Stdout and Stderr receive the output, if not nil.
	Stdout, Stderr io.Writer
}

// command returns the command of the program.
func (p Program) command() *exec.Cmd {
	c := exec.Command(p.Path, p.Args...)
	c.Env = append(append([]string{}, p.Env...), os.Environ()...) // the last one of a name counts
	c.Stdout, c.Stderr = p.Stdout, p.Stderr
	c.SysProcAttr = attributes()
	// What the program has started may keep the pipes open.
	c.WaitDelay = time.Second
	return c
}

// Process is a running program.
type Process struct {
	command *exec.Cmd
	done    chan struct{}
	err     error // valid when done is closed
}

// Start starts a program. On Linux, it ends with this process, also if that is killed.
func Start(p Program) (*Process, error) {
	r := &Process{command: p.command(), done: make(chan struct{})}
	if err := start(r.command); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	go func() {
		defer close(r.done)
		r.err = r.command.Wait()
		if errors.Is(r.err, exec.ErrWaitDelay) {
			r.err = nil
		}
	}()
	return r, nil
}

// starts has the commands to start, for a thread of its own: the kernel ends the processes that are to
// end with this one when the thread that has started them ends.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// start starts a command in the thread for it.
func start(c *exec.Cmd) error {
	result := make(chan error, 1)
	starts() <- func() { result <- c.Start() }
	return <-result
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why the process has ended: nil after an exit with code 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitCode returns the exit code of a process that has ended, or -1 if a signal has ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.command.ProcessState.ExitCode()
}

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Stop asks the process to end, kills it if it takes longer than grace, and waits for its end.
func (p *Process) Stop(grace time.Duration) {
	_ = terminate(p.command.Process) // it may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.command.Process.Kill()
		<-p.done
	}
}

// Run runs a program until it ends or the context is done.
func Run(ctx context.Context, p Program, grace time.Duration) error {
	r, err := Start(p)
	if err != nil {
		return err
	}
	select {
	case <-r.Done():
		return r.Err()
	case <-ctx.Done():
		r.Stop(grace)
		return context.Cause(ctx)
	}
}
