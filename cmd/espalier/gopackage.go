package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// importPathPattern matches import paths of Go.
var importPathPattern = regexp.MustCompile(`^[A-Za-z0-9_~.-]+(/[A-Za-z0-9_~+.-]+)*$`)

// moduleImportPath returns the import path of a directory in a Go module, or "" if it is in none.
// The directory need not exist.
func moduleImportPath(current workdir.Dir, dir string) (string, error) {
	absolute, err := current.Abs(dir)
	if err != nil {
		return "", err
	}
	for root := absolute; ; root = filepath.Dir(root) {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			below, err := filepath.Rel(root, absolute)
			module := moduleName(string(text))
			if module == "" || err != nil {
				return "", err
			}
			return path.Join(module, filepath.ToSlash(below)), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if root == filepath.Dir(root) {
			return "", nil
		}
	}
}

// moduleName returns the name of the module in a go.mod file, or "" if it has none.
func moduleName(text string) string {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "module" {
			return strings.Trim(fields[1], "\"`")
		}
	}
	return ""
}
