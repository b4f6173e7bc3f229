package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/internal/textdiff"
)

// patchWriter prints patches for git apply and patch -p1, which reject names that are absolute or
// contain "..". Names are relative to the current directory or, if a file is outside of it, to
// the deepest directory that contains all files; the first line then says so.
type patchWriter struct {
	a *app
	// dir is the absolute path of the directory that names are relative to.
	dir string
	// outside is dir as the user would name it. It is empty for the current directory.
	outside string
	noted   bool
}

// newPatchWriter returns a patchWriter for the files that the user names, and those below
// directories.
func (a *app) newPatchWriter(paths []string) (*patchWriter, error) {
	current, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var all, absolute = "", false
	inside := true
	for _, path := range paths {
		if path == "-" {
			continue
		}
		at, err := filepath.Abs(path)
		if err != nil {
			return nil, err
		}
		absolute = absolute || filepath.IsAbs(path)
		inside = inside && isBelow(at, current)
		if info, err := os.Stat(at); err == nil && !info.IsDir() {
			at = filepath.Dir(at)
		}
		if all == "" {
			all = at
		}
		for !isBelow(at, all) {
			all = filepath.Dir(all)
		}
	}
	w := &patchWriter{a: a, dir: current}
	if inside {
		return w, nil
	}
	w.dir, w.outside = all, all
	if relative, err := filepath.Rel(current, all); err == nil && !absolute {
		w.outside = relative
	}
	return w, nil
}

// isBelow reports whether a path is a directory or below it. Both are absolute.
func isBelow(path, dir string) bool {
	relative, err := filepath.Rel(dir, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// print prints the changes of a file. A text that is nil stands for a file that does not exist.
func (w *patchWriter) print(file string, old, text []byte) error {
	var style textdiff.Style
	if w.a.useColor(w.a.stdout) {
		style = diffStyle()
	}
	if file == input.Stdin {
		file = "stdin"
	} else if at, err := filepath.Abs(file); err == nil && isBelow(at, w.dir) {
		if relative, err := filepath.Rel(w.dir, at); err == nil {
			file = relative
		}
	}
	name := func(prefix string, text []byte) string {
		if text == nil {
			return "/dev/null"
		}
		return textdiff.FileName(prefix, file)
	}
	diff := style.Unified(name("a", old), name("b", text), old, text, 3)
	if len(diff) > 0 && w.outside != "" && !w.noted {
		w.noted = true
		// Programs that apply patches skip the text before the first file.
		dir := shellQuote(w.outside)
		diff = append(fmt.Appendf(nil, "# Apply this patch with git -C %s apply, or patch -p1 -d %s\n", dir, dir), diff...)
	}
	_, err := w.a.stdout.Write(diff)
	return err
}
