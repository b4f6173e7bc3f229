// Package program has the program espalier for tests: it is built once, for all of them.
//
// `make bin` builds it into a directory, which ESPALIER_BIN names for the tests. Without ESPALIER_BIN the first test that
// needs it builds it into the user's cache, and the others wait: the name of its directory is a hash of its source.
package program

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// A Flavor is one of the programs that are built from cmd/espalier.
type Flavor string

const (
	// Complete is the program with the server.
	Complete Flavor = "espalier"
	// CLI is the program without the server.
	CLI Flavor = "espalier-cli"
	// Editor is the program without the server, whose page has CodeMirror: `make editor` bundles it before.
	Editor Flavor = "espalier-editor"
)

// Flavors are all flavors, with the flags of go build.
var Flavors = map[Flavor][]string{
	Complete: nil,
	CLI:      {"-tags=noserver,grpcnotrace"},
	Editor:   {"-tags=noserver,grpcnotrace,codemirror"},
}

// Directory is the variable of the environment that names the directory of the programs.
const Directory = "ESPALIER_BIN"

// sumSuffix is the end of the name of the file beside a program that has the hash of its source.
const sumSuffix = ".sum"

// Path returns the path of a program, for the whole test run.
func Path(t testing.TB, f Flavor) string {
	t.Helper()
	path, err := Find(f)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Find returns the path of a program. It builds the program if ESPALIER_BIN is not set, and nobody has built it from the
// same source. A program in ESPALIER_BIN that is older than its source is an error.
func Find(f Flavor) (string, error) { return found[f]() }

// found has a function for each flavor, because the source does not change while tests run.
var found = func() map[Flavor]func() (string, error) {
	all := map[Flavor]func() (string, error){}
	for f := range Flavors {
		all[f] = sync.OnceValues(func() (string, error) { return find(f) })
	}
	return all
}()

func find(f Flavor) (string, error) {
	root, sum, err := source()
	if err != nil {
		return "", err
	}
	if dir := os.Getenv(Directory); dir != "" {
		path := executable(dir, f)
		switch has, err := os.ReadFile(path + sumSuffix); {
		case err != nil:
			return "", fmt.Errorf("%s=%s has no %s: run make bin, or unset it: %w", Directory, dir, f, err)
		case string(has) != sum:
			return "", fmt.Errorf("%s was built from other source: run make bin, or unset %s", path, Directory)
		}
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "espalier-programs", sum)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	removeOld(filepath.Dir(dir), sum)
	lock, err := fileutil.LockFile(filepath.Join(dir, string(f)+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	return build(root, dir, f, sum)
}

// removeOld removes the programs that no run has needed for a day.
func removeOld(cache, current string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return // then nothing is removed
	}
	now := time.Now()
	_ = os.Chtimes(filepath.Join(cache, current), now, now)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != current && now.Sub(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
}

// Build builds a program into a directory, unless it has that of the same source, and returns its path.
func Build(dir string, f Flavor) (string, error) {
	root, sum, err := source()
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return build(root, dir, f, sum)
}

func build(root, dir string, f Flavor, sum string) (string, error) {
	path := executable(dir, f)
	if has, err := os.ReadFile(path + sumSuffix); err == nil && string(has) == sum {
		return path, nil
	}
	if err := os.Remove(path + sumSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// The flags of the Makefile: a program with debug information would be linked in twice the time.
	args := append([]string{"build", "-buildvcs=false", "-ldflags=-w", "-o", path}, Flavors[f]...)
	cmd := exec.Command("go", append(args, "./cmd/espalier")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, os.WriteFile(path+sumSuffix, []byte(sum), 0o644)
}

func executable(dir string, f Flavor) string {
	path := filepath.Join(dir, string(f))
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	return path
}

// root returns the directory of the module espalier.dev: that of the test, or one above it.
func root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && bytes.HasPrefix(text, []byte("module espalier.dev\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not below the module espalier.dev", start)
		}
	}
}

// source returns the directory of the source and its hash.
func source() (dir, sum string, err error) {
	if dir, err = root(); err != nil {
		return "", "", err
	}
	sum, err = sourceSum(dir)
	return dir, sum, err
}

// sourceSum returns a hash of the files of a module from which programs are built, and of what builds them. What tests
// and readers alone need is left out.
func sourceSum(root string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	skipped := []string{"testdata", "bin", "dist", "docs", "node_modules"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (err == nil || strings.HasPrefix(name, ".") || slices.Contains(skipped, name)) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".md") || strings.HasPrefix(name, ".") {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fmt.Fprintln(hash, filepath.ToSlash(relative))
		_, err = io.Copy(hash, file)
		return err
	})
	return fmt.Sprintf("%x", hash.Sum(nil)), err
}
