package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"espalier.dev/cmd/espalier/internal/glob"
	"espalier.dev/cmd/espalier/internal/helm"
	"espalier.dev/cmd/espalier/internal/render"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
)

// file is a file to read.
type file struct {
	path string
	// in is where the file is. It is nil for standard input.
	in tree
	// named is set if the user named the file itself, not a directory that contains it.
	named bool
	// regular is set if the file can be read again.
	regular bool
	// size is the size of a small regular file in a directory of the file system, and zero for others.
	size int64
	// rendered is set if the documents are rendered from the file.
	rendered *template
}

func (r *reader) path(path string, stdin io.Reader) error {
	if path == "-" {
		return r.stream(file{path: Stdin, named: true}, stdin, r.flags.ahead)
	}
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		r.fail(path, Unreadable, "URLs are not supported: download the file, or pipe it to standard input with -f -")
		return nil
	}
	if strings.HasPrefix(path, "oci://") {
		r.fail(path, Unreadable, "charts in registries are not supported: run helm pull %s, and name the .tgz file", path)
		return nil
	}
	in, below := tree(r.flags.Git.files), path
	if IsGit(path) {
		found, name, err := r.flags.Git.find(r.flags.GitDir, path)
		if err != nil {
			r.fail(path, Unreadable, "cannot read: %v", err)
			return r.ctx.Err()
		}
		in, path, below = found, name, found.name(name)
	}
	info, err := in.stat(path)
	switch {
	case err != nil:
		r.fail(path, Unreadable, "cannot read: %v", Reason(err))
		return nil
	case info.IsDir():
		return r.directory(in, path)
	case r.excluded(in, path, below, false):
		return nil
	case info.Mode().IsRegular() && r.once(in.real(path)):
		return nil
	case info.Mode().IsRegular() && r.flags.Helm != nil && helm.IsArchive(path):
		return r.render(rendering{in: in, path: path})
	}
	return r.take(file{path: path, in: in, named: true}, info)
}

// take reads a file, or passes it to small.
func (r *reader) take(f file, info os.FileInfo) error {
	if r.isKustomize(f) {
		r.flags.Skipped.Count(KustomizeFile)
		return nil
	}
	r.taken++
	if r.small != nil {
		if taken, err := r.small(f, info); taken || err != nil {
			return err
		}
	}
	return r.file(f)
}

// extensions returns the file name extensions that are read in directories.
func extensions() []string { return []string{".json", ".yaml", ".yml"} }

// directory reads the files of a directory and, if the flags say so, its subdirectories.
func (r *reader) directory(in tree, root string) error {
	before := r.taken
	r.unbuilt = nil
	found, err := r.walk(in, root, in.real(root), "")
	switch why := r.unbuilt; {
	case why == nil:
	case r.taken == before:
		// The user has named what cannot be read at all.
		r.fail(root, Unrendered, "cannot build the kustomization: %v", why)
	default:
		if errors.Is(why, render.ErrMissing) {
			why = errors.New("neither kustomize nor kubectl is in PATH")
		}
		r.flags.Skipped.unbuilt(root, why.Error())
	}
	if err == nil && found == 0 {
		hint := ""
		if !r.flags.Recursive {
			hint = " (-R includes subdirectories)"
		}
		r.fail(root, Empty, "no %s files in the directory%s", strings.Join(extensions(), ", "), hint)
	}
	return err
}

// walk reads the directory path of a tree, whose resolved path is real and whose path below the
// directory that the user named is below. It returns the number of files found, including
// excluded ones. It follows links. Each directory is read once, so that loops end.
func (r *reader) walk(in tree, path, real, below string) (found int, err error) {
	if r.once(real) {
		return 1, nil
	}
	entries, err := in.readDir(path)
	if err != nil {
		r.fail(path, Unreadable, "cannot read: %v", Reason(err))
		found++
	}
	if r.rendersCharts() && isChart(in, path, entries) {
		if !r.unchanged(in, path) {
			err = r.render(rendering{in: in, path: path, found: below != ""})
		}
		return found + 1, err
	}
	if name := kustomizationFile(entries); name != "" {
		if taken, err := r.kustomized(rendering{in: in, path: path, kustomization: name, found: below != ""}); taken || err != nil {
			return found + 1, err
		}
	}
	for _, entry := range entries {
		if err := r.ctx.Err(); err != nil {
			return found, err
		}
		name, at := in.join(path, entry.Name()), in.join(real, entry.Name())
		isLink := entry.Type()&fs.ModeSymlink != 0
		isArchive := helm.IsArchive(name) && r.flags.Helm != nil && !r.flags.HelmNamed
		matches := isArchive || slices.Contains(extensions(), strings.ToLower(filepath.Ext(name)))
		if !matches && !entry.IsDir() && !isLink || ownFile(entry.Name()) {
			continue
		}
		if r.flags.SkipHidden && strings.HasPrefix(entry.Name(), ".") {
			if found++; entry.Name() != ".git" && (matches || r.flags.Recursive) {
				r.flags.Skipped.Count(HiddenFile)
			}
			continue
		}
		info, err := entry.Info()
		if isLink {
			// Its target decides.
			info, err = in.stat(name)
			at = in.real(name)
		}
		relative := below + entry.Name()
		switch {
		case r.excluded(in, name, relative, err == nil && info.IsDir()):
			found++
		case err != nil && matches:
			found++
			r.fail(name, Unreadable, "cannot read: %v", Reason(err))
		case err != nil:
		case info.IsDir():
			if !r.flags.Recursive || entry.Name() == ".git" {
				continue
			}
			n, err := r.walk(in, name, at, relative+"/")
			if found += n; err != nil {
				return found, err
			}
		case matches:
			found++
			if r.once(at) {
				continue
			}
			if isArchive {
				if err := r.render(rendering{in: in, path: name, found: true}); err != nil {
					return found, err
				}
				continue
			}
			f := file{path: name, in: in}
			if !isLink {
				f.size = plainSize(in, info)
			}
			if err := r.take(f, info); err != nil {
				return found, err
			}
		}
	}
	return found, nil
}

