package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// outputDelay is the time that processes which a suite has left may hold its output open.
	outputDelay = 5 * time.Second
	// endTimeout limits the wait for processes that have been killed.
	endTimeout = 30 * time.Second
	endPoll    = 50 * time.Millisecond
)

// runCommand runs a command in a process group of its own, and returns its output. When ctx is
// done, it kills the group.
func runCommand(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = outputDelay
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	killed := make(chan struct{})
	go func() { // ends with the command
		defer close(killed)
		select {
		case <-ctx.Done():
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-killed
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the command itself has succeeded
	}
	return out.Bytes(), errors.Join(ctx.Err(), err)
}

// linkAssets makes a link to a directory of programs below dir, so that endProcesses finds the
// processes that have been started from it, and no others.
func linkAssets(assets, dir string) (string, error) {
	assets, err := filepath.Abs(assets)
	if err != nil {
		return "", err
	}
	link := filepath.Join(dir, "assets")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return link, os.Symlink(assets, link)
}

// endProcesses kills the processes whose program is below dir, and waits until there are none.
// envtest starts control planes in process groups of their own, and suites may not stop them:
// they outlive the suite. It returns the names of the programs.
func endProcesses(dir string) ([]string, error) {
	var names []string
	for began := time.Now(); ; time.Sleep(endPoll) {
		pids, programs, err := processes(dir)
		switch {
		case err != nil || len(pids) == 0:
			return names, err
		case time.Since(began) > endTimeout:
			return names, fmt.Errorf("%s still runs after it has been killed", strings.Join(programs, ", "))
		}
		if names == nil {
			names = programs
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return names, fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
	}
}

// processes returns the processes whose program is below dir.
func processes(dir string) (pids []int, programs []string, err error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "args=").Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list processes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		number, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		program, ok := strings.CutPrefix(strings.TrimSpace(args), dir+string(filepath.Separator))
		if !ok {
			continue
		}
		pid, err := strconv.Atoi(number)
		if err != nil {
			return nil, nil, fmt.Errorf("list processes: %w", err)
		}
		program, _, _ = strings.Cut(program, " ")
		pids, programs = append(pids, pid), append(programs, filepath.Base(program))
	}
	return pids, programs, nil
}
