package input

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Buffers are files that are open in an editor, by absolute path. Their text takes precedence over
// that in the file system, which may not have the file at all. Buffers are safe for concurrent use.
type Buffers struct {
	mu     sync.RWMutex
	byPath map[string][]byte
}

// Set sets the text of a file. It must not be modified afterwards.
func (b *Buffers) Set(path string, text []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byPath == nil {
		b.byPath = map[string][]byte{}
	}
	b.byPath[filepath.Clean(path)] = text
}

// Remove removes a file: its text is that in the file system.
func (b *Buffers) Remove(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byPath, filepath.Clean(path))
}

// Text returns the text of a file, if it is open.
func (b *Buffers) Text(path string) ([]byte, bool) {
	if b == nil || !filepath.IsAbs(path) {
		return nil, false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	text, ok := b.byPath[filepath.Clean(path)]
	return text, ok
}

// Snapshot returns the buffers as they are now.
func (b *Buffers) Snapshot() *Buffers {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return &Buffers{byPath: maps.Clone(b.byPath)}
}

// merge adds the files of a directory that only buffers have to its entries.
func (b *Buffers) merge(dir string, entries []fs.DirEntry) []fs.DirEntry {
	if b == nil || !filepath.IsAbs(dir) {
		return entries
	}
	dir = filepath.Clean(dir)
	b.mu.RLock()
	defer b.mu.RUnlock()
	byName := func(e fs.DirEntry, name string) int { return strings.Compare(e.Name(), name) }
	for path, text := range b.byPath {
		if filepath.Dir(path) != dir {
			continue
		}
		name := filepath.Base(path)
		if i, found := slices.BinarySearchFunc(entries, name, byName); !found {
			entries = slices.Insert(entries, i, fs.FileInfoToDirEntry(bufferInfo{name: name, size: int64(len(text))}))
		}
	}
	return entries
}

// bufferInfo describes a buffer.
type bufferInfo struct {
	name string
	size int64
}

func (i bufferInfo) Name() string     { return i.name }
func (i bufferInfo) Size() int64      { return i.size }
func (bufferInfo) Mode() fs.FileMode  { return 0o600 }
func (bufferInfo) ModTime() time.Time { return time.Time{} }
func (bufferInfo) IsDir() bool        { return false }
func (bufferInfo) Sys() any           { return nil }
