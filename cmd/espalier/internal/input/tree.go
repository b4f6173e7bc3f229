package input

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// tree is where files are: the file system, or a revision in a Git repository. Paths are those
// that findings have.
type tree interface {
	// stat describes a file or directory, and follows links. A size of -1 is unknown.
	stat(path string) (fs.FileInfo, error)
	// readDir returns the entries of a directory, sorted by name.
	readDir(path string) ([]fs.DirEntry, error)
	open(path string) (*content, error)
	// join returns the path of an entry of a directory.
	join(dir, name string) string
	// parents returns the directories above a file, the closest first.
	parents(path string) []string
	// real returns the path without links, as far as it can be resolved: it identifies a file.
	real(path string) string
	// contains reports whether a path is below a directory, without links.
	contains(dir, path string) bool
	// webhookPatches returns the cache of patches.
	webhookPatches() *webhookPatches
	// local returns the path that the file has, or would have, in the file system.
	local(path string) string
}

// content is the content of a file. If it is regular, its size is known, and it can be read again.
type content struct {
	io.ReadCloser
	regular bool
	size    int64
}

// skip skips the start of the content.
func (c *content) skip(n int64) error {
	if seeker, ok := c.ReadCloser.(io.Seeker); ok {
		_, err := seeker.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, c, n)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// osTree is the file system.
type osTree struct {
	// dir is the directory that relative paths are relative to.
	dir     workdir.Dir
	patches *webhookPatches
	// buffers has the files that are open in an editor. It may be nil.
	buffers *Buffers
}

func (osTree) join(dir, name string) string { return filepath.Join(dir, name) }
func (osTree) local(path string) string     { return path }

func (t osTree) stat(path string) (fs.FileInfo, error) {
	if text, ok := t.buffers.Text(path); ok {
		return bufferInfo{name: filepath.Base(path), size: int64(len(text))}, nil
	}
	return t.dir.Stat(path)
}

func (t osTree) readDir(path string) ([]fs.DirEntry, error) {
	entries, err := t.dir.ReadDir(path)
	return t.buffers.merge(path, entries), err
}

func (t osTree) webhookPatches() *webhookPatches { return t.patches }

func (t osTree) contains(dir, path string) bool {
	below, err := filepath.Rel(t.real(dir), t.real(path))
	return err == nil && filepath.IsLocal(below)
}

func (t osTree) open(path string) (*content, error) {
	if text, ok := t.buffers.Text(path); ok {
		// It may be different the next time, so it is not regular.
		return &content{ReadCloser: io.NopCloser(bytes.NewReader(text))}, nil
	}
	f, info, err := openFile(t.dir, path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return &content{ReadCloser: f}, nil
	}
	return &content{ReadCloser: f, regular: true, size: info.Size()}, nil
}

func (t osTree) parents(path string) (above []string) {
	abs, err := t.dir.Abs(path)
	if err != nil {
		return nil
	}
	for path = abs; path != filepath.Dir(path); {
		path = filepath.Dir(path)
		above = append(above, path)
	}
	return above
}

// real returns the absolute path without links.
func (t osTree) real(path string) string {
	if resolved, err := t.dir.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if abs, err := t.dir.Abs(path); err == nil {
		path = abs
	}
	return path
}
