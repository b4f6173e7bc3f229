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
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	assets := flag.String("assets", "", "`directory` with espalier's programs")
	real := flag.String("real", "", "`directory` with the real programs")
	update := flag.Bool("update", false, "write the lists of passing tests, from the real programs if there are any")
	lists := flag.String("lists", "testdata", "`directory` of the lists")
	only := flag.String("packages", "", "run only packages whose path contains this `text`; nothing is missing then")
	output := flag.String("output", "", "`directory` for the output of failing packages")
	flag.Parse()
	r := &runner{assets: *assets, real: *real, update: *update, lists: *lists, only: *only, output: *output}
	failed := false
	for _, p := range projects() {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), p.name) {
			continue
		}
		if _, err := os.Stat(r.list(p)); flag.NArg() == 0 && !r.update && errors.Is(err, fs.ErrNotExist) {
			fmt.Printf("%-20s has no list of passing tests: write one with -update\n", p.name)
			continue
		}
		if err := r.project(p); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", p.name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// runner runs the suites.
type runner struct {
	assets, real, lists, only, output string
	update                            bool
}

// list returns the path of the list of a project.
func (r *runner) list(p project) string { return filepath.Join(r.lists, p.name+".txt") }

// project runs the suites of a project, and compares the passing tests with the list.
func (r *runner) project(p project) error {
	dir, err := os.MkdirTemp("", "suites-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source, err := copyModule(p, dir)
	if err != nil {
		return err
	}
	packages, err := findPackages(source, p)
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
	var ours, theirs results
	for _, pkg := range packages {
		if !strings.Contains(pkg, r.only) {
			continue
		}
		line := fmt.Sprintf("%-20s %-45s", p.name, pkg)
		if r.assets != "" {
			one := r.attempts(p, source, pkg, expected)
			ours.add(one)
			line += fmt.Sprintf("  espalier %4d passed %3d failed %8s", len(one.passed), len(one.failed), one.time.Round(100*time.Millisecond))
			r.save(p, pkg, "espalier", one)
		}
		if r.real != "" {
			one := run(source, pkg, r.real, p.args)
			theirs.add(one)
			line += fmt.Sprintf("  real %4d passed %3d failed %8s", len(one.passed), len(one.failed), one.time.Round(100*time.Millisecond))
			r.save(p, pkg, "real", one)
		}
		fmt.Println(line)
	}
	fmt.Printf("%-20s %-45s  espalier %4d passed in %s", p.name, "all", len(ours.passed), ours.time.Round(time.Second))
	if r.real != "" {
		fmt.Printf(", real %4d passed in %s", len(theirs.passed), theirs.time.Round(time.Second))
	}
	fmt.Println()

	if r.update {
		passed := ours.passed
		if r.real != "" {
			passed = theirs.passed
		}
		return os.WriteFile(list, []byte(strings.Join(sorted(passed), "\n")+"\n"), 0o644)
	}
	if missing := r.missing(expected, "", ours); len(missing) > 0 {
		return fmt.Errorf("%d tests of %s do not pass:\n  %s", len(missing), list, strings.Join(missing, "\n  "))
	}
	return nil
}

// maxAttempts is how often a package runs at most. Some tests depend on time, and fail now and
// then with the real programs, too.
const maxAttempts = 3

// attempts runs the tests of a package until those that are expected have passed once.
func (r *runner) attempts(p project, source, pkg string, expected []string) results {
	one := run(source, pkg, r.assets, p.args)
	for n := 1; n < maxAttempts && len(r.missing(expected, pkg, one)) > 0; n++ {
		fmt.Printf("%s %s: again, because these did not pass: %s\n", p.name, pkg, strings.Join(r.missing(expected, pkg, one), ", "))
		again := run(source, pkg, r.assets, p.args)
		one.passed = sorted(append(one.passed, again.passed...))
		one.output = append(one.output, again.output...)
	}
	return one
}

// missing returns the expected tests of a package that have not passed, or of all packages.
func (r *runner) missing(expected []string, pkg string, ours results) []string {
	var missing []string
	for _, name := range expected {
		of, _, _ := strings.Cut(name, ": ")
		if (pkg == "" || of == pkg) && strings.Contains(of, r.only) && !slices.Contains(ours.passed, name) {
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
	cmd := exec.Command("go", "mod", "download", "-json", p.module+"@"+p.version)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("download %s@%s: %w", p.module, p.version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", err
	}
	to := filepath.Join(dir, p.name)
	if err := os.CopyFS(to, os.DirFS(module.Dir)); err != nil {
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
