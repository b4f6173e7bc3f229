package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"espalier.dev/cmd/espalier/internal/git"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// gitScheme is the start of a path in a revision: git:REV:PATH.
const gitScheme = "git:"

// IsGit reports whether a path names a file or directory of a revision in a Git repository, and
// not one of the file system.
func IsGit(path string) bool { return strings.HasPrefix(path, gitScheme) }

// GitPath returns the path of a file or directory of a revision, for [Flags.Paths].
func GitPath(rev, name string) string { return gitScheme + rev + ":" + name }

// ParseGit returns the revision and the path that git:REV:PATH or git://REV?path=PATH names. The
// path is relative to the root of the repository unless it starts with ./ or ../.
func ParseGit(name string) (rev, file string, err error) {
	rest := strings.TrimPrefix(name, gitScheme)
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		var query string
		rev, query, _ = strings.Cut(after, "?")
		values, err := url.ParseQuery(query)
		if err != nil || rev == "" {
			return "", "", errors.New("must be git:REV:PATH or git://REV?path=PATH")
		}
		return strings.TrimSuffix(rev, "/"), values.Get("path"), nil
	}
	// Searches such as HEAD^{/fix: typo} can have colons.
	depth := 0
	for i, c := range rest {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ':':
			if depth <= 0 {
				if i == 0 {
					return "", "", errors.New("a revision is required: git:REV:PATH")
				}
				return rest[:i], rest[i+1:], nil
			}
		}
	}
	return "", "", fmt.Errorf("must be git:REV:PATH; git:%s: is the whole tree, and ./%s a file of this name", rest, name)
}

// Repositories are the Git repositories that a run of the program reads. They are safe for
// concurrent use.
type Repositories struct {
	ctx    context.Context
	mu     sync.Mutex
	opened map[string]*git.Repository
	trees  map[string]*gitTree
	// files are those of the file system.
	files osTree
}

// NewRepositories returns repositories whose processes the context ends. It must not end before
// the objects of the input are not needed anymore, some of which are read again. Relative paths are
// relative to dir.
func NewRepositories(ctx context.Context, dir workdir.Dir) *Repositories {
	return &Repositories{ctx: ctx, opened: map[string]*git.Repository{}, trees: map[string]*gitTree{},
		files: osTree{dir: dir, patches: new(webhookPatches)}}
}

// WithBuffers returns other repositories, which read files from buffers before the file system.
func (r *Repositories) WithBuffers(b *Buffers) *Repositories {
	with := NewRepositories(r.ctx, r.files.dir)
	with.files.buffers = b
	return with
}

// Dir returns the directory that relative paths are relative to.
func (r *Repositories) Dir() workdir.Dir { return r.files.dir }

// Open returns the repository that contains a directory. It must not be closed: Close does that.
func (r *Repositories) Open(dir string) (*git.Repository, error) {
	dir, err := r.files.dir.Abs(dir)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open(dir)
}

func (r *Repositories) open(dir string) (*git.Repository, error) {
	if found := r.opened[dir]; found != nil {
		return found, nil
	}
	opened, err := git.Open(r.ctx, r.files.dir, dir)
	if err != nil {
		return nil, err
	}
	r.opened[dir] = opened
	return opened, nil
}

