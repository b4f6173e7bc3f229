package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// importPathPattern matches import paths of Go.
var importPathPattern = regexp.MustCompile(`^[A-Za-z0-9_~.-]+(/[A-Za-z0-9_~+.-]+)*$`)

// importPath returns the import path of the output directory for a target, or "" if it has none:
// that of --go-package or, without the flag, that in the Go module of the directory.
func (o *generateOptions) importPath(c *cobra.Command, target generateTarget) (string, error) {
	given := c.Flags().Changed("go-package")
	switch {
	case target.name != protoTarget && given:
		return "", usageError(c, fmt.Errorf("--go-package needs the target %s", protoTarget))
	case target.name != protoTarget, given && o.goPackage == "":
		return "", nil
	case !given:
		return moduleImportPath(o.output)
	case !importPathPattern.MatchString(o.goPackage):
		return "", fmt.Errorf("--go-package=%s: must be an import path, such as example.com/project/proto", o.goPackage)
	}
	return o.goPackage, nil
}

// moduleImportPath returns the import path of a directory in a Go module, or "" if it is in none.
// The directory need not exist.
func moduleImportPath(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
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
