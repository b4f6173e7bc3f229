package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"espalier.dev/cluster/internal/controlplane"
)

// programs are the paths of the programs.
type programs struct{ espalier, components string }

// find returns the programs, and builds those that the flags do not name.
func (l *launcher) find(ctx context.Context) (p programs, err error) {
	p = programs{l.options.espalier, l.options.components}
	if p.components != "" {
		if err := controlplane.CheckBinary(p.components); err != nil {
			return p, err
		}
	}
	if p.espalier != "" {
		if _, err := exec.LookPath(p.espalier); err != nil {
			return p, fmt.Errorf("--espalier cannot be executed: %w", err)
		}
	}
	if p.components != "" && p.espalier != "" {
		return p, nil
	}
	source, err := sourceDirectory()
	if err != nil {
		return p, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	cache = filepath.Join(cache, "espalier", "cluster")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return p, err
	}
	if p.components == "" {
		if p.components, err = l.buildComponents(ctx, filepath.Join(source, "components"), cache); err != nil {
			return p, err
		}
	}
	if p.espalier == "" {
		p.espalier = filepath.Join(cache, executable("espalier"))
		// The build cache of Go decides what is compiled, so this takes a second if nothing has changed.
		err = l.build(ctx, filepath.Dir(source), "./cmd/espalier", p.espalier, "Building espalier")
	}
	return p, err
}

// sourceDirectory returns the directory of this module.
func sourceDirectory() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	directory := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(directory, "components", "go.mod")); err != nil {
		return "", errors.New("the source of the programs was not found: name them with --components and --espalier")
	}
	return directory, nil
}

// buildComponents returns the path of the components binary in the cache, and builds it if its source has changed.
func (l *launcher) buildComponents(ctx context.Context, source, cache string) (string, error) {
	hash, err := hashFiles(source)
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, executable("components-"+hash))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, l.build(ctx, source, ".", path,
		"Building kube-controller-manager, kube-scheduler and kwok, once: this takes minutes", version(source)...)
}

// version returns linker flags that set the version of Kubernetes' programs, as releases do: that in go.mod.
func version(source string) []string {
	data, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "k8s.io/kubernetes" {
			return []string{"-X", "k8s.io/component-base/version.gitVersion=" + f[1]}
		}
	}
	return nil
}

// hashFiles returns a hash of the files in a directory that decide what is built.
func hashFiles(directory string) (string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, e := range entries {
		if name := e.Name(); !e.IsDir() && !strings.HasSuffix(name, "_test.go") {
			data, err := os.ReadFile(filepath.Join(directory, name))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// executable returns the file name of a program.
func executable(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// build builds a package of the module in a directory. A build that takes long says so.
func (l *launcher) build(ctx context.Context, directory, pkg, path, message string, linker ...string) error {
	// Another launcher may build the same program, or run it.
	temporary, err := os.MkdirTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	output := filepath.Join(temporary, filepath.Base(path))
	c := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags=-s -w "+strings.Join(linker, " "), "-o", output, pkg)
	c.Dir = directory
	c.Env = append(os.Environ(), "GOWORK=off")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	compiled := &lineCounter{}
	c.Stdout, c.Stderr = io.Discard, compiled
	if err := c.Start(); err != nil {
		return fmt.Errorf("%s with Go: %w", message, err)
	}
	done := make(chan struct{})
	go l.progress(message, compiled, done)
	err = c.Wait()
	close(done)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Join(directory, pkg), err, compiled.last())
	}
	return os.Rename(output, path)
}

// progress prints that a build runs, if it takes longer than some seconds.
func (l *launcher) progress(message string, compiled *lineCounter, done <-chan struct{}) {
	begin, pause := time.Now(), 3*time.Second
	for {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		fmt.Fprintf(l.stderr, "%s (%d packages compiled, %v)\n", message, compiled.count.Load(), time.Since(begin).Round(time.Second))
		pause = 20 * time.Second
	}
}

// lineCounter counts lines, and keeps the last ones. `go build` writes the names of packages that it compiles, and errors.
type lineCounter struct {
	count atomic.Int64
	lines []string // written by one goroutine, and read after its end
}

// Write implements io.Writer.
func (c *lineCounter) Write(data []byte) (int, error) {
	for line := range bytes.Lines(data) {
		c.count.Add(1)
		c.lines = append(c.lines, string(line))
	}
	if extra := len(c.lines) - 20; extra > 0 {
		c.lines = slices.Delete(c.lines, 0, extra)
	}
	return len(data), nil
}

// last returns the last lines.
func (c *lineCounter) last() string { return strings.Join(c.lines, "") }
