package ui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"espalier.dev/api"
	"espalier.dev/api/manifest"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/internal/yamlx"
	"espalier.dev/web/protocol"
)

// The limits of what the page gets, a browser holds all of it, and of what is looked at for that.
const (
	maxFiles   = 500
	maxTotal   = protocol.MaxText
	maxEntries = 50_000
	maxRead    = 16 * maxTotal
	// maxNames is how many of the files with the same problem are named.
	maxNames = 100
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
	// dir is the directory that root is relative to.
	dir  workdir.Dir
	root string

	mu sync.Mutex
	// read has what was read last, by name: a file is read again when it has changed.
	read map[string]readFile
}

type readFile struct {
	size int64
	time time.Time
	file File
	// problem is why a part of the file was not read, or nil.
	problem error
}

// NewFiles returns the Files of a directory.
func NewFiles(dir workdir.Dir, root string) (*Files, error) {
	info, err := dir.Stat(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", root)
	}
	return &Files{dir: dir, root: root, read: map[string]readFile{}}, nil
}

// Read returns the files as they are now. The error is that of the context.
func (f *Files) Read(ctx context.Context) (*Found, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &reading{Files: f, found: &Found{Root: filepath.Base(f.root), Files: []File{}}, seen: map[string]readFile{}}
	if abs, err := f.dir.Abs(f.root); err == nil {
		r.found.Root = filepath.Base(abs)
	}
	// A link to the directory is followed, but links in it cannot lead out of it.
	root, err := os.OpenRoot(f.dir.Path(f.root))
	if err != nil {
		r.found.Problem = err.Error()
		return r.found, nil
	}
	defer root.Close()
	r.root = root
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.visit(name, entry, err)
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.problem(err)
	}
	f.read = r.seen
	if len(r.missing) > 0 {
		r.problem(fmt.Errorf("only %d files and %d MiB of manifests are shown, without %s", maxFiles, maxTotal>>20, list(r.missing)))
	}
	if r.first != nil {
		r.problem(r.first)
	}
	if len(r.broken) > 0 {
		r.problem(fmt.Errorf("more files have problems: %s", list(r.broken)))
	}
	return r.found, nil
}

// list returns names as a text, the first ones if there are many.
func list(names []string) string {
	text := strings.Join(names[:min(len(names), maxNames)], ", ")
	if n := len(names) - maxNames; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// reading reads the directory once.
type reading struct {
	*Files
	root  *os.Root
	found *Found
	seen  map[string]readFile
	// entries and bytes count what was looked at, and total the bytes of manifests.
	entries, bytes, total int64
	// first is the problem of the first file with problems, and broken are the names of the others.
	first  error
	broken []string
	// missing are the names of the files with manifests that are not shown.
	missing []string
}

// problem adds to what was left out.
func (r *reading) problem(err error) {
	if r.found.Problem != "" {
		r.found.Problem += "; "
	}
	r.found.Problem += err.Error()
}

// visit reads an entry of the directory if it is a manifest.
func (r *reading) visit(name string, entry fs.DirEntry, err error) error {
	if r.entries++; r.entries > maxEntries {
		r.problem(fmt.Errorf("only the first %d files and directories are looked at, none from %s on", maxEntries, name))
		return fs.SkipAll
	}
	switch {
	case err != nil:
		r.problem(err)
		return nil
	case entry.IsDir():
		// Dependencies have thousands of files, which are not the user's.
		if name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || entry.Name() == "vendor") {
			return fs.SkipDir
		}
		return nil
	case !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name))):
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return nil // it was removed
	}
	read := r.read[name]
	if read.size != info.Size() || !read.time.Equal(info.ModTime()) {
		read = readFile{size: info.Size(), time: info.ModTime()}
		read.file, read.problem = r.one(name)
	}
	r.seen[name] = read
	if read.problem != nil {
		if r.first != nil {
			r.broken = append(r.broken, name)
		} else {
			r.first = fmt.Errorf("%s: %w", name, read.problem)
		}
	}
	if r.bytes += min(info.Size(), maxTotal); r.bytes > maxRead {
		r.problem(fmt.Errorf("only the first %d MiB of the directory are looked at, nothing from %s on", maxRead>>20, name))
		return fs.SkipAll
	}
	size := int64(len(read.file.CRDs) + len(read.file.Objects))
	switch {
	case size == 0:
		return nil
	case len(r.found.Files) == maxFiles || r.total+size > maxTotal:
		r.missing = append(r.missing, name)
		return nil
	}
	r.total += size
	r.found.Files = append(r.found.Files, read.file)
	return nil
}

// one reads a file. One that cannot be read is empty, and read again when it changes. The error is the
// first problem with it.
func (r *reading) one(name string) (File, error) {
	out := File{Name: name}
	text, err := r.text(name)
	if err != nil {
		return out, err
	}
	var crds, objects bytes.Buffer
	reader := yamlx.NewBytesReader(text, yamlx.Options{MaxDocument: maxTotal})
	var problem error
	for {
		d, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if problem == nil {
				problem = err
			}
			var bad *yamlx.Error
			if errors.As(err, &bad) {
				continue
			}
			break
		}
		if d.Empty() {
			continue
		}
		to := &objects
		if src, err := d.JSON(); err == nil {
			id, err := api.Identify(src)
			if err != nil || id.APIVersion == "" || id.Kind == "" {
				continue // it is no manifest
			}
			items, _, err := manifest.Items(src, id)
			if err != nil {
				items = nil // what is wrong with the list is a finding
			}
			n := countCRDs(items)
			if api.IsDefinition(id) || n > 0 && n == len(items) {
				to = &crds
			} else if n > 0 {
				for _, item := range items {
					if countCRDs([][]byte{item}) > 0 {
						appendDocument(&crds, item)
					} else {
						appendDocument(&objects, item)
					}
				}
				continue
			}
		}
		appendDocument(to, bytes.TrimPrefix(d.Source(), []byte("---\n")))
	}
	out.CRDs, out.Objects = crds.String(), objects.String()
	return out, problem
}

// countCRDs returns how many of some objects in JSON are CRDs.
func countCRDs(objects [][]byte) (n int) {
	for _, src := range objects {
		if id, err := api.Identify(src); err == nil && api.IsDefinition(id) {
			n++
		}
	}
	return n
}

// appendDocument appends a document to a YAML stream.
func appendDocument(to *bytes.Buffer, source []byte) {
	if to.Len() > 0 {
		to.WriteString("---\n")
	}
	to.Write(source)
	if !bytes.HasSuffix(source, []byte("\n")) {
		to.WriteByte('\n')
	}
}

// text reads the text of a file, which may have been replaced since the directory was read: opening a
// pipe must not wait for its writer.
func (r *reading) text(name string) ([]byte, error) {
	file, err := r.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxTotal+1))
	if err == nil && len(text) > maxTotal {
		return nil, fmt.Errorf("larger than %d MiB", maxTotal>>20)
	}
	return text, err
}
