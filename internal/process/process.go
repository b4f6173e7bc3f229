// Package process runs programs as processes, each in a group of its own: it restarts those that
// exit, or kills them again and again, and ends all of them.
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
	"sync/atomic"
	"time"
)

// Program is a command line.
type Program struct {
	// Name is the name for messages.
	Name string
	// Path is the executable file, or its name in the directories of PATH.
	Path string
	// Args are the arguments, without the name of the program.
	Args []string
	// Dir is the working directory. The default is that of this process.
	Dir string
	// Env is added to the environment of this process. A variable that the environment has stays as it is.
	Env []string
	// Environment replaces the environment of this process and Env, if not nil.
	Environment []string
	// Stdout and Stderr receive the output, if not nil.
	Stdout, Stderr io.Writer
	// Log is a file to which the output is appended, instead of Stdout and Stderr. Messages name it.
	Log string
	// Offline keeps the program from the network, this machine included, where the system can do that: on Linux, if
	// the user may create network namespaces.
	Offline bool
	// MaxMemory limits the memory of the program on Linux, in bytes, if it is not zero.
	MaxMemory uint64
}

// outputDelay is the time that processes which a program has left may hold its output open.
const outputDelay = time.Second

// command returns the command of the program.
func (p Program) command() *exec.Cmd {
	c := exec.Command(p.Path, p.Args...)
	c.Dir, c.Env = p.Dir, p.Environment
	if c.Env == nil {
		c.Env = append(append([]string{}, p.Env...), os.Environ()...) // the last one of a name counts
	}
	c.Stdout, c.Stderr = p.Stdout, p.Stderr
	c.SysProcAttr = attributes(p.Offline)
	c.WaitDelay = outputDelay
	return c
}

// Process is a running program.
type Process struct {
	name, log string
	command   *exec.Cmd
	stopped   atomic.Bool // its end is expected
	done      chan struct{}
	err       error // valid when done is closed
}

// Start starts a program. On Linux, it ends with this process, also if that is killed. Processes
// that it has started are killed when it ends, unless they have a process group of their own.
func Start(p Program) (*Process, error) {
	r := &Process{name: p.Name, log: p.Log, done: make(chan struct{})}
	if p.Log != "" {
		file, err := os.OpenFile(p.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", p.Name, err)
		}
		defer file.Close() // the process has its own descriptor
		p.Stdout, p.Stderr = file, file
	}
	r.command = p.command()
	err := start(r.command)
	if err != nil && p.Offline {
		p.Offline = false // the system may not allow it
		r.command = p.command()
		err = start(r.command)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	if p.MaxMemory > 0 {
		limitMemory(r.command.Process, p.MaxMemory)
	}
	go func() { // ends with the process
		defer close(r.done)
		r.err = r.command.Wait()
		killGroup(r.command.Process)
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

// Check returns an error if the process has ended. The error names the program, the reason and the log.
func (p *Process) Check() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	log := ""
	if p.log != "" {
		log = "; its log is " + p.log
	}
	return fmt.Errorf("%s has exited: %s%s", p.name, p.reason(), log)
}

// reason returns why the process has ended.
func (p *Process) reason() string {
	if err := p.Err(); err != nil {
		return err.Error()
	}
	return "exit status 0"
}

// Watch calls a function with the error of Check if the process ends before Stop or Kill is called.
func (p *Process) Watch(failed func(error)) {
	go func() { // ends with the process
		<-p.done
		if !p.stopped.Load() {
			failed(p.Check())
		}
	}()
}

// Stop asks the process to end, kills it if it takes longer than grace, and waits for its end. It
// reports whether the process has ended without being killed.
func (p *Process) Stop(grace time.Duration) bool {
	p.stopped.Store(true)
	_ = terminate(p.command.Process) // it may have ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		p.Kill()
		return false
	}
}

// Kill kills the process with all others of its group, and waits for its end.
func (p *Process) Kill() {
	p.stopped.Store(true)
	select {
	case <-p.done: // its ID may be that of another process
	default:
		killGroup(p.command.Process)
		_ = p.command.Process.Kill() // it may have ended
		<-p.done
	}
}

// Run runs a program until it ends. If the context is done before, it asks the program to end, kills it
// if it takes longer than grace, and returns the cause.
func Run(ctx context.Context, p Program, grace time.Duration) error {
	r, err := Start(p)
	if err != nil {
		return err
	}
	select {
	case <-r.Done():
		return r.Err()
	case <-ctx.Done():
		if grace > 0 {
			r.Stop(grace)
		} else {
			r.Kill()
		}
		return context.Cause(ctx)
	}
}
