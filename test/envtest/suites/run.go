package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// results are those of the runs of a package with the same programs. Names are "package: test".
type results struct {
	// passed and failed have the tests that have passed, or failed, in at least one run.
	passed, failed []string
	// times are those of the runs, without compilation.
	times  []time.Duration
	output []byte
	err    error
}

// add adds the results of other runs.
func (r *results) add(o results) {
	r.passed = sorted(append(r.passed, o.passed...))
	r.failed = sorted(append(r.failed, o.failed...))
	r.times = append(r.times, o.times...)
	r.output = append(r.output, o.output...)
	r.err = errors.Join(r.err, o.err)
}

// always returns the tests that have passed in every run.
func (r *results) always() []string {
	return slices.DeleteFunc(slices.Clone(r.passed), func(name string) bool { return slices.Contains(r.failed, name) })
}

// time returns the median of the times.
func (r *results) time() time.Duration {
	if len(r.times) == 0 {
		return 0
	}
	times := slices.Sorted(slices.Values(r.times))
	return times[len(times)/2]
}

// suite is the copy of a project's source in a temporary directory.
type suite struct {
	project
	dir, source string
}

// build compiles the tests of a package.
func (s *suite) build(ctx context.Context, pkg string) error {
	cmd := exec.Command("go", "test", "-c", "-o", s.binary(), pkg)
	cmd.Dir, cmd.Env = s.source, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := runCommand(ctx, cmd); err != nil {
		return fmt.Errorf("compile %s: %w: %s", pkg, err, out)
	}
	return nil
}

func (s *suite) binary() string { return filepath.Join(s.source, "suite.test") }

// run runs the tests of the package that has been compiled, and ends all processes that they leave.
func (s *suite) run(ctx context.Context, pkg, assets string) (r results, err error) {
	assets, err = linkAssets(assets, s.dir)
	if err != nil {
		return r, err
	}
	// Files that tests leave are removed with the directory.
	temp := filepath.Join(s.dir, "tmp")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return r, err
	}
	report := filepath.Join(s.source, "ginkgo.json")
	if err := os.RemoveAll(report); err != nil { // of the previous run
		return r, err
	}
	args := []string{"tool", "test2json", "-p", pkg, s.binary(), "-test.v=test2json", "-test.timeout=30m"}
	if usesGinkgo(filepath.Join(s.source, pkg)) {
		args = append(args, "-ginkgo.json-report="+report)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.Join(s.source, pkg), append(os.Environ(), "KUBEBUILDER_ASSETS="+assets, "TMPDIR="+temp)
	began := time.Now()
	out, err := runCommand(ctx, cmd)
	r.times, r.err = []time.Duration{time.Since(began)}, err
	left, err := endProcesses(s.dir)
	if len(left) > 0 {
		r.output = fmt.Appendf(r.output, "ended processes that the tests have left: %s\n", strings.Join(left, " "))
	}
	r.goTests(pkg, out)
	return r, errors.Join(ctx.Err(), err, r.specs(pkg, report))
}

// goTests adds the results of Go tests.
func (r *results) goTests(pkg string, out []byte) {
	for line := range bytes.Lines(out) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			r.output = append(r.output, line...)
			continue
		}
		r.output = append(r.output, e.Output...)
		switch {
		case e.Test == "":
		case e.Action == "pass":
			r.passed = append(r.passed, pkg+": "+e.Test)
		case e.Action == "fail":
			r.failed = append(r.failed, pkg+": "+e.Test)
		}
	}
}

// specs adds the results of the specs in a report of Ginkgo, if there is one.
func (r *results) specs(pkg, report string) error {
	data, err := os.ReadFile(report)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeText, LeafNodeType, State string
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return fmt.Errorf("the report of Ginkgo: %w", err)
	}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType != "It" {
				continue
			}
			name := pkg + ": " + strings.Join(strings.Fields(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")), " ")
			switch s.State {
			case "passed":
				r.passed = append(r.passed, name)
			case "skipped", "pending":
			default:
				r.failed = append(r.failed, name)
			}
		}
	}
	return nil
}

// usesGinkgo reports whether the tests in a directory run Ginkgo.
func usesGinkgo(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return false
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte("RunSpecs(")) {
			return true
		}
	}
	return false
}
