package input

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"espalier.dev/cmd/espalier/internal/glob"
)

// parseExclusions parses the patterns of Flags.Exclude.
func parseExclusions(patterns []string) (all []glob.File, err error) {
	for _, pattern := range patterns {
		f, err := glob.ParseFile(pattern)
		if err != nil {
			return nil, fmt.Errorf("--exclude=%s: %w", pattern, err)
		}
		all = append(all, f)
	}
	return all, nil
}

// excluded reports whether a file or directory is skipped. below is its path relative to the
// directory that the user named, or the path itself.
func (r *reader) excluded(path, below string, isDir bool) bool {
	below = filepath.ToSlash(below)
	return slices.ContainsFunc(r.exclude, func(f glob.File) bool { return f.Match(below, isDir) }) ||
		r.flags.Skip != nil && r.flags.Skip(path, isDir)
}

// Excluded reports whether the user has excluded every file of the input: that there is nothing
// to read is then not a mistake. Tools such as pre-commit name the files that have changed,
// whether the configuration excludes them or not.
func (f Flags) Excluded() bool {
	if slices.Contains(f.Paths, "-") || len(f.Exclude) == 0 && f.Skip == nil {
		return false
	}
	all := true
	r := &reader{ctx: context.Background(), flags: &f,
		problem: func(Problem) { all = false },
		small:   func(file, os.FileInfo) (bool, error) { all = false; return true, nil },
	}
	return r.all(nil) == nil && all
}

// ownFile reports whether a file in a directory is one of the program itself, such as the
// configuration file, and not a manifest.
func ownFile(name string) bool { return strings.HasPrefix(name, ".espalier") }
