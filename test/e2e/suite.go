package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"espalier.dev/internal/process"
)

const (
	// kubernetesVersion is the version of the programs, as in the go.mod files that build them.
	kubernetesVersion = "v1.36.3"
	// selection matches the names of all specs that the driver knows: those of conformance, one for the names
	// of health checks, which clients of kube-apiserver rely on, and those for priority and fairness and for the
	// type checking of policies, of which conformance has only a part.
	selection = `\[Conformance\]|health handlers should contain necessary checks|` +
		`API priority and fairness should ensure that requests can be classified|ValidatingAdmissionPolicy .*should type check`
	// componentsVariable is an environment variable with the path of the components, which are not built then.
	componentsVariable = "ESPALIER_CLUSTER_COMPONENTS"
	// attempts is how often a spec may be tried while the server is killed again and again: a
	// spec fails if one of its own requests is interrupted.
	attempts = 5
)

// programs are the paths of programs.
type programs struct {
	suite, ginkgo, kubectl, components string
	server                             string // espalier or kube-apiserver
	etcd                               string // for kube-apiserver
}

// build builds the programs that the directory does not have.
func build(ctx context.Context, o *options) (*programs, error) {
	bin, err := filepath.Abs(o.bin)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return nil, err
	}
	flags := "-w -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
		" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
	// Programs of this repository are built each time, and others once.
	own := []string{"components", "espalier", "espalier-race"}
	makeProgram := func(name, dir string, args ...string) (path string) {
		path = filepath.Join(bin, name)
		if _, statErr := os.Stat(path); err != nil || statErr == nil && !slices.Contains(own, name) {
			return path
		}
		fmt.Println("building", name)
		args = slices.Concat(args[:len(args)-1], []string{"-ldflags=" + flags, "-o", path}, args[len(args)-1:])
		err = process.Run(ctx, process.Program{Name: "go", Path: "go", Args: args, Dir: dir, Stdout: os.Stdout, Stderr: os.Stderr}, 0)
		if err != nil {
			err = fmt.Errorf("build %s: %w", name, err)
		}
		return path
	}
	const suite, real = "testdata/suite", "../envtest/testdata/real"
	p := &programs{components: os.Getenv(componentsVariable)}
	if p.components == "" {
		p.components = makeProgram("components", "../../cluster/components", "build", ".")
	}
	if !o.faults {
		p.suite = makeProgram("e2e.test", suite, "test", "-c", "-vet=off", "-tags=suite", ".")
		p.ginkgo = makeProgram("ginkgo", suite, "build", "github.com/onsi/ginkgo/v2/ginkgo")
		p.kubectl = makeProgram("kubectl", suite, "build", "k8s.io/kubernetes/cmd/kubectl")
	}
	switch {
	case o.real:
		p.server = makeProgram("kube-apiserver", real, "build", "-mod=mod", "k8s.io/kubernetes/cmd/kube-apiserver")
		p.etcd = makeProgram("etcd", real, "build", "-mod=mod", "go.etcd.io/etcd/server/v3")
	case o.race:
		p.server = makeProgram("espalier-race", "../..", "build", "-race", "./cmd/espalier")
	default:
		p.server = makeProgram("espalier", "../..", "build", "./cmd/espalier")
	}
	return p, err
}

// list returns the names of all specs of the selection.
func (p *programs) list(ctx context.Context, artifacts string) ([]string, error) {
	report := filepath.Join(artifacts, "list.json")
	args := []string{"--ginkgo.dry-run", "--ginkgo.focus=" + selection, "--ginkgo.json-report=" + report, "--provider=skeleton"}
	if err := process.Run(ctx, process.Program{Name: "the suite", Path: p.suite, Args: args}, 0); err != nil {
		return nil, fmt.Errorf("list specs: %w", err)
	}
	all, err := readReport(report)
	return slices.Sorted(maps.Keys(all)), err
}

// run runs specs, and returns their results: also those of specs that were not started.
func (p *programs) run(ctx context.Context, o *options, c *cluster, names []string) (results, error) {
	report := filepath.Join(o.artifacts, "report.json")
	if err := os.Remove(report); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // one of an earlier run
	}
	out, err := os.Create(filepath.Join(o.artifacts, "specs.log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	args := []string{"--no-color", "--silence-skips", "--procs", fmt.Sprint(o.procs), "--timeout", o.timeout.String(), "--output-dir", o.artifacts, "--json-report", filepath.Base(report)}
	if o.kill > 0 {
		args = append(args, "--flake-attempts", fmt.Sprint(attempts))
	}
	args = append(args, "--focus", focus(names), p.suite, "--",
		"--kubeconfig="+c.kubeconfig, "--kubectl-path="+p.kubectl, "--provider=skeleton", fmt.Sprintf("--num-nodes=%d", nodes),
		"--dump-logs-on-failure=false", "--disable-log-dump=true")
	fmt.Printf("running %d specs, %d at the same time\n", len(names), o.procs)
	runErr := process.Run(ctx, process.Program{Name: "ginkgo", Path: p.ginkgo, Args: args, Stdout: out, Stderr: out}, 0)
	if ctx.Err() != nil {
		return nil, runErr
	}
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return nil, runErr
	}
	all, err := readReport(report)
	if err != nil {
		return nil, errors.Join(err, runErr)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("ginkgo reports no results, as if its processes did not end in time: see %s", out.Name())
	}
	selected := results{}
	for _, name := range names {
		r, ok := all[name]
		if !ok || r.state == "skipped" && r.failure == "" {
			r = result{state: "not run", failure: "see specs.log"}
		}
		selected[name] = r
	}
	return selected, nil
}

// focus returns a regular expression that matches exactly the names, and no longer ones.
func focus(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	// ginkgo matches the path of a spec's file and its labels after the name, too.
	return "(?:" + strings.Join(quoted, "|") + ")"
}

// readReport reads a report of ginkgo, without specs that it has skipped because they were not
// selected.
func readReport(path string) (results, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseReport(data)
}

func parseReport(data []byte) (results, error) {
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			RunTime                 time.Duration
			Failure                 struct{ Message string }
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("read the report of ginkgo: %w", err)
	}
	all := results{}
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			if s.LeafNodeType != "It" {
				if s.State == "failed" {
					return nil, fmt.Errorf("%s of the suite failed: %s", s.LeafNodeType, s.Failure.Message)
				}
				continue
			}
			if s.State == "skipped" && s.Failure.Message == "" {
				continue // not selected
			}
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			all[name] = result{state: s.State, took: s.RunTime, failure: s.Failure.Message}
		}
	}
	return all, nil
}
