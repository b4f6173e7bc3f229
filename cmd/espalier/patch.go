package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/shell"
	"espalier.dev/internal/textdiff"
)

// patchWriter prints patches for git apply and patch -p1, which reject names that are absolute or
// contain "..". Names are relative to the current directory or, if a file is outside of it, to
// the deepest directory that contains all files; the first line then says so.
type patchWriter struct {
	a *app
	// current is the current directory, without symbolic links.
	current string
	// dir is the absolute path of the directory that names are relative to.
	dir string
	// outside is dir as the user would name it. It is empty for the current directory.
	outside string
	noted   bool
}

// newPatchWriter returns a patchWriter for the files that the user names, and those below
// directories.
func (a *app) newPatchWriter(paths []string) (*patchWriter, error) {
	current, err := a.dir.Get()
	if err != nil {
		return nil, err
	}
	// The name of the current directory can contain symbolic links. What ".." means does not
	// depend on them.
	if current, err = filepath.EvalSymlinks(current); err != nil {
		return nil, err
	}
	var all, absolute = "", false
	inside := true
	for _, path := range paths {
		if path == "-" {
			continue
		}
		absolute = absolute || filepath.IsAbs(path)
		path = a.repositories.Local(path)
		dir := path
		if info, err := a.dir.Stat(path); err == nil && !info.IsDir() {
			dir, _ = filepath.Split(path)
		}
		// Patches can create directories, but programs do not start in one that does not exist.
		at, _ := physical(current, dir)
		inside = inside && isBelow(at, current)
		if all == "" {
			all = at
		}
		for !isBelow(at, all) {
			all = filepath.Dir(all)
		}
	}
	w := &patchWriter{a: a, current: current, dir: current}
	if inside {
		return w, nil
	}
	w.dir, w.outside = all, all
	if relative, err := filepath.Rel(current, all); err == nil && !absolute {
		w.outside = relative
	}
	return w, nil
}

// physical returns the absolute path of a directory without symbolic links, which programs that
// apply patches do not follow. If the directory does not exist, it is that of the closest parent
// that does, and rest is the path below it.
func physical(current, dir string) (at, rest string) {
	if dir == "" {
		dir = "."
	}
	for {
		at, err := workdir.Dir(current).EvalSymlinks(dir)
		if err == nil {
			return at, rest
		}
		parent, name := filepath.Split(strings.TrimRight(dir, string(filepath.Separator)))
		if name == "" {
			return dir, rest
		}
		if parent == "" {
			parent = "."
		}
		dir, rest = parent, filepath.Join(name, rest)
	}
}

// isBelow reports whether a path is a directory or below it. Both are absolute.
func isBelow(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// diff returns the changes of a file as a unified diff. A text that is nil stands for a file that
// does not exist.
func (w *patchWriter) diff(style textdiff.Style, file string, old, text []byte) []byte {
	if file == input.Stdin {
		file = "stdin"
	} else {
		dir, name := filepath.Split(w.a.repositories.Local(file))
		at, rest := physical(w.current, dir)
		if relative, err := filepath.Rel(w.dir, filepath.Join(at, rest, name)); err == nil && isBelow(at, w.dir) {
			file = relative
		}
	}
	name := func(prefix string, text []byte) string {
		if text == nil {
			return "/dev/null"
		}
		return textdiff.FileName(prefix, file)
	}
	return style.Unified(name("a", old), name("b", text), old, text, 3)
}

// print prints the changes of a file. A text that is nil stands for a file that does not exist.
func (w *patchWriter) print(file string, old, text []byte) error {
	var style textdiff.Style
	if w.a.useColor(w.a.stdout) {
		style = diffStyle()
	}
	diff := w.diff(style, file, old, text)
	if len(diff) > 0 && w.outside != "" && !w.noted {
		w.noted = true
		// Programs that apply patches skip the text before the first file.
		dir := shell.Quote(w.outside)
		diff = append(fmt.Appendf(nil, "# Apply this patch with git -C %s apply, or patch -p1 -d %s\n", dir, dir), diff...)
	}
	_, err := w.a.stdout.Write(diff)
	return err
}
