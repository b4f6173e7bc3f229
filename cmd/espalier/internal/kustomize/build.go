package kustomize

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Builder builds kustomizations with the kustomize or the kubectl program. It builds each of them
// once, and is safe for concurrent use.
type Builder struct {
	// Network allows parts that are loaded from the network, and Helm charts.
	Network bool

	mu    sync.Mutex
	built map[string]func() ([]byte, error)
	// maxOutput replaces the limit of the same name in tests.
	maxOutput int
}

const (
	// maxOutput is the maximum number of bytes that a kustomization builds. All of them are in
	// memory, and kustomize needs many times as much.
	maxOutput = 256 << 20
	// maxFailure is the number of bytes of standard error that an error includes.
	maxFailure = 4 << 10
)

// Reader reads a file. It returns an error for one that could block or is too large.
type Reader func(path string) ([]byte, error)

// Build returns what the kustomization in a directory builds.
func (b *Builder) Build(ctx context.Context, dir string, read Reader) ([]byte, error) {
	b.mu.Lock()
	build := b.built[dir]
	if build == nil {
		build = sync.OnceValues(func() ([]byte, error) { return b.run(ctx, dir, read) })
		if b.built == nil {
			b.built = map[string]func() ([]byte, error){}
		}
		b.built[dir] = build
	}
	b.mu.Unlock()
	return build()
}

func (b *Builder) run(ctx context.Context, dir string, read Reader) ([]byte, error) {
	// A relative path can look like an option.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	remote, err := Remote(ctx, dir, read)
	if err != nil {
		return nil, err
	}
	if !b.Network && len(remote) > 0 {
		return nil, fmt.Errorf("it loads %s from the network: allow it with --kustomize-network", strings.Join(remote, ", "))
	}
	program, args := "kustomize", []string{"build", dir}
	if _, err := exec.LookPath(program); err != nil {
		program, args = "kubectl", []string{"kustomize", dir}
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil, errors.New("neither kustomize nor kubectl is in PATH: install one of them, or build it elsewhere and pipe the result to standard input with -f -")
	}
	if b.Network {
		args = append(args, "--enable-helm")
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	command := exec.CommandContext(running, program, args...)
	// Programs that kustomize starts, such as helm, may have inherited its output.
	command.WaitDelay = time.Second
	if !b.Network {
		// What Remote has not recognized fails.
		nowhere := "http://127.0.0.1:9"
		command.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=none", "HTTP_PROXY="+nowhere, "HTTPS_PROXY="+nowhere, "ALL_PROXY="+nowhere,
			"http_proxy="+nowhere, "https_proxy="+nowhere, "NO_PROXY=", "no_proxy=")
	}
	out := head{most: cmp.Or(b.maxOutput, maxOutput), full: stop}
	failure := head{most: maxFailure, full: func() {}}
	command.Stdout, command.Stderr = &out, &failure
	err = command.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case running.Err() != nil:
		return nil, fmt.Errorf("it builds more than %d MiB", out.most>>20)
	case err != nil:
		message := strings.TrimPrefix(strings.TrimSpace(failure.text.String()), "Error: ")
		if message == "" {
			message = err.Error()
		}
		return nil, fmt.Errorf("%s: %s", program, message)
	}
	return out.text.Bytes(), nil
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

// IsComponent reports whether a kustomization file is a component, which only a kustomization that
// includes it can build.
func IsComponent(data []byte) bool {
	k, err := Parse(data)
	return err == nil && k.component
}

// maxDirectories is the maximum number of directories that a kustomization includes.
const maxDirectories = 10_000

// Remote returns what the kustomization in a directory, and those that it includes, would load from
// the network, sorted. Kustomize looks there also for what does not exist. Remote returns an error
// if a kustomization cannot be read.
func Remote(ctx context.Context, dir string, read Reader) ([]string, error) {
	return remote(ctx, dir, read, maxDirectories)
}

func remote(ctx context.Context, dir string, read Reader, most int) (all []string, err error) {
	// Kustomize resolves links before it looks for what a kustomization names. A directory can have
	// any number of paths.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{root: true}
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		k, err := load(queue[0], read)
		if err != nil {
			return nil, err
		}
		if k == nil {
			continue
		}
		all = append(all, k.Remote...)
		directories := k.Directories
		for _, file := range slices.Sorted(maps.Keys(k.files)) {
			info, err := os.Stat(filepath.Join(queue[0], filepath.FromSlash(file)))
			switch role := k.files[file]; {
			case err != nil || info.Mode().IsRegular():
			case !info.IsDir():
				return nil, fmt.Errorf("%s is not a regular file", file) // kustomize would wait for it
			case role == Resource || role == Configuration:
				directories = append(directories, file)
			}
		}
		for _, include := range directories {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			at, err := filepath.EvalSymlinks(filepath.Join(queue[0], filepath.FromSlash(include)))
			switch {
			case err != nil:
				all = append(all, include)
			case seen[at]:
			case len(seen) == most:
				return nil, fmt.Errorf("it includes more than %d directories", most)
			default:
				seen[at] = true
				queue = append(queue, at)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// load returns the kustomization of a directory, or nil if there is none or it is malformed.
func load(dir string, read Reader) (*Kustomization, error) {
	for _, name := range FileNames() {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue // as kustomize does
		}
		data, err := read(file)
		if err != nil {
			return nil, err
		}
		k, _ := Parse(data) // kustomize reports what is wrong with it
		return k, nil
	}
	return nil, nil
}
