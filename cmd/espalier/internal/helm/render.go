package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/cmd/espalier/internal/render"
)

// Defaults of [Renderer], as helm template has them.
const (
	DefaultRelease   = "release-name"
	DefaultNamespace = "default"
)

// Renderer renders charts with the helm program. It renders each of them once, and is safe for
// concurrent use.
type Renderer struct {
	// Network lets helm load dependencies that are missing in the directory charts.
	Network bool
	// Release and Namespace are those of the release.
	Release, Namespace string
	// KubeVersion is the Kubernetes version of the cluster, or "" for that of helm. It serves
	// APIVersions in addition to what helm knows.
	KubeVersion string
	APIVersions []string
	// Values are files with values, and Set values of the form key=value, as helm has them.
	Values, Set []string

	cache render.Cache
	// program and maxOutput replace the defaults.
	program   string
	maxOutput int
}

// Again returns a renderer with the same options and without results, which renders at most so many
// bytes: charts may have changed.
func (r *Renderer) Again(maxOutput int) *Renderer {
	return &Renderer{Network: r.Network, Release: r.Release, Namespace: r.Namespace, KubeVersion: r.KubeVersion, APIVersions: r.APIVersions,
		Values: r.Values, Set: r.Set, program: r.program, maxOutput: maxOutput}
}

// OnRender calls a function, from several goroutines, for each chart that was rendered.
func (r *Renderer) OnRender(call func()) { r.cache.Rendered = call }

// ErrLibrary is returned for a chart that only other charts use.
var ErrLibrary = errors.New("it is a library chart")

// DependencyError is the error of a chart whose dependencies are not in its directory charts.
type DependencyError struct {
	Missing []Dependency
	// Chart is the chart, as the user names it.
	Chart string
}

// Error names the dependencies, and what to do.
func (e *DependencyError) Error() string {
	names := make([]string, len(e.Missing))
	for i, d := range e.Missing {
		names[i] = d.String()
	}
	noun, pronoun := "dependency", "it"
	if len(names) > 1 {
		noun, pronoun = "dependencies", "them"
	}
	return fmt.Sprintf("%s not in charts/: %s: run helm dependency build %s, or load %s from the network with --helm-network",
		noun, strings.Join(names, ", "), e.Chart, pronoun)
}

// Files is a chart that is not yet in the file system, or that helm must not see as it is there.
type Files interface {
	// Copy writes the chart to a directory.
	Copy(ctx context.Context, dir string) error
	// CopyDependency writes a chart to a directory that is at a path relative to the chart.
	CopyDependency(ctx context.Context, at, dir string) error
	// ReadValues reads a file with values, whose path is not relative to the chart.
	ReadValues(name string) ([]byte, error)
}

// Render returns what helm renders of a chart. Name is the chart as the user names it, which
// identifies it.
func (r *Renderer) Render(ctx context.Context, name string, files Files) ([]byte, error) {
	return r.cache.Get(ctx, name, func() ([]byte, error) {
		return render.WithTemp(func(dir string) ([]byte, error) {
			text, err := r.run(ctx, name, files, dir)
			var failure *render.Failure
			if errors.As(err, &failure) {
				// Paths in the copy mean nothing to the user.
				failure.Message = strings.ReplaceAll(failure.Message, filepath.Join(dir, chartDir), name)
				failure.Message = strings.ReplaceAll(failure.Message, dir+string(filepath.Separator), "")
			}
			return text, err
		})
	})
}

// chartDir is the name of the copy of a chart. The directory of a chart can have any name.
const chartDir = "chart"

func (r *Renderer) run(ctx context.Context, name string, files Files, dir string) ([]byte, error) {
	chart := filepath.Join(dir, chartDir)
	if err := files.Copy(ctx, chart); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(chart, ChartFile))
	if err != nil {
		return nil, fmt.Errorf("there is no %s", ChartFile)
	}
	c, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ChartFile, err)
	}
	if c.IsLibrary() {
		return nil, ErrLibrary
	}
	if err := r.addDependencies(ctx, name, files, dir, c); err != nil {
		return nil, err
	}
	args := []string{"template", "--include-crds", "--namespace=" + cmp.Or(r.Namespace, DefaultNamespace)}
	if r.KubeVersion != "" {
		args = append(args, "--kube-version="+r.KubeVersion)
	}
	for _, version := range append(aggregated(), r.APIVersions...) {
		args = append(args, "--api-versions="+version)
	}
	for i, file := range r.Values {
		data, err := files.ReadValues(file)
		if err != nil {
			return nil, fmt.Errorf("--helm-values: %w", err)
		}
		// Helm splits paths at commas, and loads some from the network.
		name := fmt.Sprintf("values-%d.yaml", i)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--values="+name)
	}
	for _, value := range r.Set {
		args = append(args, "--set="+value)
	}
	args = append(args, "--", cmp.Or(r.Release, DefaultRelease), chartDir)
	return r.helm(ctx, dir, false, args...)
}

