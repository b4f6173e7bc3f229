package main

import (
	"context"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fileState is what tells that a file has changed.
type fileState struct {
	size int64
	time time.Time
}

// look compares the files of the workspace with those that it saw last, and marks those that have
// changed.
func (w *workspace) look(ctx context.Context) error {
	seen := map[string]fileState{}
	err := filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // it is reported when it is read
		case entry.IsDir():
			if path != w.root && (!w.recursive || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		case !isWorkspaceSetting(path) && !slices.Contains(manifestExtensions(), strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")):
			return nil
		}
		if info, err := entry.Info(); err == nil {
			seen[path] = fileState{info.Size(), info.ModTime()}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.marks.Lock()
	defer w.marks.Unlock()
	if w.seen != nil {
		for path, state := range seen {
			if before, ok := w.seen[path]; !ok || before != state {
				w.stale[path] = true
			}
		}
		for path := range w.seen {
			if _, ok := seen[path]; !ok {
				w.stale[path] = true
			}
		}
	}
	w.seen = seen
	return nil
}

// givenFiles watches the files of --crd that are not in the workspace: editors do not tell about them.
type givenFiles struct {
	seen   map[string]fileState
	looked time.Time
}

// changed reports whether a file has changed, at most every lookInterval.
func (g *givenFiles) changed(w *workspace) bool {
	if time.Since(g.looked) < lookInterval {
		return false
	}
	g.looked = time.Now()
	return !maps.Equal(g.seen, g.states(w))
}

// read remembers the files as they are now.
func (g *givenFiles) read(w *workspace) { g.seen, g.looked = g.states(w), time.Now() }

// states returns the states of the files.
func (g *givenFiles) states(w *workspace) map[string]fileState {
	seen := map[string]fileState{}
	for _, root := range w.checks.validating.crds.Paths {
		root = absolute(root)
		if w.contains(root) {
			continue
		}
		// What cannot be read is reported when it is used.
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil
			}
			if info, err := entry.Info(); err == nil {
				seen[path] = fileState{info.Size(), info.ModTime()}
			}
			return nil
		})
	}
	return seen
}
