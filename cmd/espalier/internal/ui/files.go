package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"espalier.dev/api"
	"espalier.dev/internal/yamlx"
	"espalier.dev/web/protocol"
)

// The limits of what the page gets. A browser holds all of it.
const (
	maxFiles = 500
	maxTotal = protocol.MaxText
)

// Found are the files of a directory, with their CRDs and other objects.
type Found struct {
	Root  string `json:"root"`
	Files []File `json:"files"`
	// Problem is what was left out, or empty.
	Problem string `json:"problem"`
}

// File is a file with manifests.
type File struct {
	// Name is relative to the directory.
	Name string `json:"name"`
	// CRDs and Objects are the documents of the file.
	CRDs    string `json:"crds"`
	Objects string `json:"objects"`
}

// Files reads the manifests below a directory. It is safe for concurrent use.
type Files struct {
	root string

	mu sync.Mutex
	// read has what was read last, by path: a file is read again when it has changed.
	read map[string]readFile
}

type readFile struct {
	size int64
	time time.Time
	file File
}

// NewFiles returns the Files of a directory.
func NewFiles(root string) (*Files, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	return &Files{root: root, read: map[string]readFile{}}, nil
}

// Read returns the files as they are now.
func (f *Files) Read() *Found {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := &Found{Root: filepath.Base(f.root), Files: []File{}}
	if abs, err := filepath.Abs(f.root); err == nil {
		found.Root = filepath.Base(abs)
	}
	seen := map[string]readFile{}
	total := 0
	err := filepath.WalkDir(f.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			found.Problem = err.Error()
			return nil
		case entry.IsDir():
			if path != f.root && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			return nil
		case len(seen) == maxFiles:
			found.Problem = fmt.Sprintf("only the first %d files of the directory are shown", maxFiles)
			return fs.SkipAll
		}
		info, err := entry.Info()
		if err != nil {
			return nil // it was removed
		}
		if total += int(min(info.Size(), maxTotal)); total > maxTotal {
			found.Problem = fmt.Sprintf("only the first %d MiB of the directory are shown", maxTotal>>20)
			return fs.SkipAll
		}
		r := f.read[path]
		if r.size != info.Size() || !r.time.Equal(info.ModTime()) {
			r = readFile{size: info.Size(), time: info.ModTime(), file: f.one(path)}
		}
		seen[path] = r
		if r.file.CRDs != "" || r.file.Objects != "" {
			found.Files = append(found.Files, r.file)
		}
		return nil
	})
	if err != nil {
		found.Problem = err.Error()
	}
	f.read = seen
	return found
}

// one reads a file. One that cannot be read is empty, and read again when it changes.
func (f *Files) one(path string) File {
	name, err := filepath.Rel(f.root, path)
	if err != nil {
		name = path
	}
	out := File{Name: filepath.ToSlash(name)}
	text, err := os.ReadFile(path)
	if err != nil {
		return out
	}
	var crds, objects bytes.Buffer
	r := yamlx.NewBytesReader(text, yamlx.Options{MaxDocument: maxTotal})
	for {
		d, err := r.Next()
		var bad *yamlx.Error
		if errors.Is(err, io.EOF) || err != nil && !errors.As(err, &bad) {
			break
		}
		if err != nil || d.Empty() {
			continue
		}
		to := &objects
		if src, err := d.JSON(); err == nil {
			id, err := api.Identify(src)
			switch {
			case err != nil || id.APIVersion == "" || id.Kind == "":
				continue // it is no manifest
			case api.IsDefinition(id):
				to = &crds
			}
		}
		source := bytes.TrimPrefix(d.Source(), []byte("---\n"))
		if to.Len() > 0 {
			to.WriteString("---\n")
		}
		to.Write(source)
		if !bytes.HasSuffix(source, []byte("\n")) {
			to.WriteByte('\n')
		}
	}
	out.CRDs, out.Objects = crds.String(), objects.String()
	return out
}
