package kustomize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Builder builds kustomizations with the kustomize or the kubectl program. It builds each of them
// once, and is safe for concurrent use.
type Builder struct {
	// Network allows parts that are loaded from the network, and Helm charts.
	Network bool

	mu    sync.Mutex
	built map[string]func() ([]byte, error)
}

// Build returns what the kustomization in a directory builds.
func (b *Builder) Build(ctx context.Context, dir string) ([]byte, error) {
	b.mu.Lock()
	build := b.built[dir]
	if build == nil {
		build = sync.OnceValues(func() ([]byte, error) { return b.run(ctx, dir) })
		if b.built == nil {
			b.built = map[string]func() ([]byte, error){}
		}
		b.built[dir] = build
	}
	b.mu.Unlock()
	return build()
}

func (b *Builder) run(ctx context.Context, dir string) ([]byte, error) {
	if !b.Network {
		if remote := Remote(dir); len(remote) > 0 {
			return nil, fmt.Errorf("it loads %s from the network: allow it with --kustomize-network", strings.Join(remote, ", "))
		}
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
	command := exec.CommandContext(ctx, program, args...)
	if !b.Network {
		// What Remote has not recognized fails.
		nowhere := "http://127.0.0.1:9"
		command.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=none", "HTTP_PROXY="+nowhere, "HTTPS_PROXY="+nowhere, "ALL_PROXY="+nowhere,
			"http_proxy="+nowhere, "https_proxy="+nowhere)
	}
	var out, failure bytes.Buffer
	command.Stdout, command.Stderr = &out, &failure
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		message := strings.TrimPrefix(strings.TrimSpace(failure.String()), "Error: ")
		if message == "" {
			message = err.Error()
		}
		return nil, fmt.Errorf("%s: %s", program, message)
	}
	return out.Bytes(), nil
}

// IsComponent reports whether a kustomization file is a component, which only a kustomization that
// includes it can build.
func IsComponent(data []byte) bool {
	k, err := Parse(data)
	return err == nil && k.component
}

// Remote returns what the kustomization in a directory, and those that it includes, would load from
// the network, sorted. Kustomize looks there also for what does not exist.
func Remote(dir string) (all []string) {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if dir = filepath.Clean(dir); seen[dir] {
			return
		}
		seen[dir] = true
		k := load(dir)
		if k == nil {
			return
		}
		all = append(all, k.Remote...)
		for _, include := range k.Directories {
			at := filepath.Join(dir, filepath.FromSlash(include))
			if _, err := os.Stat(at); err != nil {
				all = append(all, include)
				continue
			}
			visit(at)
		}
	}
	visit(dir)
	slices.Sort(all)
	return slices.Compact(all)
}

// load returns the kustomization of a directory, or nil if there is none that can be read.
func load(dir string) *Kustomization {
	for _, name := range FileNames() {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			k, _ := Parse(data) // kustomize reports what is wrong with it
			return k
		}
	}
	return nil
}
