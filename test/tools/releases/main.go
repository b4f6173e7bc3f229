// Command releases reads the releases of Kubernetes and writes the tables of package
// kinds/releases: which kinds and fields each release has.
//
//	go run ./releases [-check] ../..
//
// It downloads modules: k8s.io/api, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator for
// the Go types, k8s.io/kubernetes and k8s.io/apiserver for what is on by default. With -check it
// compares the tables with the files, and writes nothing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// The first and the last minor version that are read.
const first, last = 20, 37

// modules are the modules of a release, with their versions.
var modules = map[string]string{
	"k8s.io/api":                     "v0.%d.0",
	"k8s.io/apiextensions-apiserver": "v0.%d.0",
	"k8s.io/kube-aggregator":         "v0.%d.0",
	"k8s.io/apiserver":               "v0.%d.0",
	"k8s.io/kubernetes":              "v1.%d.0",
}

func main() {
	check := flag.Bool("check", false, "compare the tables with the files, and write nothing")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: releases [-check] DIR")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "releases:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	files, err := tables()
	if err != nil {
		return err
	}
	var errs []error
	for name, text := range files {
		path := filepath.Join(dir, "kinds", "releases", filepath.FromSlash(name))
		if !check {
			errs = append(errs, os.WriteFile(path, text, 0o644))
			continue
		}
		committed, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(committed, text) {
			err = fmt.Errorf("%s is not what the releases say: run make releases", path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tables returns the files of package kinds/releases by their names.
func tables() (map[string][]byte, error) {
	var all []*release
	for minor := first; minor <= last; minor++ {
		r, err := read(minor)
		if err != nil {
			return nil, fmt.Errorf("release 1.%d of Kubernetes: %w", minor, err)
		}
		all = append(all, r)
	}
	described, err := described(all)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsTable(all)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"kinds.txt":            kindsTable(all),
		"fields.txt":           fields,
		"testdata/openapi.txt": described,
	}, nil
}

// download returns the directory of a module, and downloads it if necessary.
func download(path string, minor int) (string, error) {
	module := path + "@" + fmt.Sprintf(modules[path], minor)
	c := exec.Command("go", "mod", "download", "-json", module)
	c.Dir = os.TempDir() // the module of this program is not concerned
	text, runErr := c.Output()
	var out struct{ Dir, Error string }
	if err := json.Unmarshal(text, &out); err != nil {
		return "", fmt.Errorf("download %s: %w", module, errors.Join(runErr, err))
	}
	if out.Error != "" {
		return "", fmt.Errorf("download %s: %s", module, out.Error)
	}
	return out.Dir, nil
}
