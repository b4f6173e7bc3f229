// Command start measures a server process: the time from its start until it is ready, with
// new and with existing data, its memory when idle, and the time to stop. It prints medians.
//
// Usage: start [-n runs] espalier-binary
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 11, "number of runs")
	idle := flag.Duration("idle", 2*time.Second, "idle time before the memory is measured")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: start [-n runs] espalier-binary")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *n, *idle); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

func run(binary string, n int, idle time.Duration) error {
	var first, again, stop, version []time.Duration
	var memory []int
	for range n {
		dir, err := os.MkdirTemp("", "espalier-bench-")
		if err != nil {
			return err
		}
		a, err := measure(binary, dir, 0)
		if err == nil {
			var b sample
			if b, err = measure(binary, dir, idle); err == nil {
				first, again = append(first, a.ready), append(again, b.ready)
				stop, memory = append(stop, a.stop, b.stop), append(memory, b.kilobytes)
			}
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return err
		}
		begin := time.Now()
		if err := exec.Command(binary, "version").Run(); err != nil {
			return fmt.Errorf("espalier version: %w", err)
		}
		version = append(version, time.Since(begin))
	}
	fmt.Printf("medians of %d runs\n", n)
	fmt.Printf("  ready, new data        %v\n", median(first).Round(time.Millisecond))
	fmt.Printf("  ready, existing data   %v\n", median(again).Round(time.Millisecond))
	fmt.Printf("  stopped                %v\n", median(stop).Round(time.Millisecond))
	fmt.Printf("  resident when idle     %.1f MB\n", float64(median(memory))/1024)
	fmt.Printf("  espalier version       %v\n", median(version).Round(100*time.Microsecond))
	return nil
}

type sample struct {
	ready, stop time.Duration
	kilobytes   int
}

// measure starts a server on a directory, waits until it is ready, and stops it.
func measure(binary, dir string, idle time.Duration) (sample, error) {
	var s sample
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.Remove(kubeconfig); err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	cmd := exec.Command(binary, "serve", "--data-dir", dir, "--secure-port", "0")
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	for {
		if _, err := os.Stat(kubeconfig); err == nil {
			break
		}
		select {
		case err := <-exited:
			return s, fmt.Errorf("the server exited: %w", err)
		case <-time.After(time.Millisecond):
		}
		if time.Since(begin) > time.Minute {
			return s, errors.Join(errors.New("the server does not become ready"), cmd.Process.Kill(), <-exited)
		}
	}
	s.ready = time.Since(begin)
	if idle > 0 {
		time.Sleep(idle)
		kilobytes, err := resident(cmd.Process.Pid)
		if err != nil {
			return s, errors.Join(err, cmd.Process.Kill(), <-exited)
		}
		s.kilobytes = kilobytes
	}
	begin = time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return s, err
	}
	err := <-exited
	s.stop = time.Since(begin)
	return s, err
}

// resident returns the resident memory of a process in kilobytes.
func resident(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
		}
	}
	return 0, errors.New("the system does not report the memory of a process")
}

func median[T int | time.Duration](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
