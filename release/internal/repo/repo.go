// Package repo reads the Git repository that is released, with the git program.
package repo

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrNoGit is returned if git is not installed.
var ErrNoGit = errors.New("git not found in PATH: install it, the release is built from a commit")

// A Repository is a Git repository with a working tree.
type Repository struct{ dir string }

// A Commit is a commit of a repository.
type Commit struct {
	Hash string
	Time time.Time
}

// Open returns the repository whose working tree contains dir.
func Open(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{dir}
	top, err := r.git(ctx, "rev-parse", "--show-toplevel")
	if errors.Is(err, ErrNoGit) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s is in no Git repository: %w", dir, err)
	}
	return &Repository{top}, nil
}

// Dir returns the root of the working tree.
func (r *Repository) Dir() string { return r.dir }

// Head returns the commit that is checked out.
func (r *Repository) Head(ctx context.Context) (Commit, error) {
	out, err := r.git(ctx, "show", "--no-patch", "--no-show-signature", "--format=%H %ct", "HEAD")
	if err != nil {
		return Commit{}, fmt.Errorf("read the commit at HEAD: %w", err)
	}
	hash, seconds, _ := strings.Cut(out, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return Commit{}, fmt.Errorf("read the commit at HEAD: unexpected output of git: %q", out)
	}
	return Commit{hash, time.Unix(unix, 0).UTC()}, nil
}

// Changes returns the paths that differ from HEAD, including untracked files that are not ignored.
func (r *Repository) Changes(ctx context.Context) ([]string, error) {
	out, err := r.git(ctx, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return nil, fmt.Errorf("compare the working tree with HEAD: %w", err)
	}
	if out == "" {
		return nil, nil
	}
	return strings.Split(out, "\n"), nil
}

// Tag returns the commit that a tag points to. It returns "" if there is no such tag.
func (r *Repository) Tag(ctx context.Context, name string) (string, error) {
	out, err := r.git(ctx, "for-each-ref", "--format=%(objectname) %(*objectname)", "refs/tags/"+name)
	if err != nil {
		return "", fmt.Errorf("look up tag %s: %w", name, err)
	}
	fields := strings.Fields(out)
	if len(fields) == 0 {
		return "", nil
	}
	return fields[len(fields)-1], nil // an annotated tag has an object of its own
}

// Export writes the files of a commit to dir, which must exist. Files that Git ignores or does not
// know are not among them, whatever the working tree contains.
func (r *Repository) Export(ctx context.Context, commit, dir string) (err error) {
	c := r.command(ctx, "-c", "tar.umask=0022", "-c", "core.autocrlf=false", "archive", "--format=tar", commit)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	extractErr := extract(out, dir)
	if extractErr != nil {
		_, _ = io.Copy(io.Discard, out)
	}
	if err := c.Wait(); err != nil {
		return fmt.Errorf("export %s: %w: %s", commit, err, strings.TrimSpace(stderr.String()))
	}
	return extractErr
}

func extract(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if err == io.EOF {
			// The rest is padding, which git still writes.
			_, err := io.Copy(io.Discard, r)
			return err
		}
		if err != nil {
			return err
		}
		name := filepath.FromSlash(strings.TrimSuffix(h.Name, "/"))
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
		case tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case tar.TypeReg:
			err = extractFile(root, name, h, t)
		case tar.TypeSymlink:
			if err = root.MkdirAll(filepath.Dir(name), 0o755); err == nil {
				err = root.Symlink(h.Linkname, name)
			}
		default:
			err = fmt.Errorf("unexpected type %q of %s", h.Typeflag, h.Name)
		}
		if err != nil {
			return err
		}
	}
}

func extractFile(root *os.Root, name string, h *tar.Header, r io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(h.Mode).Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0")
	return c
}

// git runs git and returns its output without the last line break.
func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.command(ctx, args...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", ErrNoGit
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return strings.TrimRight(string(out), "\n"), err
}
