// Package render runs programs that render manifests, such as helm and kustomize: with a limited
// output, time and memory, without the network unless it is allowed, and without processes that are left
// when the run is cancelled.
package render

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"espalier.dev/internal/process"
)

const (
	// maxOutput is the default of [Command].MaxOutput. All of the output is in memory, and the
	// programs need many times as much.
	maxOutput = 256 << 20
	// maxFailure is the number of bytes of standard error that an error includes.
	maxFailure = 4 << 10
	// maxMemory is the default of [Command].MaxMemory: a template of a few bytes can need any amount.
	maxMemory = 4 << 30
	// timeout is the default of [Command].Timeout.
	timeout = 5 * time.Minute
)

// Command is a program to run.
type Command struct {
	Program string
	// Args must not contain file names that can look like options.
	Args []string
	// Env is the environment, that of this process if it is nil.
	Env []string
	// Dir is the working directory, that of this process if it is empty.
	Dir string
	// Network allows connections. Without it, the program has no network where the system can do that, and
	// the environment directs connections to a closed port. Programs do not use that for this machine.
	Network bool
	// MaxOutput, MaxMemory and Timeout limit the run, the memory only on Linux. Zero stands for a default.
	MaxOutput int
	MaxMemory uint64
	Timeout   time.Duration
}

// Failure is the error of a program that fails.
type Failure struct {
	Program string
	// Message is what the program has written to standard error, or the exit code.
	Message string
}

// Error returns the program and its message.
func (f *Failure) Error() string { return f.Program + ": " + f.Message }

// ErrMissing is returned if a program is not in PATH.
var ErrMissing = exec.ErrNotFound

// outOfMemory matches what programs in Go write when there is no more memory. A stack trace follows.
var outOfMemory = regexp.MustCompile(`(?m)^fatal error: .*memory`)

// slots limits the programs that run at the same time: each of them needs hundreds of megabytes.
var slots = make(chan struct{}, min(runtime.GOMAXPROCS(0), 8))

// Run runs a program and returns its standard output. It waits while many others are running.
func Run(ctx context.Context, c Command) ([]byte, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	limit := cmp.Or(c.Timeout, timeout)
	running, stop := context.WithTimeout(ctx, limit)
	defer stop()
	if _, err := exec.LookPath(c.Program); errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is not in PATH: %w", c.Program, ErrMissing)
	}
	var full atomic.Bool
	out := head{most: cmp.Or(c.MaxOutput, maxOutput), full: func() { full.Store(true); stop() }}
	failure := head{most: maxFailure, full: func() {}}
	memory := cmp.Or(c.MaxMemory, maxMemory)
	err := process.Run(running, process.Program{Name: c.Program, Path: c.Program, Args: c.Args, Dir: c.Dir, Environment: c.environment(),
		Stdout: &out, Stderr: &failure, Offline: !c.Network, MaxMemory: memory}, 0)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case full.Load():
		return nil, fmt.Errorf("it renders more than %d MiB", out.most>>20)
	case running.Err() != nil:
		return nil, fmt.Errorf("%s did not end within %v", c.Program, limit)
	case err != nil:
		message := strings.TrimPrefix(strings.TrimSpace(failure.text.String()), "Error: ")
		switch {
		case message == "":
			message = err.Error()
		case outOfMemory.MatchString(message):
			message = fmt.Sprintf("it needs more than %d MiB of memory", memory>>20)
		}
		return nil, &Failure{Program: c.Program, Message: message}
	}
	return out.text.Bytes(), nil
}

// environment returns the environment of the program.
func (c Command) environment() []string {
	env := c.Env
	if env == nil {
		env = os.Environ()
	}
	env = slices.Clip(env)
	// The programs end soon, and collecting garbage takes almost half of their time, unless they use
	// much memory.
	for _, variable := range []string{"GOGC=400", "GOMEMLIMIT=1GiB"} {
		name, _, _ := strings.Cut(variable, "=")
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			env = append(env, variable)
		}
	}
	if !c.Network {
		env = append(env, offline()...)
	}
	return env
}

// offline returns variables with which git and clients of HTTP reach no other machine, whatever the user
// excludes from proxies.
func offline() []string {
	const nowhere = "http://127.0.0.1:9"
	return []string{"GIT_ALLOW_PROTOCOL=none", "HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "ALL_PROXY=" + nowhere,
		"http_proxy=" + nowhere, "https_proxy=" + nowhere, "all_proxy=" + nowhere, "NO_PROXY=", "no_proxy="}
}

// head keeps the start of a text.
type head struct {
	text bytes.Buffer
	most int
	// full is called if there is more.
	full func()
}

// Write appends text, up to the limit.
func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.most-h.text.Len())
	if n < len(p) {
		h.full()
	}
	h.text.Write(p[:n])
	return len(p), nil
}

// Cache holds the results of runs, so that each of them happens once. It is safe for concurrent
// use.
type Cache struct {
	// Rendered is called after each run, from several goroutines, unless it is nil.
	Rendered func()

	mu   sync.Mutex
	runs map[string]*run
}

type run struct {
	mu   sync.Mutex
	done bool
	text []byte
	err  error
}

// Get returns the result of a key. It calls render if there is none, or only that of a cancelled
// run.
func (c *Cache) Get(ctx context.Context, key string, render func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	r := c.runs[key]
	if r == nil {
		if c.runs == nil {
			c.runs = map[string]*run{}
		}
		r = new(run)
		c.runs[key] = r
	}
	c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.text, r.err = render()
		if r.done = ctx.Err() == nil; r.done && c.Rendered != nil {
			c.Rendered()
		}
	}
	return r.text, r.err
}

const (
	// tempPrefix is the start of the names of temporary directories.
	tempPrefix = "espalier-render-"
	// maxTempAge is the age above which a temporary directory is that of a process that was killed.
	maxTempAge = 24 * time.Hour
)

// clean removes the directories that earlier processes have left.
var clean = sync.OnceFunc(func() { removeAbandoned(os.TempDir()) })

// removeAbandoned removes the user's directories of processes that were killed.
func removeAbandoned(temp string) {
	entries, _ := os.ReadDir(temp) // what cannot be read cannot be removed
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), tempPrefix) {
			continue
		}
		if info, err := entry.Info(); err == nil && isOwn(info) && time.Since(info.ModTime()) > maxTempAge {
			_ = os.RemoveAll(filepath.Join(temp, entry.Name())) // the next process tries again
		}
	}
}

// WithTemp calls use with a new directory, which is removed afterwards.
func WithTemp(use func(dir string) ([]byte, error)) (text []byte, err error) {
	clean()
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("cannot create a temporary directory: %w", err)
	}
	defer func() {
		if failed := os.RemoveAll(dir); err == nil && failed != nil {
			err = fmt.Errorf("cannot remove a temporary directory: %w", failed)
		}
	}()
	return use(dir)
}
