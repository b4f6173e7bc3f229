// Package config reads the configuration file .espalier.yaml. The keys of the file are
// described once (keys.go): the parser, the JSON Schema for editors and the list of effective
// values use that description.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"espalier.dev/analysis"
	"espalier.dev/analysis/impact"
	"espalier.dev/analysis/lint"
	"espalier.dev/cmd/espalier/internal/glob"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// Name is the name of the configuration file.
const Name = ".espalier.yaml"

// File is a configuration file. Its zero value stands for no file. Paths in it are relative
// to the directory of the file.
type File struct {
	// Path is the file as it was found, relative to the working directory if that is
	// possible.
	Path string
	// Dir is the absolute path of the directory of the file.
	Dir string
	// current is the working directory of the command.
	current workdir.Dir

	// Semantics and FailOn are empty if the file does not set them.
	Semantics string
	FailOn    string
	// Exclude lists patterns of files to skip, CRDs paths with CRDs.
	Exclude  []string
	CRDs     []string
	Baseline string
	// KubernetesVersion is the version of Kubernetes of the cluster, or empty.
	KubernetesVersion string
	Lint              lint.Config
	Validate          Validate
	Diff              impact.Config
	Ignore            []*Ignore

	// exclude holds the parsed patterns of Exclude.
	exclude []glob.File
	// lines holds the lines of the keys that are set, by their name: lint.disable.
	lines map[string]int
}

// Validate configures the command validate.
type Validate struct {
	FieldValidation   string
	IgnoreMissingCRDs bool
	CheckCRDs         bool
	// Severity overrides the severities of findings by rule.
	Severity map[string]analysis.Severity
}

// Error is a mistake in a file and its position.
type Error struct {
	File         string
	Line, Column int
	Message      string
}

// Error returns the position and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Find returns the configuration file in dir, an absolute path, or in the closest directory
// above it that has one, or "". It does not look above the root of a Git repository: what
// is there is not part of the project.
func Find(current workdir.Dir, dir string) (string, error) {
	for {
		for _, name := range []string{Name, ".espalier.yml"} {
			file := filepath.Join(dir, name)
			switch _, err := os.Lstat(file); {
			case err == nil && name != Name:
				return "", fmt.Errorf("%s is not read: rename it to %s", relative(current, file), Name)
			case err == nil:
				return file, nil
			case !errors.Is(err, fs.ErrNotExist):
				return "", fmt.Errorf("cannot look for the configuration: %w", err)
			}
		}
		_, err := os.Lstat(filepath.Join(dir, ".git"))
		parent := filepath.Dir(dir)
		if err == nil || parent == dir {
			return "", nil
		}
		dir = parent
	}
}

// maxSize is the maximum size of a configuration or baseline in bytes.
const maxSize = 64 << 20

// Load reads a configuration file. Errors about its contents are of type *Error, possibly
// several joined.
func Load(current workdir.Dir, path string, rules Rules) (*File, error) {
	text, err := readFile(current, path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	abs, err := current.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(text, relative(current, abs), filepath.Dir(abs), rules)
	if err != nil {
		return nil, err
	}
	f.current = current
	return f, nil
}

// readFile reads a file within a limit. Like [input.Open], it never blocks.
func readFile(current workdir.Dir, path string) ([]byte, error) {
	f, err := input.Open(current, path)
	if err != nil {
		if info, e := current.Stat(path); e == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file", path)
		}
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s: larger than %d MiB", path, maxSize>>20)
	}
	return text, err
}

// relative returns an absolute path relative to the working directory, if it is below it or
// the result is shorter.
func relative(current workdir.Dir, path string) string {
	dir, err := current.Get()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(dir, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}

// Excludes reports whether exclude matches a file or directory, whose path is absolute or
// relative to the working directory.
func (f *File) Excludes(path string, isDir bool) bool {
	name := f.Relative(path)
	return slices.ContainsFunc(f.exclude, func(g glob.File) bool { return g.Match(name, isDir) })
}

// Resolve returns a path in the file relative to the working directory. Paths in Git revisions are
// relative to the root of the repository.
func (f *File) Resolve(path string) string {
	if filepath.IsAbs(path) || input.IsGit(path) {
		return path
	}
	return relative(f.current, filepath.Join(f.Dir, filepath.FromSlash(path)))
}

// Relative returns a path, which is absolute or relative to the working directory, relative
// to the file and with slashes.
func (f *File) Relative(path string) string {
	abs, err := f.current.Abs(path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	if rel, err := filepath.Rel(f.Dir, abs); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(abs)
}
