package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// process is a running program. Its output goes to a file.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// start starts a program. The process belongs to the caller, who stops it; it also ends when
// the benchmark dies.
func start(name, log, binary string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // a server that exits early is noticed by its clients
	}()
	return p, nil
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(time.Minute):
	}
	return errors.Join(fmt.Errorf("%s does not stop", p.name), p.cmd.Process.Kill())
}

// alive returns an error with the end of the log if the process has exited.
func (p *process) alive() error {
	select {
	case <-p.exited:
	default:
		return nil
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s exited: %s", p.name, text[max(0, len(text)-2000):])
}

// cpu returns the CPU time that the process has used. The clock of another process is exact;
// the counters in /proc have a resolution of 10 ms.
func (p *process) cpu() (time.Duration, error) {
	const scheduled = 2 // the kind of clock that counts time on a CPU
	clock := (^int32(p.cmd.Process.Pid))<<3 | scheduled
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(uint32(clock)), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, fmt.Errorf("CPU time of %s: %w", p.name, errno)
	}
	return time.Duration(t.Nano()), nil
}

// anonymous returns the resident memory of the process without files, in bytes.
func (p *process) anonymous() (float64, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("the system does not report RssAnon")
}