// once reports whether a file or directory has been read already, and remembers it.
func (r *reader) once(real string) bool {
	if r.seen[real] {
		return true
	}
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[real] = true
	return false
}

// Open opens a file for reading. It returns an error for anything that could block or never
// end: devices, sockets, and FIFOs other than those that a shell passes as /dev/fd/N.
func Open(dir workdir.Dir, path string) (*os.File, error) {
	f, _, err := openFile(dir, path)
	return f, err
}

// openFile is Open. It also returns the description of the file.
func openFile(dir workdir.Dir, path string) (*os.File, fs.FileInfo, error) {
	// Without O_NONBLOCK, opening a FIFO waits for a writer.
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if info, err := dir.Stat(path); err == nil {
		if err := readable(path, info.Mode()); err != nil {
			return nil, nil, err
		}
		if info.Mode()&fs.ModeNamedPipe != 0 {
			flags = os.O_RDONLY
		}
	}
	f, err := dir.OpenFile(path, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	// The path may have been replaced since Stat.
	info, err := f.Stat()
	if err == nil {
		err = readable(path, info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readable returns an error if reading a file of this mode could block or never end.
func readable(path string, mode fs.FileMode) error {
	what := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		if filepath.Dir(path) == "/dev/fd" || path == "/dev/stdin" {
			return nil
		}
		what = "a FIFO"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	default:
		what = "not a regular file"
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is %s: pipe its content to standard input with -f -", what)}
}

// plainSize returns the size of a regular file of the file system if it is small, and zero otherwise.
func plainSize(in tree, info fs.FileInfo) int64 {
	t, ok := in.(osTree)
	if !ok || t.buffers != nil || !info.Mode().IsRegular() || info.Size() > smallFile {
		return 0
	}
	return info.Size()
}

func (r *reader) file(f file) error {
	if in, ok := f.in.(osTree); ok && f.size > 0 {
		if text, ok := readSmall(in.dir.Path(f.path), f.size, r.scratch); ok {
			f.regular = true
			return r.text(f, text)
		}
	}
	open, err := f.in.open(f.path)
	if err != nil {
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		r.fail(f.path, Unreadable, "cannot read: %v", Reason(err))
		return nil
	}
	defer open.Close()
	if f.regular = open.regular; !f.regular {
		return r.stream(f, open, r.flags.ahead)
	}
	if open.size <= wholeFile {
		data := make([]byte, open.size+1)
		if n, err := io.ReadFull(open, data); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return r.text(f, data[:n])
		} else if err == nil {
			// The file has grown: data is only its start.
			return r.stream(f, io.MultiReader(bytes.NewReader(data), open), nil)
		}
	}
	return r.stream(f, open, nil)
}

// text reads the text of a file.
func (r *reader) text(f file, data []byte) error {
	if r.reject(f.path, data[:min(len(data), sniffed)]) || r.flags.Skipped == nil && !r.flags.keeps(data) {
		return nil
	}
	return r.documents(f, yamlx.NewBytesReader(data, r.options()))
}

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
func (r *reader) excluded(in tree, path, below string, isDir bool) bool {
	below = filepath.ToSlash(below)
	switch {
	case !r.unchanged(in, path):
	case !isDir:
		return true
	case r.flags.Recursive && (r.flags.Build == nil || r.flags.BuildNamed):
		// Directories that are not entered anyway do not count as input. Those of kustomizations can
		// include others.
		return true
	}
	return slices.ContainsFunc(r.exclude, func(f glob.File) bool { return f.Match(below, isDir) }) ||
		r.flags.Skip != nil && r.flags.Skip(in.local(path), isDir)
}

// Exclusions returns a function that reports whether a file or directory below root, a directory in
// Paths, is excluded.
func (f Flags) Exclusions(root string) (func(path string, isDir bool) bool, error) {
	exclude, err := parseExclusions(f.Exclude)
	if err != nil {
		return nil, err
	}
	return func(path string, isDir bool) bool {
		below, err := filepath.Rel(root, path)
		if err != nil || below == "." {
			return false
		}
		below = filepath.ToSlash(below)
		return slices.ContainsFunc(exclude, func(g glob.File) bool { return g.Match(below, isDir) }) || f.Skip != nil && f.Skip(path, isDir)
	}, nil
}

// unchanged reports whether a file or directory need not be read.
func (r *reader) unchanged(in tree, path string) bool {
	return r.flags.Unchanged != nil && r.flags.Unchanged(in.local(path))
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
		later:   func(rendering) (bool, error) { all = false; return true, nil },
	}
	return r.all(nil) == nil && all
}

// ownFile reports whether a file in a directory is one of the program itself, such as the
// configuration file, and not a manifest.
func ownFile(name string) bool { return strings.HasPrefix(name, ".espalier") }
