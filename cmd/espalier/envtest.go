//go:build !noserver

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/workdir"
)

func newEnvtestCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "envtest [DIR]",
		Short: "Make a directory with binaries for envtest, and print its path",
		Long: `Tests that use envtest, the package of controller-runtime, start a kube-apiserver and an
etcd from the directory in the environment variable KUBEBUILDER_ASSETS. This command makes
such a directory, so that the tests run unchanged:

  export KUBEBUILDER_ASSETS=$(espalier envtest)
  go test ./...

Both programs in the directory are espalier. Under the name kube-apiserver it accepts the
flags of kube-apiserver and behaves as one, without controllers: there is no garbage
collection, and deleted namespaces stay Terminating. Under the name etcd it is etcd.

DIR is created if it does not exist; the default is a directory in the user's cache. Its
files are hard links to this program, or copies if links are not possible, so the
directory remains usable if this program is moved or deleted. Run the command again after
an upgrade.

envtest needs kubectl only for tests that call it. If there is a kubectl in PATH, the
directory has a link to it.`,
		Example: `  # Print the path of a directory in the user's cache
  espalier envtest

  # Use another directory
  espalier envtest bin/envtest`,
		Args: maximumArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			dir, err := makeAssets(a.dir, dir)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(a.stdout, dir)
			return err
		},
	}
}

// maximumArgs allows up to n arguments.
func maximumArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError(c, fmt.Errorf("%s needs at most one directory, got %q too", c.Name(), args[n]))
		}
		return nil
	}
}

// assetsMark is the file that identifies directories of this command. Others may have programs
// that must not be replaced.
const assetsMark = ".espalier-envtest"

// makeAssets makes a directory for envtest, and returns its absolute path.
func makeAssets(current workdir.Dir, dir string) (string, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find the cache directory: %w: name a directory, as in espalier envtest DIR", err)
		}
		dir = filepath.Join(cache, "espalier", "envtest", fmt.Sprintf("%s-%s-%s", buildVersion().version, runtime.GOOS, runtime.GOARCH))
	}
	dir, err := current.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the directory: %w", err)
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory: %w", err)
	}
	mark, apiserver := filepath.Join(dir, assetsMark), filepath.Join(dir, apiserverName+exeSuffix())
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{apiserverName, etcdName} {
			if _, err := os.Lstat(filepath.Join(dir, name+exeSuffix())); err == nil {
				return "", fmt.Errorf("%s has a program %s that is not from espalier: choose another directory, or delete the program",
					dir, name)
			}
		}
		if err := os.WriteFile(mark, []byte("This directory is from \"espalier envtest\", which replaces its files.\n"),
			0o644); err != nil {
			return "", fmt.Errorf("mark the directory: %w", err)
		}
	}
	if err := link(self, apiserver); err != nil {
		return "", err
	}
	if err := link(apiserver, filepath.Join(dir, etcdName+exeSuffix())); err != nil {
		return "", err
	}
	return dir, linkKubectl(filepath.Join(dir, kubectlName+exeSuffix()))
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// link makes a hard link to a program, or a copy if that is not possible. An existing file is
// replaced atomically, because it may be started or run at the same time.
func link(program, path string) error {
	source, err := os.Stat(program)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	if old, err := os.Stat(path); err == nil && (os.SameFile(source, old) ||
		old.Size() == source.Size() && old.ModTime().Equal(source.ModTime())) {
		return nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, filepath.Base(path))
	if os.Link(program, fresh) != nil {
		if err := copyProgram(program, fresh, source); err != nil {
			return fmt.Errorf("copy the program to %s: %w", path, err)
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	return nil
}

// copyProgram copies a program with its modification time, by which link recognizes copies.
func copyProgram(program, path string, info fs.FileInfo) error {
	in, err := os.Open(program)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := out.Close(); err != nil {
		return err
	}
	return os.Chtimes(path, info.ModTime(), info.ModTime())
}

// linkKubectl makes a symbolic link to kubectl if there is one in PATH. Without one, only tests
// that run kubectl fail.
func linkKubectl(path string) error {
	kubectl, err := exec.LookPath(kubectlName)
	if err != nil {
		return nil
	}
	if kubectl, err = filepath.Abs(kubectl); err != nil || kubectl == path {
		return err
	}
	if old, err := os.Readlink(path); err == nil && old == kubectl {
		return nil
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("make %s: %w", path, err)
	}
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, kubectlName)
	if err := os.Symlink(kubectl, fresh); err != nil {
		return nil // the file system has no symbolic links, and kubectl is optional
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("link kubectl: %w", err)
	}
	return nil
}
