// Package workdir resolves paths against the working directory of a command, which need not be that
// of the process: tests run many commands at the same time.
package workdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Dir is an absolute path: the directory that the relative paths of a command are relative to. The
// zero value stands for the working directory of the process. Errors and results have the paths as
// the caller names them.
type Dir string

// Path returns a path that the process can use. It is not cleaned: what .. means depends on links.
func (d Dir) Path(name string) string {
	if d == "" || name == "" || filepath.IsAbs(name) {
		return name
	}
	return d.prefix() + name
}

func (d Dir) prefix() string { return string(d) + string(filepath.Separator) }

// named changes the paths of an error to those that the caller knows.
func (d Dir) named(name string, err error) error {
	if d == "" || err == nil || filepath.IsAbs(name) {
		return err
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		path.Path = strings.TrimPrefix(path.Path, d.prefix())
	}
	var link *os.LinkError
	if errors.As(err, &link) {
		link.Old, link.New = strings.TrimPrefix(link.Old, d.prefix()), strings.TrimPrefix(link.New, d.prefix())
	}
	return err
}

// Get returns the absolute path of the directory.
func (d Dir) Get() (string, error) {
	if d == "" {
		return os.Getwd()
	}
	return string(d), nil
}

// Abs returns the absolute path of a file.
func (d Dir) Abs(name string) (string, error) {
	if d == "" || filepath.IsAbs(name) {
		return filepath.Abs(name)
	}
	return filepath.Join(string(d), name), nil
}

// EvalSymlinks returns a path without links, which may be absolute.
func (d Dir) EvalSymlinks(name string) (string, error) {
	path, err := filepath.EvalSymlinks(d.Path(name))
	return path, d.named(name, err)
}

// Stat is [os.Stat].
func (d Dir) Stat(name string) (fs.FileInfo, error) {
	info, err := os.Stat(d.Path(name))
	return info, d.named(name, err)
}

// Lstat is [os.Lstat].
func (d Dir) Lstat(name string) (fs.FileInfo, error) {
	info, err := os.Lstat(d.Path(name))
	return info, d.named(name, err)
}

// ReadDir is [os.ReadDir].
func (d Dir) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(d.Path(name))
	return entries, d.named(name, err)
}

// ReadFile is [os.ReadFile].
func (d Dir) ReadFile(name string) ([]byte, error) {
	text, err := os.ReadFile(d.Path(name))
	return text, d.named(name, err)
}

// OpenFile is [os.OpenFile].
func (d Dir) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(d.Path(name), flag, mode)
	return f, d.named(name, err)
}

// Open is [os.Open].
func (d Dir) Open(name string) (*os.File, error) { return d.OpenFile(name, os.O_RDONLY, 0) }

// Create is [os.Create].
func (d Dir) Create(name string) (*os.File, error) {
	return d.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// CreateTemp is [os.CreateTemp] in a directory.
func (d Dir) CreateTemp(dir, pattern string) (*os.File, error) {
	f, err := os.CreateTemp(d.Path(dir), pattern)
	return f, d.named(dir, err)
}

// WriteFile is [os.WriteFile].
func (d Dir) WriteFile(name string, text []byte, mode fs.FileMode) error {
	return d.named(name, os.WriteFile(d.Path(name), text, mode))
}

// MkdirAll is [os.MkdirAll].
func (d Dir) MkdirAll(name string, mode fs.FileMode) error {
	return d.named(name, os.MkdirAll(d.Path(name), mode))
}

// Rename is [os.Rename]. The old path is one that the process can use.
func (d Dir) Rename(old, name string) error {
	return d.named(name, os.Rename(old, d.Path(name)))
}

// Remove is [os.Remove].
func (d Dir) Remove(name string) error { return d.named(name, os.Remove(d.Path(name))) }

// WalkDir is [filepath.WalkDir]. The paths of files start with root as it is named.
func (d Dir) WalkDir(root string, visit fs.WalkDirFunc) error {
	if d == "" || filepath.IsAbs(root) {
		return filepath.WalkDir(root, visit)
	}
	at := d.Path(root)
	return filepath.WalkDir(at, func(path string, entry fs.DirEntry, err error) error {
		below, failed := filepath.Rel(at, path)
		if failed != nil {
			return failed
		}
		return visit(filepath.Join(root, below), entry, d.named(root, err))
	})
}
