package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// program is one of the compared programs.
type program struct {
	name, path string
	// module and source are the module and package that it is built from.
	module, source string
	// args returns the arguments to validate the objects in a file or directory.
	args func(in *inputs, objects string) []string
	// builtin does the same for objects of Kubernetes' own kinds.
	builtin func(in *inputs, objects string) []string
}

// build builds ours, which is the first, and the others that are selected.
func build(ctx context.Context, dir string, others []string) ([]program, error) {
	all := []program{
		{name: "espalier", module: filepath.Join("..", ".."), source: "./cmd/espalier", args: func(in *inputs, objects string) []string {
			return []string{"validate", "--semantics", "kubernetes", "--crd", in.crds, "-f", objects}
		}, builtin: func(_ *inputs, objects string) []string {
			return []string{"validate", "-f", objects}
		}},
		{name: "kubeconform", module: filepath.Join("cli", "others", "kubeconform"), source: "github.com/yannh/kubeconform/cmd/kubeconform", args: func(in *inputs, objects string) []string {
			return []string{"-n", fmt.Sprint(runtime.NumCPU()), "-summary", "-schema-location", filepath.Join(in.schemas, "{{.Group}}_{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"), objects}
		}, builtin: func(in *inputs, objects string) []string {
			return []string{"-n", fmt.Sprint(runtime.NumCPU()), "-summary", "-schema-location", filepath.Join(in.schemas, "{{.Group}}", "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"), objects}
		}},
		{name: "kubectl-validate", module: filepath.Join("cli", "others", "kubectlvalidate"), source: "sigs.k8s.io/kubectl-validate", args: func(in *inputs, objects string) []string {
			return []string{"--local-crds", in.crds, objects}
		}, builtin: func(_ *inputs, objects string) []string {
			return []string{objects}
		}},
	}
	var programs []program
	for i, p := range all {
		if i == 0 || slices.Contains(others, p.name) {
			programs = append(programs, p)
		}
	}
	for i := range programs {
		path, err := filepath.Abs(filepath.Join(dir, programs[i].name))
		if err != nil {
			return nil, err
		}
		programs[i].path = path
		// The pinned programs are built once; ours may have changed.
		if _, err := os.Stat(path); err == nil && i > 0 {
			continue
		}
		c := exec.CommandContext(ctx, "go", "build", "-o", path, programs[i].source)
		c.Dir, c.Stderr = programs[i].module, os.Stderr
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("building %s: %w", programs[i].name, err)
		}
	}
	return programs, nil
}

// measure runs the program on objects, all of which it must accept.
func (p *program) measure(ctx context.Context, in *inputs, objects string) (sample, error) {
	return execute(ctx, p.path, p.args(in, objects)...)
}

// execute runs a program that is expected to succeed.
func execute(ctx context.Context, path string, args ...string) (sample, error) {
	c := exec.CommandContext(ctx, path, args...)
	var out tail
	c.Stdout, c.Stderr = &out, &out
	start := time.Now()
	if err := c.Start(); err != nil {
		return sample{}, err
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watchMemory(c.Process.Pid, stop) }()
	err := c.Wait()
	s := sample{wall: time.Since(start)}
	close(stop)
	s.rss = <-peak
	if err != nil {
		return s, fmt.Errorf("%s %s: %w\n%s", filepath.Base(path), strings.Join(args, " "), err, out.String())
	}
	s.cpu = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return s, nil
}

// watchMemory returns the peak of a process's resident memory. The system's own number
// includes the memory of this process at the time of the fork.
func watchMemory(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		for line := range strings.Lines(string(status)) {
			var kilobytes int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
				peak = max(peak, kilobytes<<10)
			}
		}
		select {
		case <-stop:
			return peak
		case <-tick.C:
		}
	}
}

// output runs a program and returns its output, whatever its exit code is.
func output(ctx context.Context, path string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, path, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return out.String(), nil
}

// tail keeps the end of the output, at almost no cost for the writer.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if t.Len() > 1<<12 {
		t.Next(t.Len() - 1<<11)
	}
	return t.Buffer.Write(p)
}
