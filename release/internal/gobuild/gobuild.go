// Package gobuild compiles the program for the platforms of a release.
package gobuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Exe returns the name of the program in the archives of the platform.
func (p Platform) Exe() string {
	if p.OS == "windows" {
		return "espalier.exe"
	}
	return "espalier"
}

// Host returns the platform of this process.
func Host() Platform { return Platform{runtime.GOOS, runtime.GOARCH} }

// Platforms returns the platforms of a release.
func Platforms() (all []Platform) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, Platform{system, arch})
		}
	}
	return all
}

// ParsePlatforms parses a comma-separated list of platforms, each of them one of a release. An
// empty list means all.
func ParsePlatforms(list string) ([]Platform, error) {
	all := Platforms()
	if list == "" {
		return all, nil
	}
	wanted := map[Platform]bool{}
	for name := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(strings.TrimSpace(name), "/")
		p := Platform{system, arch}
		if !slices.Contains(all, p) {
			return nil, fmt.Errorf("unknown platform %q: use one or more of %s", name, join(all))
		}
		wanted[p] = true
	}
	return slices.DeleteFunc(all, func(p Platform) bool { return !wanted[p] }), nil
}

func join(platforms []Platform) string {
	var names []string
	for _, p := range platforms {
		names = append(names, p.String())
	}
	return strings.Join(names, ",")
}

// A Flavor is a variant of the program.
type Flavor struct {
	// Name is the name of archives and packages.
	Name string
	// Tags are the build tags.
	Tags string
}

// Flavors returns the variants of a release. The program without the server is much smaller; the tag
// grpcnotrace lets the linker leave out its unused methods, too.
func Flavors() []Flavor {
	return []Flavor{{Name: "espalier"}, {Name: "espalier-cli", Tags: "noserver,grpcnotrace"}}
}

// A Stamp is what the program reports about itself.
type Stamp struct {
	Version  string
	Revision string
	Time     time.Time
}

// A Binary is a compiled program.
type Binary struct {
	Flavor   Flavor
	Platform Platform
	Path     string
}

// Builder compiles the package cmd/espalier of a source tree.
type Builder struct {
	// Source is the root of the module.
	Source string
	// Dir receives the programs, in a directory for each.
	Dir   string
	Stamp Stamp
	// Tags are build tags of all flavors.
	Tags []string
	// Log is called before each build.
	Log func(Flavor, Platform)
}

// Build compiles all flavors for all platforms. At most GOMAXPROCS compilers run at a time.
func (b *Builder) Build(ctx context.Context, flavors []Flavor, platforms []Platform) ([]Binary, error) {
	env, err := goEnv(ctx, b.Source)
	if err != nil {
		return nil, err
	}
	// The flavors of a platform share most packages, so they are built one after the other.
	limit := max(1, min(runtime.GOMAXPROCS(0), len(platforms)))
	each := max(1, runtime.GOMAXPROCS(0)/limit)
	built := make([][]Binary, len(platforms))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(limit)
	for i, p := range platforms {
		group.Go(func() error {
			for _, f := range flavors {
				path, err := b.build(ctx, env, f, p, each)
				if err != nil {
					return err
				}
				built[i] = append(built[i], Binary{f, p, path})
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(built...), nil
}

func (b *Builder) build(ctx context.Context, env []string, f Flavor, p Platform, jobs int) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if b.Log != nil {
		b.Log(f, p)
	}
	out := filepath.Join(b.Dir, f.Name+"_"+p.OS+"_"+p.Arch, p.Exe())
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", append(append([]string{"build"}, b.flags(f)...),
		"-p", fmt.Sprint(jobs), "-o", out, "./cmd/espalier")...)
	c.Dir = b.Source
	c.Env = p.environ(env)
	Interruptible(c)
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("build %s for %s: %w\n%s", f.Name, p, err, bytes.TrimSpace(output.Bytes()))
	}
	return out, nil
}

// environ returns env with the settings of the platform. It is a copy: builds for several platforms
// run at the same time.
func (p Platform) environ(env []string) []string {
	return slices.Concat(env, []string{"GOOS=" + p.OS, "GOARCH=" + p.Arch})
}

// flags returns the flags of go build that decide what the program contains.
func (b *Builder) flags(f Flavor) []string {
	flags := []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=" +
		" -X main.version=" + b.Stamp.Version + " -X main.revision=" + b.Stamp.Revision +
		" -X main.date=" + b.Stamp.Time.UTC().Format(time.RFC3339)}
	tags := b.Tags
	if f.Tags != "" {
		tags = append([]string{f.Tags}, tags...)
	}
	if len(tags) > 0 {
		flags = append(flags, "-tags="+strings.Join(tags, ","))
	}
	return flags
}

// Interruptible makes a canceled context interrupt the process, so that it removes its temporary
// files, and kill it only if it does not end.
func Interruptible(c *exec.Cmd) {
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
}

// goEnv returns the environment for go build. Settings of the user that change the program, such as
// GOFLAGS and GOAMD64, have no effect; those that say where modules and caches are, have.
func goEnv(ctx context.Context, dir string) ([]string, error) {
	c := exec.CommandContext(ctx, "go", "env", "-json", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE",
		"GOINSECURE", "GOAUTH", "GOVCS", "GOCACHE", "GOMODCACHE", "GOPATH", "GOTOOLCHAIN")
	c.Dir = dir
	out, err := c.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errors.New("go not found in PATH: install the version in go.mod")
	}
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GO") && !strings.HasPrefix(e, "CGO_") {
			env = append(env, e)
		}
	}
	for k, v := range settings {
		if v != "" {
			env = append(env, k+"="+v)
		}
	}
	slices.Sort(env)
	return append(env, "GOENV=off", "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0"), nil
}

// GoVersion returns the version of the go command that builds source.
func GoVersion(ctx context.Context, source string) (string, error) {
	c := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	c.Dir = source
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go env GOVERSION: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
