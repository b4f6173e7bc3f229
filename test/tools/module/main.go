// Module checks what users of the module get: the zip file that "go install" downloads.
//
//	go run ./module ROOT
//
// makes the zip file of the module in ROOT from the files that Git knows, serves it from a directory,
// installs the program from it as "go install espalier.dev/cmd/espalier@VERSION" does, and checks
// what "espalier version" prints. Dependencies come from the module cache, and are downloaded if it does not have them.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	modulePath = "espalier.dev"
	program    = modulePath + "/cmd/espalier"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: module ROOT")
		os.Exit(2)
	}
	if err := install(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "module:", err)
		os.Exit(1)
	}
}

// file is a file of a module.
type file struct{ root, path string }

func (f file) Path() string                 { return f.path }
func (f file) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.path)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.path)) }

// create returns the zip file of the module in a directory, and its go.mod. It returns an error if
// the module cannot be downloaded, or not be installed at a version.
func create(root, version string) (archive, mod []byte, err error) {
	mod, err = os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, nil, err
	}
	if err := installable(mod); err != nil {
		return nil, nil, err
	}
	list := exec.Command("git", "-C", root, "ls-files", "-z")
	list.Stderr = os.Stderr
	names, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []zip.File
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		// Git also lists files that are removed, but not yet in the index.
		if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files = append(files, file{root, name})
	}
	var out bytes.Buffer
	if err := zip.Create(&out, module.Version{Path: modulePath, Version: version}, files); err != nil {
		return nil, nil, fmt.Errorf("the module cannot be downloaded: %w", err)
	}
	return out.Bytes(), mod, nil
}

// installable returns an error if "go install" does not install programs of a module at a version.
func installable(mod []byte) error {
	f, err := modfile.Parse("go.mod", mod, nil)
	if err != nil {
		return err
	}
	if f.Module.Mod.Path != modulePath {
		return fmt.Errorf("the module is %s, not %s", f.Module.Mod.Path, modulePath)
	}
	if len(f.Replace) > 0 || len(f.Exclude) > 0 {
		return errors.New("go.mod has replace or exclude directives: go install does not install such a module at a version")
	}
	return nil
}

// install installs the program from the zip file of a module, and checks its version.
func install(root string) (err error) {
	archive, _, err := create(root, "v1.0.0")
	if err != nil {
		return err
	}
	// The module cache never reads a version twice.
	version := fmt.Sprintf("v1.0.0-check.x%x", sha256.Sum256(archive))[:30]
	archive, mod, err := create(root, version)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "module-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	proxy := filepath.Join(temp, "proxy", modulePath, "@v")
	if err := os.MkdirAll(proxy, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": mod, version + ".zip": archive,
		version + ".info": []byte(`{"Version":"` + version + `"}`),
	} {
		if err := os.WriteFile(filepath.Join(proxy, name), text, 0o644); err != nil {
			return err
		}
	}
	text, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	defer func() { err = errors.Join(err, forget(cache, version)) }()
	command := exec.Command("go", "install", program+"@"+version)
	command.Dir = temp // in no module
	command.Env = append(os.Environ(), "GO111MODULE=on", "GOFLAGS=-mod=mod", "GOWORK=off", "GOTOOLCHAIN=local", "GOSUMDB=off", "GONOPROXY=none", "GOBIN="+temp,
		"GOPROXY=file://"+filepath.Join(temp, "proxy")+",file://"+filepath.Join(cache, "cache", "download")+","+proxies)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("go install: %w", err)
	}
	return checkVersion(filepath.Join(temp, "espalier"), version)
}

// checkVersion checks what the installed program prints about itself.
func checkVersion(path, version string) error {
	text, err := exec.Command(path, "version", "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("espalier version: %w", err)
	}
	var got struct {
		Version, Commit, Date, Go, Kubernetes string
		Semantics                             []string
		Server, Modified                      bool
	}
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	if got.Version != version || got.Go != runtime.Version() || got.Kubernetes == "" || len(got.Semantics) != 2 || !got.Server {
		return fmt.Errorf("espalier version prints %s, want version %s", text, version)
	}
	if got.Commit != "" || got.Date != "" || got.Modified {
		return fmt.Errorf("espalier version prints a commit, which is not known: %s", text)
	}
	fmt.Printf("%s", text)
	return nil
}

// forget removes a version from the module cache.
func forget(cache, version string) error {
	dir := filepath.Join(cache, modulePath+"@"+version)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o755)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	files, err := filepath.Glob(filepath.Join(cache, "cache", "download", modulePath, "@v", version+".*"))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return errors.Join(err, os.RemoveAll(dir))
}