// aggregated returns what every cluster serves and helm does not know without one.
func aggregated() []string {
	return []string{"apiregistration.k8s.io/v1", "apiregistration.k8s.io/v1/APIService"}
}

// helm runs helm in the temporary directory. It sees nothing of the user's configuration.
func (r *Renderer) helm(ctx context.Context, dir string, network bool, args ...string) ([]byte, error) {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "HELM_") || name == "KUBECONFIG" || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "KUBERNETES_")
	})
	home := filepath.Join(dir, "home")
	for name, value := range map[string]string{"HOME": "", "HELM_CACHE_HOME": "cache", "HELM_CONFIG_HOME": "config", "HELM_DATA_HOME": "data",
		"HELM_PLUGINS": "plugins", "KUBECONFIG": "kubeconfig"} {
		env = append(env, name+"="+filepath.Join(home, value))
	}
	// Helm waits for no one to enter a password.
	env = append(env, "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	program := cmp.Or(r.program, "helm")
	text, err := render.Run(ctx, render.Command{Program: program, Args: args, Env: env, Dir: dir, Network: network, MaxOutput: r.maxOutput})
	if errors.Is(err, render.ErrMissing) {
		return nil, errMissing
	}
	return text, err
}

// missingError is the error if helm is not installed.
type missingError struct{}

var errMissing error = missingError{}

func (missingError) Error() string {
	return "helm is not in PATH: install it, or render the chart elsewhere and pipe the result to standard input with -f -"
}

// Is reports whether the error is [render.ErrMissing].
func (missingError) Is(err error) bool { return err == render.ErrMissing }

// addDependencies copies the dependencies of a chart that are missing in its directory charts, and
// that are directories beside it. It loads others from the network, if that is allowed.
func (r *Renderer) addDependencies(ctx context.Context, name string, files Files, dir string, c *Chart) error {
	chart := filepath.Join(dir, chartDir)
	dependencies := c.Dependencies
	if data, err := os.ReadFile(filepath.Join(chart, RequirementsFile)); err == nil && len(dependencies) == 0 {
		required, err := Parse(data)
		if err != nil {
			return fmt.Errorf("%s: %w", RequirementsFile, err)
		}
		dependencies = required.Dependencies
	}
	have, err := dependenciesIn(filepath.Join(chart, "charts"))
	if err != nil {
		return err
	}
	var missing []Dependency
	for i, d := range dependencies {
		if have(d.Name) {
			continue
		}
		if at := d.Local(); at != "" {
			to := filepath.Join(chart, "charts", fmt.Sprintf("dependency-%d", i))
			if err := files.CopyDependency(ctx, at, to); err != nil {
				return fmt.Errorf("dependency %s: %w", d, err)
			}
			continue
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil
	}
	if !r.Network {
		return &DependencyError{missing, name}
	}
	versions := lockedVersions(chart)
	for _, d := range missing {
		if err := r.pull(ctx, dir, d, versions[d.Name]); err != nil {
			return fmt.Errorf("dependency %s: %w", d, err)
		}
	}
	return nil
}

// pull loads a dependency from the network.
func (r *Renderer) pull(ctx context.Context, dir string, d Dependency, locked string) error {
	args := []string{"pull", "--destination=" + filepath.Join(chartDir, "charts"), "--version=" + cmp.Or(locked, d.Version)}
	switch repository := d.Repository; {
	case strings.HasPrefix(repository, "oci://"):
		args = append(args, "--", strings.TrimSuffix(repository, "/")+"/"+d.Name)
	case strings.HasPrefix(repository, "https://"), strings.HasPrefix(repository, "http://"):
		args = append(args, "--repo="+repository, "--", d.Name)
	default:
		return errors.New("its repository is no URL: run helm dependency build, which knows your repositories")
	}
	if err := os.MkdirAll(filepath.Join(dir, chartDir, "charts"), 0o755); err != nil {
		return err
	}
	_, err := r.helm(ctx, dir, true, args...)
	return err
}

// lockedVersions returns the versions of dependencies by name that the lock file of a chart has.
func lockedVersions(chart string) map[string]string {
	versions := map[string]string{}
	for _, name := range []string{"Chart.lock", "requirements.lock"} {
		data, err := os.ReadFile(filepath.Join(chart, name))
		if err != nil {
			continue
		}
		if lock, err := Parse(data); err == nil { // helm reports it
			for _, d := range lock.Dependencies {
				versions[d.Name] = d.Version
			}
		}
	}
	return versions
}

// dependenciesIn returns a function that reports whether a directory charts has a chart with a name.
func dependenciesIn(dir string) (func(name string) bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	charts := map[string]bool{}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() {
			files = append(files, entry.Name())
			continue
		}
		charts[entry.Name()] = true
		if data, err := os.ReadFile(filepath.Join(dir, entry.Name(), ChartFile)); err == nil {
			if c, err := Parse(data); err == nil {
				charts[c.Name] = true
			}
		}
	}
	return func(name string) bool { return charts[name] || archiveOf(name, files) != "" }, nil
}
