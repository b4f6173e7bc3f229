package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// fileLinks are the files of a workspace that are links, or in linked directories, by path, each with
// the path of its target. A file is part of a workspace once, like of the input of a command.
type fileLinks map[string]string

// linkFinder finds links in a directory.
type linkFinder struct {
	root, real string
	// dirs are directories without links.
	dirs map[string]string
}

func newLinkFinder(root string) *linkFinder {
	return &linkFinder{root: root, real: resolved(root), dirs: map[string]string{}}
}

// resolved returns a path without links, or the path itself if it does not exist.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// target returns the path of the file that a file is, below the same root if it is there.
func (f *linkFinder) target(path string) string {
	dir, ok := f.dirs[filepath.Dir(path)]
	if !ok {
		dir = resolved(filepath.Dir(path))
		f.dirs[filepath.Dir(path)] = dir
	}
	real := filepath.Join(dir, filepath.Base(path))
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		real = resolved(path)
	}
	if below, err := filepath.Rel(f.real, real); err == nil && filepath.IsLocal(below) {
		return filepath.Join(f.root, below)
	}
	return real
}

// mark adds the other paths of files that have changed, and returns those that are not read because
// the file is open under another path.
func (l fileLinks) mark(stale map[string]bool, isOpen func(path string) bool) (hidden map[string]bool) {
	same := map[string][]string{}
	for path, target := range l {
		same[target] = append(same[target], path)
	}
	hidden = map[string]bool{}
	for target, paths := range same {
		paths = append(paths, target)
		if !slices.ContainsFunc(paths, func(path string) bool { return stale[path] }) {
			continue
		}
		open := slices.ContainsFunc(paths, isOpen)
		for _, path := range paths {
			stale[path] = true
			if open && !isOpen(path) {
				hidden[path] = true
			}
		}
	}
	return hidden
}

// isOpen reports whether a file is open in the editor.
func (w *workspace) isOpen(path string) bool {
	_, open := w.buffers.Text(path)
	return open
}

// dropLinked removes files that are there under another path: an open one counts, else the first.
func (w *workspace) dropLinked() {
	same := map[string][]string{}
	for path, target := range w.links {
		if w.files[path] == nil {
			delete(w.links, path)
		} else {
			same[target] = append(same[target], path)
		}
	}
	for target, paths := range same {
		if w.files[target] != nil {
			paths = append(paths, target)
		}
		slices.SortFunc(paths, func(a, b string) int {
			switch {
			case w.isOpen(a) && !w.isOpen(b):
				return -1
			case w.isOpen(b) && !w.isOpen(a):
				return 1
			}
			return compareFiles(a, b)
		})
		for _, path := range paths[1:] {
			delete(w.files, path)
		}
	}
}
