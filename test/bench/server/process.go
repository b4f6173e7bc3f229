package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"espalier.dev/internal/process"
)

// program is a running program. Its output goes to a file.
type program struct {
	*process.Process
	name string
}

// start starts a program. The process belongs to the caller, who stops it; it also ends when
// the benchmark dies.
func start(name, log, binary string, args ...string) (*program, error) {
	p, err := process.Start(process.Program{Name: name, Path: binary, Args: args, Log: log})
	if err != nil {
		return nil, err
	}
	return &program{p, name}, nil
}

// stop asks the process to end, and kills it if it does not.
func (p *program) stop() error {
	if !p.Stop(time.Minute) {
		return fmt.Errorf("%s does not stop", p.name)
	}
	return nil
}

// cpu returns the CPU time that the process has used. The clock of another process is exact;
// the counters in /proc have a resolution of 10 ms.
func (p *program) cpu() (time.Duration, error) {
	const scheduled = 2 // the kind of clock that counts time on a CPU
	clock := (^int32(p.PID()))<<3 | scheduled
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, uintptr(uint32(clock)), uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return 0, fmt.Errorf("CPU time of %s: %w", p.name, errno)
	}
	return time.Duration(t.Nano()), nil
}

// anonymous returns the resident memory of the process without files, in bytes.
func (p *program) anonymous() (float64, error) {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(p.PID()), "status"))
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
