// Command suites runs the test suites of projects that use envtest, unmodified, and compares the
// tests that pass with a list.
//
//	go run ./suites -assets DIR [-real DIR] [-update] [PROJECT ...]
//
// DIR is a directory for KUBEBUILDER_ASSETS: -assets that of espalier, -real that of the real
// kube-apiserver and etcd. With -real, the suites run with both, and the report has both times.
// The list of a project, testdata/PROJECT.txt, has the tests that pass with the real programs;
// -update writes it. Tests that also fail with the real programs now and then are not in it.
//
// The source of each project comes from its Go module, with the dependencies of its own go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"espalier.dev/internal/gomod"
)

func main() {
	r := &runner{}
	flag.StringVar(&r.assets, "assets", "", "`directory` with espalier's programs")
	flag.StringVar(&r.real, "real", "", "`directory` with the real programs")
	flag.BoolVar(&r.update, "update", false, "write the lists of passing tests, from the real programs if there are any")
	flag.StringVar(&r.lists, "lists", "testdata", "`directory` of the lists")
	flag.StringVar(&r.only, "packages", "", "run only packages whose path contains this `text`; nothing is missing then")
	flag.StringVar(&r.output, "output", "", "`directory` for the output of failing packages")
	flag.IntVar(&r.turns, "turns", 1, "`number` of runs of each package; times are medians")
	flag.Parse()
	// When the run is interrupted, the processes of the suite end before the program does.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := r.run(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runner runs the suites.
type runner struct {
	assets, real, lists, only, output string
	update                            bool
	turns                             int
}

// run runs the suites of the named projects, or of all that have a list. The error has all tests
// that should pass and do not.
func (r *runner) run(ctx context.Context, names []string) error {
	for _, name := range names {
		if !slices.ContainsFunc(projects(), func(p project) bool { return p.name == name }) {
			return fmt.Errorf("there is no project %q", name)
		}
	}
	r.printHeader(os.Stdout)
	var errs []error
	for _, p := range projects() {
		if len(names) > 0 && !slices.Contains(names, p.name) {
			continue
		}
		if _, err := os.Stat(r.list(p)); len(names) == 0 && !r.update && errors.Is(err, fs.ErrNotExist) {
			fmt.Printf("%s has no list of passing tests: write one with -update\n", p.name)
			continue
		}
		if err := r.project(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// list returns the path of the list of a project.
func (r *runner) list(p project) string { return filepath.Join(r.lists, p.name+".txt") }

// project runs the suites of a project, and compares the passing tests with the list.
func (r *runner) project(ctx context.Context, p project) error {
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &suite{project: p, dir: dir}
	if s.source, err = copyModule(p, dir); err != nil {
		return err
	}
	packages, err := findPackages(s.source, p)
	if err != nil {
		return err
	}
	list := r.list(p)
	var expected []string
	if !r.update {
		if expected, err = readList(list); err != nil {
			return err
		}
	}
	var passed []string
	var ours, theirs total
	for _, pkg := range packages {
		if !strings.Contains(pkg, r.only) {
			continue
		}
		one, other, err := r.runPackage(ctx, s, pkg, expected)
		if err != nil {
			return err
		}
		r.printRow(os.Stdout, p.name, pkg, one.total(), other.total())
		r.save(p, pkg, "espalier", one)
		r.save(p, pkg, "real", other)
		ours.add(one.total())
		theirs.add(other.total())
		switch {
		case !r.update:
			passed = append(passed, one.passed...)
		case r.real != "":
			passed = append(passed, other.always()...)
		default:
			passed = append(passed, one.always()...)
		}
	}
	r.printRow(os.Stdout, p.name, "all", ours, theirs)
	if r.update {
		return os.WriteFile(list, []byte(strings.Join(sorted(passed), "\n")+"\n"), 0o644)
	}
	if missing := r.missing(expected, "", passed); len(missing) > 0 && r.assets != "" {
		return fmt.Errorf("%d tests of %s do not pass:\n  %s", len(missing), list, strings.Join(missing, "\n  "))
	}
	return nil
}

// maxAttempts is how often a package runs with espalier at most, unless there are more turns. Some
// tests depend on time, and fail now and then with the real programs, too: one pass is enough.
const maxAttempts = 3

// runPackage runs the tests of a package in turns, once with each directory of programs.
func (r *runner) runPackage(ctx context.Context, s *suite, pkg string, expected []string) (ours, theirs results, err error) {
	if err := s.build(ctx, pkg); err != nil {
		ours = results{failed: []string{pkg + ": compile"}, err: err, output: []byte(err.Error())}
		return ours, ours, ctx.Err()
	}
	for range r.turns {
		if r.assets != "" {
			one, err := s.run(ctx, pkg, r.assets)
			if err != nil {
				return ours, theirs, err
			}
			ours.add(one)
		}
		if r.real != "" {
			one, err := s.run(ctx, pkg, r.real)
			if err != nil {
				return ours, theirs, err
			}
			theirs.add(one)
		}
	}
	for n := r.turns; r.assets != "" && n < maxAttempts; n++ {
		missing := r.missing(expected, pkg, ours.passed)
		if len(missing) == 0 {
			break
		}
		fmt.Printf("%s %s: again, because these did not pass: %s\n", s.name, pkg, strings.Join(missing, ", "))
		one, err := s.run(ctx, pkg, r.assets)
		if err != nil {
			return ours, theirs, err
		}
		ours.add(one)
	}
	return ours, theirs, nil
}

// missing returns the expected tests of a package that have not passed, or of all packages.
func (r *runner) missing(expected []string, pkg string, passed []string) []string {
	var missing []string
	for _, name := range expected {
		of, _, _ := strings.Cut(name, ": ")
		if (pkg == "" || of == pkg) && strings.Contains(of, r.only) && !slices.Contains(passed, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func readList(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), nil
}

// save writes the output of a package with failures.
func (r *runner) save(p project, pkg, with string, one results) {
	if r.output == "" || len(one.failed) == 0 && one.err == nil {
		return
	}
	name := p.name + strings.NewReplacer("./", "_", "/", "_").Replace(pkg) + "-" + with + ".txt"
	if err := errors.Join(os.MkdirAll(r.output, 0o755), os.WriteFile(filepath.Join(r.output, name), one.output, 0o644)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

// copyModule copies the source of a module, because the module cache is read-only and suites
// write files.
func copyModule(p project, dir string) (string, error) {
	module, err := gomod.Dir("", p.module+"@"+p.version)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, p.name)
	if err := os.CopyFS(to, os.DirFS(module)); err != nil {
		return "", err
	}
	return to, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// Modules have no modes: scripts must be executable.
		mode := fs.FileMode(0o644)
		if d.IsDir() || strings.HasSuffix(path, ".sh") {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	})
}

// findPackages returns the packages of a project whose tests use envtest.
func findPackages(source string, p project) ([]string, error) {
	if len(p.packages) != 1 {
		return p.packages, nil
	}
	var packages []string
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !usesEnvtest(string(data)) {
			return err
		}
		dir, err := filepath.Rel(source, filepath.Dir(path))
		if pkg := "./" + filepath.ToSlash(dir); !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
		return err
	})
	return packages, err
}

// usesEnvtest reports whether a file uses envtest, or is a part of it.
func usesEnvtest(source string) bool {
	return slices.ContainsFunc([]string{"controller-runtime/pkg/envtest", "internal/testing/controlplane", "\npackage envtest\n", "\npackage controlplane_test\n"},
		func(text string) bool { return strings.Contains(source, text) })
}
