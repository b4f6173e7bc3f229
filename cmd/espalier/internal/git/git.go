// Package git reads Git repositories with the git program. It uses plumbing commands, whose
// output does not depend on the user's configuration, and changes nothing: no checkout, no
// index, no network. As with git status, files that may have changed pass through the filters
// that the configuration of the repository defines for them, such as that of Git LFS.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// ErrNoCommit is the error of a revision that does not exist.
var ErrNoCommit = errors.New("unknown revision")

// Repository is a Git repository. It is safe for concurrent use.
type Repository struct {
	// ctx ends the processes that outlive a call.
	ctx     context.Context
	program string
	env     []string
	// dir is the absolute path of the .git directory, or of the opened one while it is being
	// opened. root is that of the working tree.
	dir, root, prefix string
	shallow           bool

	mu sync.Mutex
	// idle is a process that returns objects, or nil.
	idle *batch
}

// Open opens the repository that contains a directory. The context ends its processes. current is the
// working directory of the command.
func Open(ctx context.Context, current workdir.Dir, dir string) (*Repository, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, errors.New("git is not installed, or not in PATH: it is needed to read revisions")
	}
	if dir, err = current.Abs(dir); err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", dir)
	}
	r := &Repository{ctx: ctx, program: program, dir: dir, env: environment(current, dir)}
	// Of a bare repository there is no top level, which is an error in a call of its own.
	out, err := r.run(ctx, nil, "rev-parse", "--is-inside-work-tree", "--is-shallow-repository", "--absolute-git-dir")
	if err != nil {
		return nil, notRepository(dir, err)
	}
	fields := strings.SplitN(string(out), "\n", 3)
	if len(fields) < 3 {
		return nil, fmt.Errorf("git rev-parse: unexpected output %q", out)
	}
	r.shallow = fields[1] == "true"
	gitDir := strings.TrimSuffix(fields[2], "\n")
	if fields[0] == "true" {
		if r.root, err = r.line(ctx, "rev-parse", "--show-toplevel"); err != nil {
			return nil, err
		}
		if r.prefix, err = prefix(r.root, dir); err != nil {
			return nil, err
		}
		r.env = append(r.env, "GIT_WORK_TREE="+r.root)
	}
	// From here on, the directory in which commands run does not matter.
	r.env = append(r.env, "GIT_DIR="+gitDir)
	r.dir = gitDir
	return r, nil
}

// prefix returns the path of a directory relative to the root, with a slash at the end unless it is
// empty.
func prefix(root, dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	relative, err := filepath.Rel(root, dir)
	if err != nil || relative == "." {
		return "", err
	}
	return filepath.ToSlash(relative) + "/", nil
}

// environment returns the environment of git. Variables that name a repository, as hooks have
// them, are about the working directory.
func environment(at workdir.Dir, dir string) []string {
	env := os.Environ()
	current, err := at.Get()
	if err == nil && current == dir {
		for i, v := range env {
			if index, ok := strings.CutPrefix(v, "GIT_INDEX_FILE="); ok && !filepath.IsAbs(index) {
				env[i] = "GIT_INDEX_FILE=" + filepath.Join(dir, index)
			}
		}
	} else {
		env = slices.DeleteFunc(env, func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return slices.Contains([]string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR",
				"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"}, name)
		})
	}
	return append(env,
		"LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1",
		// Older versions know only the second way to leave missing objects missing.
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none")
}

// notRepository returns the error of a directory without a repository that can be used.
func notRepository(dir string, err error) error {
	var failed *commandError
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case strings.Contains(failed.stderr, "dubious ownership"):
		if _, rest, ok := strings.Cut(failed.stderr, "repository at '"); ok {
			dir, _, _ = strings.Cut(rest, "'\n")
		}
		return fmt.Errorf("git does not trust the repository %s, which belongs to another user: "+
			"allow it with git config --global --add safe.directory %s", dir, dir)
	case strings.Contains(failed.stderr, "not a git repository"):
		return fmt.Errorf("%s is not in a Git repository", dir)
	}
	return failed
}

