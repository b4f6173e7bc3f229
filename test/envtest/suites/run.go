package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// results are those of one or more packages. Names are "package: test".
type results struct {
	passed, failed []string
	time           time.Duration
	output         []byte
	err            error
}

func (r *results) add(o results) {
	r.passed = append(r.passed, o.passed...)
	r.failed = append(r.failed, o.failed...)
	r.time += o.time
}

// run runs the tests of a package. The time is that of the tests, without compilation.
func run(source, pkg, assets string, args []string) results {
	var r results
	binary := filepath.Join(source, "suite.test")
	build := exec.Command("go", "test", "-c", "-o", binary, pkg)
	build.Dir, build.Env = source, append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		r.output, r.err = out, err
		r.failed = append(r.failed, pkg+": compile")
		return r
	}
	report := filepath.Join(source, "ginkgo.json")
	_ = os.Remove(report) // of the previous package
	cmdArgs := []string{"tool", "test2json", "-p", pkg, binary, "-test.v=test2json", "-test.timeout=30m"}
	if usesGinkgo(filepath.Join(source, pkg)) {
		cmdArgs = append(cmdArgs, "-ginkgo.json-report="+report)
	}
	cmd := exec.Command("go", append(cmdArgs, args...)...)
	cmd.Dir, cmd.Env = filepath.Join(source, pkg), append(os.Environ(), "KUBEBUILDER_ASSETS="+assets)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	r.err = cmd.Run()
	r.time = time.Since(began)
	r.goTests(pkg, out.Bytes())
	r.specs(pkg, report)
	return r
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
func (r *results) specs(pkg, report string) {
	data, err := os.ReadFile(report)
	if err != nil {
		return
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts           []string
			LeafNodeText, LeafNodeType, State string
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		r.err = err
		return
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
