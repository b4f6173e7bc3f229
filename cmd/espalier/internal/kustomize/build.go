package kustomize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/cmd/espalier/internal/render"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// Builder builds kustomizations with the kustomize or the kubectl program. It builds each of them
// once, and is safe for concurrent use.
type Builder struct {
	// Network allows parts that are loaded from the network, and Helm charts.
	Network bool

	cache render.Cache
	// maxOutput replaces the limit of package render in tests.
	maxOutput int
}

// OnBuild calls a function, from several goroutines, for each kustomization that was built.
func (b *Builder) OnBuild(call func()) { b.cache.Rendered = call }

// Reader reads a file. It returns an error for one that could block or is too large.
type Reader func(path string) ([]byte, error)

// RemoteError is the error of a kustomization that would load parts from the network.
type RemoteError struct{ Parts []string }

// Error names the parts, and the flag that allows them.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("it loads %s from the network: allow it with --kustomize-network", strings.Join(e.Parts, ", "))
}

// Build returns what the kustomization in a directory builds, which is relative to current.
func (b *Builder) Build(ctx context.Context, current workdir.Dir, dir string, read Reader) ([]byte, error) {
	return b.BuildCopy(ctx, dir, func(build func(dir string, read Reader) ([]byte, error)) ([]byte, error) {
		return build(current.Path(dir), read)
	})
}

// BuildCopy returns what a kustomization builds that is not in the file system. It calls with to get
// a copy of it, unless it has been built before. The key identifies the kustomization.
func (b *Builder) BuildCopy(ctx context.Context, key string, with func(build func(dir string, read Reader) ([]byte, error)) ([]byte, error)) ([]byte, error) {
	return b.cache.Get(ctx, key, func() ([]byte, error) {
		return with(func(dir string, read Reader) ([]byte, error) { return b.run(ctx, dir, read) })
	})
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
		return nil, &RemoteError{remote}
	}
	program, args := "kustomize", []string{"build", dir}
	if _, err := exec.LookPath(program); err != nil {
		program, args = "kubectl", []string{"kustomize", dir}
	}
	if b.Network {
		args = append(args, "--enable-helm")
	}
	text, err := render.Run(ctx, render.Command{Program: program, Args: args, Network: b.Network, MaxOutput: b.maxOutput})
	if errors.Is(err, render.ErrMissing) {
		return nil, errMissing
	}
	return text, err
}

// missingError is the error if no program is installed.
type missingError struct{}

var errMissing error = missingError{}

func (missingError) Error() string {
	return "neither kustomize nor kubectl is in PATH: install one of them, or build it elsewhere and pipe the result to standard input with -f -"
}

// Is reports whether the error is [render.ErrMissing].
func (missingError) Is(err error) bool { return err == render.ErrMissing }

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
