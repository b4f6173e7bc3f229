package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
)

// Tree is the files of a revision. Paths have slashes and are relative to the root of the
// repository, which is the empty path. A Tree is safe for concurrent use.
type Tree struct {
	repository *Repository
	rev, id    string

	mu sync.Mutex
	// directories holds the directories that were read last, by ID, with their entries in total.
	directories map[string][]Entry
	entries     int
}

// Entry is a file or directory of a tree.
type Entry struct {
	Name string
	// Mode is the type of the file. That of a submodule is [Submodule].
	Mode fs.FileMode
	id   string
}

// Submodule is the mode of a submodule, whose files are in another repository.
const Submodule = fs.ModeIrregular

// Tree returns the files of a revision.
func (r *Repository) Tree(ctx context.Context, rev string) (*Tree, error) {
	o, err := r.object(ctx, rev, "^{tree}")
	if err != nil {
		return nil, err
	}
	return &Tree{repository: r, rev: rev, id: o.id, directories: map[string][]Entry{}}, o.Close()
}

// Rev returns the revision as it was named.
func (t *Tree) Rev() string { return t.rev }

// Repository returns the repository of the tree.
func (t *Tree) Repository() *Repository { return t.repository }

// ReadDir returns the entries of a directory, sorted by name. It follows links.
func (t *Tree) ReadDir(ctx context.Context, name string) ([]Entry, error) {
	e, _, err := t.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, wrap(name, errors.New("not a directory"))
	}
	entries, err := t.directory(ctx, e.id)
	return slices.Clone(entries), wrap(name, err)
}

// Open returns the content of a file and its size. It follows links. The content must be closed.
func (t *Tree) Open(ctx context.Context, name string) (content io.ReadCloser, size int64, err error) {
	e, _, err := t.Find(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case e.Mode == Submodule:
		return nil, 0, wrap(name, errors.New("it is a submodule: its files are in another repository"))
	case !e.Mode.IsRegular():
		return nil, 0, wrap(name, errors.New("it is a directory"))
	}
	o, err := t.object(ctx, e.id)
	if err != nil {
		return nil, 0, wrap(name, err)
	}
	return o.ReadCloser, o.size, nil
}

// maxLinks is the number of links that are followed to find a file.
const maxLinks = 40

// Find returns the entry of a path, and its path without links.
func (t *Tree) Find(ctx context.Context, name string) (e Entry, real string, err error) {
	fail := func(err error) (Entry, string, error) { return Entry{}, "", wrap(name, err) }
	// above are the directories from the root to the current one.
	type level struct {
		name string
		Entry
	}
	above := []level{{Entry: Entry{Mode: fs.ModeDir, id: t.id}}}
	links := 0
	rest := strings.Split(name, "/")
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		current := above[len(above)-1]
		switch {
		case next == "" || next == ".":
			continue
		case next == "..":
			if len(above) == 1 {
				return fail(errors.New("it is outside of the repository"))
			}
			above = above[:len(above)-1]
			continue
		case current.Mode == Submodule:
			return fail(fmt.Errorf("%s is a submodule: its files are in another repository", current.name))
		case !current.Mode.IsDir():
			return fail(notExist{t.rev})
		}
		entries, err := t.directory(ctx, current.id)
		if err != nil {
			return fail(err)
		}
		i, ok := slices.BinarySearchFunc(entries, next, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		if !ok {
			return fail(notExist{t.rev})
		}
		e := entries[i]
		if e.Mode&fs.ModeSymlink == 0 {
			above = append(above, level{path.Join(current.name, next), e})
			continue
		}
		if links++; links > maxLinks {
			return fail(errors.New("too many symbolic links"))
		}
		target, err := t.link(ctx, e)
		if err != nil {
			return fail(err)
		}
		if path.IsAbs(target) {
			return fail(fmt.Errorf("a symbolic link leads out of the repository, to %s", target))
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	found := above[len(above)-1]
	return found.Entry, found.name, nil
}

// link returns the target of a link.
func (t *Tree) link(ctx context.Context, e Entry) (string, error) {
	o, err := t.object(ctx, e.id)
	if err != nil {
		return "", err
	}
	defer o.Close()
	const longest = 4 << 10 // of a path, in Linux
	if o.size > longest {
		return "", errors.New("the target of a symbolic link is too long")
	}
	text, err := io.ReadAll(o)
	return string(text), err
}

// object returns an object of the tree. That it is missing is a fault of the clone.
func (t *Tree) object(ctx context.Context, id string) (*object, error) {
	o, err := t.repository.read(ctx, id)
	var failed *commandError
	if errors.Is(err, errMissing) || errors.As(err, &failed) && strings.Contains(failed.stderr, "promisor") {
		if partial := t.repository.partial(ctx); partial {
			return nil, errors.New("its content is not in this partial clone: " +
				"fetch it with git fetch --refetch --no-filter, or clone without --filter")
		}
		return nil, fmt.Errorf("the object %s is missing: the repository is damaged, as git fsck reports", id)
	}
	return o, err
}

// partial reports whether the repository is a partial clone.
func (r *Repository) partial(ctx context.Context) bool {
	_, err := r.line(ctx, "config", "--get-regexp", `^(extensions\.partialclone|remote\..*\.promisor)$`)
	return err == nil
}

// directory returns the entries of the directory with an ID.
func (t *Tree) directory(ctx context.Context, id string) ([]Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if entries, ok := t.directories[id]; ok {
		return entries, nil
	}
	o, err := t.object(ctx, id)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	text, err := io.ReadAll(o)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(text, len(id)/2)
	if err != nil {
		return nil, err
	}
	const most = 1 << 16
	if t.entries += len(entries); t.entries > most {
		clear(t.directories)
		t.entries = len(entries)
	}
	t.directories[id] = entries
	return entries, nil
}

// parseTree parses a tree object: entries of a mode in octal digits, a space, a name, a zero byte
// and an ID of the given size.
func parseTree(text []byte, size int) (entries []Entry, err error) {
	for len(text) > 0 {
		mode, rest, ok := bytes.Cut(text, []byte{' '})
		name, rest, terminated := bytes.Cut(rest, []byte{0})
		if !ok || !terminated || len(rest) < size {
			return nil, errors.New("a tree object is malformed")
		}
		e := Entry{Name: string(name), id: hex.EncodeToString(rest[:size])}
		switch string(mode) {
		case "40000", "040000":
			e.Mode = fs.ModeDir | 0o755
		case "120000":
			e.Mode = fs.ModeSymlink | 0o777
		case "160000":
			e.Mode = Submodule
		case "100755":
			e.Mode = 0o755
		default:
			e.Mode = 0o644
		}
		entries = append(entries, e)
		text = rest[size:]
	}
	// Git sorts directories as if their names ended with a slash.
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// notExist is the error of a path that is not in a revision.
type notExist struct{ rev string }

// Error returns the message.
func (e notExist) Error() string { return "no such file or directory in " + e.rev }

// Is reports that the error is [fs.ErrNotExist].
func (e notExist) Is(target error) bool { return target == fs.ErrNotExist }

// wrap adds a path to an error.
func wrap(name string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &fs.PathError{Op: "open", Path: name, Err: err}
}
