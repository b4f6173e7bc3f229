package input

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"espalier.dev/cmd/espalier/internal/helm"
)

// archiveTree is a packaged chart, which is in memory.
type archiveTree struct {
	// name is the path of the archive, with which all paths start.
	name string
	// files are the files by their paths below the directory of the chart. Directories have a nil
	// text.
	files   map[string][]byte
	below   map[string][]fs.DirEntry
	patches webhookPatches
	where   string
}

// maxArchiveName is the maximum length of a name in an archive: file systems have no longer ones.
const maxArchiveName = 4096

// errNoChart is returned for an archive that is not a chart.
var errNoChart = errors.New("the archive is not a Helm chart: it has no NAME/" + helm.ChartFile)

// readArchive reads a packaged chart. The path in the file system is where.
func readArchive(ctx context.Context, name, where string, in io.Reader) (*archiveTree, error) {
	compressed, err := gzip.NewReader(in)
	if err != nil {
		return nil, errNoChart
	}
	t := &archiveTree{name: name, where: where, files: map[string][]byte{"": nil}, below: map[string][]fs.DirEntry{}}
	left := int64(maxCopiedBytes)
	for archive := tar.NewReader(compressed); ; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		if len(header.Name) > maxArchiveName {
			return nil, fmt.Errorf("the archive has a file whose name is longer than %d bytes", maxArchiveName)
		}
		// All files are in a directory, whose name does not matter.
		_, file, ok := strings.Cut(path.Clean(strings.ReplaceAll(header.Name, `\`, "/")), "/")
		if !ok || header.Typeflag != tar.TypeReg || !fs.ValidPath(file) || file == "." {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(archive, left+1))
		if err != nil {
			return nil, fmt.Errorf("the archive cannot be read: %w", err)
		}
		if left -= int64(len(text)); left < 0 {
			return nil, fmt.Errorf("the archive is larger than %d MiB", maxCopiedBytes>>20)
		}
		if len(t.files) > maxCopiedFiles {
			return nil, fmt.Errorf("the archive has more than %d files", maxCopiedFiles)
		}
		t.add(file, append([]byte{}, text...))
	}
	if _, ok := t.files[helm.ChartFile]; !ok {
		return nil, errNoChart
	}
	for _, entries := range t.below {
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	}
	return t, nil
}

// add adds a file and the directories above it, unless one of them is a file.
func (t *archiveTree) add(file string, text []byte) {
	if _, ok := t.files[file]; ok {
		return
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if t.files[dir] != nil {
			return
		}
	}
	for {
		t.files[file] = text
		dir := path.Dir(file)
		if dir == "." {
			dir = ""
		}
		t.below[dir] = append(t.below[dir], archiveEntry{path.Base(file), int64(len(text)), text == nil})
		if _, ok := t.files[dir]; ok {
			return
		}
		file, text = dir, nil
	}
}

// file returns the text of a file, which is nil for a directory.
func (t *archiveTree) file(op, name string) (inner string, text []byte, err error) {
	inner = strings.TrimPrefix(strings.TrimPrefix(name, t.name), "/")
	text, ok := t.files[inner]
	if !ok {
		return "", nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return inner, text, nil
}

func (t *archiveTree) stat(name string) (fs.FileInfo, error) {
	inner, text, err := t.file("stat", name)
	if err != nil {
		return nil, err
	}
	return archiveEntry{path.Base(inner), int64(len(text)), text == nil}, nil
}

func (t *archiveTree) readDir(name string) ([]fs.DirEntry, error) {
	inner, _, err := t.file("open", name)
	return t.below[inner], err
}

func (t *archiveTree) open(name string) (*content, error) {
	_, text, err := t.file("open", name)
	if err != nil {
		return nil, err
	}
	return &content{io.NopCloser(bytes.NewReader(text)), true, int64(len(text))}, nil
}

func (t *archiveTree) join(dir, name string) string { return dir + "/" + name }

func (t *archiveTree) parents(name string) (above []string) {
	for name != t.name && strings.Contains(name, "/") {
		name = name[:strings.LastIndexByte(name, '/')]
		above = append(above, name)
	}
	return above
}

func (t *archiveTree) real(path string) string         { return path }
func (t *archiveTree) contains(string, string) bool    { return true }
func (t *archiveTree) webhookPatches() *webhookPatches { return &t.patches }

// local returns the path of the archive.
func (t *archiveTree) local(string) string { return t.where }

// archiveEntry describes a file or directory of an archive.
type archiveEntry struct {
	name  string
	size  int64
	isDir bool
}

func (e archiveEntry) Name() string { return e.name }
func (e archiveEntry) Size() int64  { return e.size }
func (e archiveEntry) Mode() fs.FileMode {
	if e.isDir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
func (e archiveEntry) ModTime() time.Time         { return time.Time{} }
func (e archiveEntry) IsDir() bool                { return e.isDir }
func (e archiveEntry) Sys() any                   { return nil }
func (e archiveEntry) Type() fs.FileMode          { return e.Mode().Type() }
func (e archiveEntry) Info() (fs.FileInfo, error) { return e, nil }