// find returns the tree that a path is in, in the repository that contains dir, and the path as
// findings name it.
func (r *Repositories) find(dir, name string) (*gitTree, string, error) {
	rev, file, err := ParseGit(name)
	if err != nil {
		return nil, "", err
	}
	dir, err = r.files.dir.Abs(dir)
	if err != nil {
		return nil, "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	repository, err := r.open(dir)
	if err != nil {
		return nil, "", err
	}
	if file, err = below(repository, file); err != nil {
		return nil, "", err
	}
	found := r.trees[dir+"\x00"+rev]
	if found == nil {
		files, err := repository.Tree(r.ctx, rev)
		if err != nil {
			return nil, "", err
		}
		found = &gitTree{ctx: r.ctx, prefix: GitPath(rev, ""), files: files}
		r.trees[dir+"\x00"+rev] = found
	}
	return found, found.prefix + file, nil
}

// tree returns the tree of a path of the file system or of a revision, and the path as findings
// name it.
func (r *Repositories) tree(name string) (tree, string, error) {
	if !IsGit(name) {
		return r.files, name, nil
	}
	return r.find("", name)
}

// OpenFile opens a file for reading that may be one of a revision. Like [Open], it does not block.
func (r *Repositories) OpenFile(name string) (io.ReadCloser, error) {
	in, name, err := r.tree(name)
	if err != nil {
		return nil, err
	}
	return in.open(name)
}

// ReadFile reads a file that may be one of a revision. Like [Open], it does not block.
func (r *Repositories) ReadFile(name string) ([]byte, error) {
	f, err := r.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Stat describes a file or directory that may be one of a revision. The size of the latter is -1.
func (r *Repositories) Stat(name string) (fs.FileInfo, error) {
	in, name, err := r.tree(name)
	if err != nil {
		return nil, err
	}
	return in.stat(name)
}

// Local returns the path in the working tree of a file of a revision, and other paths as they are.
func (r *Repositories) Local(name string) string {
	in, path, err := r.tree(name)
	if err != nil {
		return name // reading the file reports it
	}
	return in.local(path)
}

// Beside returns the path of a file that another file names, relative to that file.
func Beside(file, name string) string {
	if filepath.IsAbs(name) || file == Stdin {
		return name
	}
	if IsGit(file) && !IsGit(name) {
		if rev, at, err := ParseGit(file); err == nil {
			return GitPath(rev, path.Join(path.Dir(at), filepath.ToSlash(name)))
		}
	}
	return filepath.Join(filepath.Dir(file), name)
}

// below returns a path relative to the root of the repository.
func below(r *git.Repository, file string) (string, error) {
	if file == "." || file == ".." || strings.HasPrefix(file, "./") || strings.HasPrefix(file, "../") {
		if r.Root() == "" {
			return "", errors.New("a path that starts with ./ needs a working tree: name it from the root of the repository")
		}
		file = r.Prefix() + file
	}
	if path.IsAbs(file) {
		return "", errors.New("the path must be relative to the root of the repository")
	}
	if file = path.Clean(file); file == "." {
		file = ""
	}
	if file == ".." || strings.HasPrefix(file, "../") {
		return "", errors.New("the path is outside of the repository")
	}
	return file, nil
}

// Close ends the processes of all repositories. They can be used again.
func (r *Repositories) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, opened := range r.opened {
		err = errors.Join(err, opened.Close())
	}
	return err
}

// gitTree is a revision.
type gitTree struct {
	ctx context.Context
	// prefix is git:REV:, with which all paths start.
	prefix string
	files  *git.Tree
	// patches are those of this revision.
	patches webhookPatches
}

func (t *gitTree) name(path string) string { return strings.TrimPrefix(path, t.prefix) }

func (t *gitTree) stat(path string) (fs.FileInfo, error) {
	e, _, err := t.files.Find(t.ctx, t.name(path))
	if err != nil {
		return nil, err
	}
	return gitEntry{e}, nil
}

func (t *gitTree) readDir(path string) ([]fs.DirEntry, error) {
	entries, err := t.files.ReadDir(t.ctx, t.name(path))
	list := make([]fs.DirEntry, 0, len(entries))
	for _, e := range entries {
		// The files of submodules are in other repositories.
		if e.Mode != git.Submodule {
			list = append(list, gitEntry{e})
		}
	}
	return list, err
}

func (t *gitTree) open(path string) (*content, error) {
	opened, size, err := t.files.Open(t.ctx, t.name(path))
	if err != nil {
		return nil, err
	}
	return &content{opened, true, size}, nil
}

func (t *gitTree) join(dir, name string) string { return t.prefix + path.Join(t.name(dir), name) }

func (t *gitTree) parents(file string) (above []string) {
	for name := t.name(file); name != ""; {
		if name = path.Dir(name); name == "." {
			name = ""
		}
		above = append(above, t.prefix+name)
	}
	return above
}

func (t *gitTree) real(path string) string {
	if _, real, err := t.files.Find(t.ctx, t.name(path)); err == nil {
		return t.prefix + real
	}
	return path
}

// contains returns true: a revision has no files outside of its root.
func (t *gitTree) contains(string, string) bool { return true }

func (t *gitTree) webhookPatches() *webhookPatches { return &t.patches }

func (t *gitTree) local(path string) string {
	return filepath.Join(t.files.Repository().Root(), filepath.FromSlash(t.name(path)))
}

// gitEntry describes a file or directory of a revision.
type gitEntry struct{ git.Entry }

func (e gitEntry) Name() string               { return e.Entry.Name }
func (e gitEntry) Size() int64                { return -1 }
func (e gitEntry) Mode() fs.FileMode          { return e.Entry.Mode }
func (e gitEntry) ModTime() time.Time         { return time.Time{} }
func (e gitEntry) IsDir() bool                { return e.Entry.Mode.IsDir() }
func (e gitEntry) Sys() any                   { return nil }
func (e gitEntry) Type() fs.FileMode          { return e.Entry.Mode.Type() }
func (e gitEntry) Info() (fs.FileInfo, error) { return e, nil }
