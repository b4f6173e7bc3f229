package main

import (
	"bufio"
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

// system is a way to run a cluster.
type system interface {
	name() string
	// start starts a cluster that keeps its files in a directory, and returns its kubeconfig when its nodes are ready.
	start(ctx context.Context, dir string, nodes int) (kubeconfig string, err error)
	// stop stops it.
	stop()
}

// ours is the launcher of this repository.
type ours struct {
	settings *settings
	command  *exec.Cmd
}

func (o *ours) name() string { return "espalier" }

func (o *ours) start(ctx context.Context, dir string, nodes int) (string, error) {
	s, data := o.settings, filepath.Join(dir, "data")
	o.command = exec.CommandContext(ctx, s.launcher, "--espalier", s.espalier, "--components", s.components,
		"--nodes", strconv.Itoa(nodes), "--data-dir", data, "--secure-port", "0", "--storage", s.storage)
	o.command.Stderr = os.Stderr
	o.command.Cancel = func() error { return o.command.Process.Signal(syscall.SIGTERM) }
	out, err := o.command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := o.command.Start(); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "The cluster is ready at ") {
			return filepath.Join(data, "kubeconfig"), nil
		}
	}
	return "", errors.New("the launcher has ended")
}

func (o *ours) stop() {
	if o.command.Process != nil {
		_ = o.command.Process.Signal(syscall.SIGTERM) // it may have ended
		_ = o.command.Wait()
	}
}

// kwokctl is the binary runtime of kwokctl, with the same components.
type kwokctl struct {
	settings *settings
	env      []string
}

func (k *kwokctl) name() string { return "kwokctl" }

func (k *kwokctl) start(ctx context.Context, dir string, nodes int) (string, error) {
	k.env = append(os.Environ(), "KWOK_WORKDIR="+filepath.Join(dir, "work"), "HOME="+dir, "KUBECONFIG="+filepath.Join(dir, "kubeconfig"))
	args := []string{"create", "cluster", "--runtime=binary", "--wait=2m", "--disable-qps-limits",
		"--kube-apiserver-binary=" + filepath.Join(k.settings.real, "kube-apiserver"), "--etcd-binary=" + filepath.Join(k.settings.real, "etcd"),
		"--kube-admission=true", "--kube-authorization=true"}
	for flag, name := range map[string]string{
		"kube-controller-manager-binary": "kube-controller-manager", "kube-scheduler-binary": "kube-scheduler", "kwok-controller-binary": "kwok",
	} {
		path := filepath.Join(dir, name)
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s \"$@\"\n", k.settings.components, name)
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			return "", err
		}
		args = append(args, "--"+flag+"="+path)
	}
	if err := k.run(ctx, args...); err != nil {
		return "", err
	}
	if err := k.run(ctx, "scale", "node", "--replicas="+strconv.Itoa(nodes)); err != nil {
		return "", err
	}
	return filepath.Join(dir, "kubeconfig"), nil
}

func (k *kwokctl) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := k.run(ctx, "delete", "cluster"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// run runs kwokctl.
func (k *kwokctl) run(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, k.settings.kwokctl, args...)
	c.Env = k.env
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("kwokctl %s: %w\n%s", args[0], err, out)
	}
	return nil
}

// usage is what processes use.
type usage struct {
	processes int
	// pss and rss are memory in kilobytes: pss counts memory that processes share once, and rss for each of them.
	pss, rss int
	cpu      time.Duration
}

func (u usage) String() string {
	return fmt.Sprintf("%d processes, %d MB PSS, %d MB RSS, %.1fs CPU", u.processes, u.pss/1024, u.rss/1024, u.cpu.Seconds())
}

// usageOf returns what the processes of a cluster use: those with its directory in their command line.
func usageOf(dir string) (u usage) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return u
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err != nil || !strings.Contains(string(line), dir) {
			continue
		}
		process := filepath.Dir(file)
		memory, err := os.ReadFile(filepath.Join(process, "smaps_rollup"))
		if err != nil {
			continue // it has ended
		}
		u.processes++
		for line := range strings.Lines(string(memory)) {
			if f := strings.Fields(line); len(f) == 3 && (f[0] == "Pss:" || f[0] == "Rss:") {
				n, _ := strconv.Atoi(f[1])
				if f[0] == "Pss:" {
					u.pss += n
				} else {
					u.rss += n
				}
			}
		}
		u.cpu += cpuOf(process)
	}
	return u
}

// cpuOf returns the CPU time of a process, which is counted in hundredths of a second.
func cpuOf(process string) time.Duration {
	stat, err := os.ReadFile(filepath.Join(process, "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
