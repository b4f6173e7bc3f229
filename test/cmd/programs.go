package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// root is the directory of the repository.
	root = "../.."
	// realModule has the versions of the real programs.
	realModule = root + "/test/envtest/testdata/real"
	// versionPackage has the version of a program, which releases set at link time.
	versionPackage = "k8s.io/component-base/version"
)

// realProgram is a program of another project.
type realProgram struct {
	name, pkg string
	server    bool // only needed with the real server
}

func realPrograms() []realProgram {
	return []realProgram{
		{name: "kubectl", pkg: "k8s.io/kubernetes/cmd/kubectl"},
		{name: "kubectl-convert", pkg: "k8s.io/kubernetes/cmd/kubectl-convert"},
		{name: "kube-controller-manager", pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", server: true},
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", server: true},
	}
}

// build builds the programs that a run needs into dir. Real programs that dir already has are
// not built again.
func (r *runner) build(ctx context.Context, dir string) error {
	for _, p := range realPrograms() {
		path := filepath.Join(dir, p.name)
		if _, err := os.Stat(path); err == nil || p.server && !r.real {
			continue
		}
		fmt.Println("building", p.name)
		flags := "-s -w -X " + versionPackage + ".gitVersion=" + kubernetesVersion
		if err := runGo(ctx, realModule, "build", "-mod=mod", "-ldflags", flags, "-o", path, p.pkg); err != nil {
			return err
		}
	}
	if r.real || r.espalier != "" {
		return nil
	}
	r.espalier = filepath.Join(r.dir, "espalier")
	fmt.Println("building espalier")
	args := []string{"build", "-o", r.espalier}
	if r.race {
		args = append(args, "-race")
	}
	return runGo(ctx, root, append(args, "./cmd/espalier")...)
}

// runGo runs the go command in a directory.
func runGo(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return nil
}
