package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"espalier.dev/cmd/espalier/internal/config"
)

// fileState is what tells that a file has changed.
type fileState struct {
	size int64
	time time.Time
}

// isWorkspaceFile reports whether a file can be part of a workspace, or of a chart.
func isWorkspaceFile(path string) bool {
	extension := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	return isWorkspaceSetting(path) || extension == "tpl" || slices.Contains(manifestExtensions(), extension)
}

// hasBelow reports whether the workspace has a file below a directory.
func (w *workspace) hasBelow(dir string) bool {
	view := w.viewed.Load()
	return view != nil && slices.ContainsFunc(view.files, func(f *workspaceFile) bool { return isBelow(f.path, dir) })
}

// look compares the files of the workspace with those that it saw last, marks those that have changed,
// and reports whether there are any.
func (w *workspace) look(ctx context.Context) (found bool) {
	w.marks.Lock()
	excluded := w.excluded
	w.marks.Unlock()
	if w.bare || excluded == nil {
		return false // nothing was read yet
	}
	seen := map[string]fileState{}
	err := filepath.WalkDir(w.root, func(path string, entry fs.DirEntry, err error) error {
		name := filepath.Base(path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil // it is reported when it is read
		case entry.IsDir():
			if path != w.root && (!w.recursive || strings.HasPrefix(name, ".") || excluded(path, true)) {
				return fs.SkipDir
			}
			return nil
		case !isWorkspaceFile(path) || !isWorkspaceSetting(path) && excluded(path, false):
			return nil
		}
		if info, err := entry.Info(); err == nil {
			seen[path] = fileState{info.Size(), info.ModTime()}
		}
		return nil
	})
	if err != nil {
		return false
	}
	var changed []string
	w.marks.Lock()
	if w.seen != nil {
		for path, state := range seen {
			if before, ok := w.seen[path]; !ok || before != state {
				changed = append(changed, path)
			}
		}
		for path := range w.seen {
			if _, ok := seen[path]; !ok {
				changed = append(changed, path)
			}
		}
	}
	w.seen = seen
	w.marks.Unlock()
	for _, path := range changed {
		w.changed(path)
	}
	return len(changed) > 0
}

// settingFiles watches the configuration, the baselines and the files with values of charts: they may be above the workspace, and have
// any name.
type settingFiles struct {
	seen   map[string]fileState
	looked time.Time
}

// changed reports whether one has changed, at most every interval of the workspace.
func (f *settingFiles) changed(w *workspace) bool {
	if w.bare || time.Since(f.looked) < w.interval {
		return false
	}
	before := f.seen
	f.read(w)
	return before != nil && !maps.Equal(before, f.seen)
}

// read remembers the files as they are now.
func (f *settingFiles) read(w *workspace) {
	f.seen, f.looked = map[string]fileState{}, time.Now()
	add := func(path string) {
		f.seen[path] = fileState{}
		if info, err := os.Stat(path); err == nil {
			f.seen[path] = fileState{info.Size(), info.ModTime()}
		}
	}
	if file, err := config.Find("", w.root); err == nil && file != "" {
		add(file)
	}
	if w.checks == nil {
		return
	}
	if w.checks.charts != nil {
		for _, path := range w.checks.charts.Values {
			add(absolute(w.checks.validator.dir, path))
		}
	}
	for _, own := range []*app{w.checks.validator, w.checks.linter} {
		if own.baseline != nil {
			add(absolute(own.dir, own.baseline.Path))
		}
	}
}

// givenFiles watches the files of --crd that are not in the workspace: editors do not tell about them.
type givenFiles struct {
	seen   map[string]fileState
	looked time.Time
}

// changed reports whether a file has changed, at most every interval of the workspace.
func (g *givenFiles) changed(w *workspace) bool {
	if time.Since(g.looked) < w.interval {
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
		root = absolute(w.checks.validator.dir, root)
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