// Root returns the absolute path of the working tree, without symbolic links. It is empty if
// there is none: the repository is bare.
func (r *Repository) Root() string { return r.root }

// Prefix returns the path of the opened directory relative to the root. It ends with a slash
// unless it is empty.
func (r *Repository) Prefix() string { return r.prefix }

// Resolve returns the ID of the commit that a revision names.
func (r *Repository) Resolve(ctx context.Context, rev string) (commit string, err error) {
	o, err := r.object(ctx, rev, "^{commit}")
	if err != nil {
		return "", err
	}
	return o.id, o.Close()
}

// Short returns an abbreviation of the ID of a commit that stands for it. A tag or branch of the
// same name would take precedence over an abbreviated ID: it is not abbreviated then.
func (r *Repository) Short(ctx context.Context, commit string) (string, error) {
	short, err := r.line(ctx, "rev-parse", "--short=12", "--verify", commit)
	if err != nil {
		return "", err
	}
	if named, err := r.Resolve(ctx, short); err != nil || named != commit {
		return commit, nil
	}
	return short, nil
}

// MergeBase returns the ID of the best common ancestor of a revision and HEAD.
func (r *Repository) MergeBase(ctx context.Context, rev string) (commit string, err error) {
	base, err := r.Resolve(ctx, rev)
	if err != nil {
		return "", err
	}
	head, err := r.Resolve(ctx, "HEAD")
	if err != nil {
		return "", fmt.Errorf("HEAD has no commit: %w", err)
	}
	commit, err = r.line(ctx, "merge-base", base, head)
	var failed *commandError
	if errors.As(err, &failed) && failed.code == 1 {
		if r.shallow {
			return "", fmt.Errorf("no merge base of %s and HEAD: the history of this shallow clone does not reach back to it: %s", rev, deepen)
		}
		return "", fmt.Errorf("no merge base of %s and HEAD: their histories have no common commit", rev)
	}
	return commit, err
}

// Names returns the names of branches and tags.
func (r *Repository) Names(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, nil, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
	return strings.Fields(string(out)), err
}

// deepen is how to get the history that a shallow clone lacks.
const deepen = "run git fetch --unshallow, or set fetch-depth: 0 for actions/checkout"

// Close ends the processes of the repository. Objects can be read after it, by new processes.
func (r *Repository) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle != nil {
		r.idle.end()
		r.idle = nil
	}
	return nil
}

// command returns a command that runs git, ready to start.
func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	// A monitor of the file system is a process that git would leave behind.
	c := exec.CommandContext(ctx, r.program, append([]string{"-c", "core.fsmonitor=false"}, args...)...)
	c.Env = r.env
	if c.Dir = r.dir; r.root != "" {
		c.Dir = r.root
	}
	// Programs that git starts may have inherited its output.
	c.WaitDelay = time.Second
	return c
}

// commandError is the error of a git command that failed.
type commandError struct {
	command string
	code    int
	stderr  string
}

// Error returns what git has written.
func (e *commandError) Error() string {
	text := strings.TrimPrefix(strings.TrimSpace(e.stderr), "fatal: ")
	if text == "" {
		text = fmt.Sprintf("exit code %d", e.code)
	}
	return fmt.Sprintf("git %s: %s", e.command, strings.Join(strings.Split(text, "\n"), "; "))
}

// run runs git, and returns its standard output.
func (r *Repository) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	c := r.command(ctx, args...)
	var stdout bytes.Buffer
	var stderr head
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	err := c.Run()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.Bytes(), &commandError{args[0], exit.ExitCode(), string(stderr.text)}
	}
	return stdout.Bytes(), err
}

// line runs git, and returns its standard output without the newline at the end.
func (r *Repository) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, nil, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}

// head keeps the start of a text.
type head struct{ text []byte }

// Write appends text, up to a limit.
func (h *head) Write(p []byte) (int, error) {
	const most = 4 << 10
	h.text = append(h.text, p[:min(len(p), most-len(h.text))]...)
	return len(p), nil
}
