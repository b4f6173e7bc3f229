package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"

	"github.com/spf13/cobra"

	"espalier.dev/cmd/espalier/internal/git"
	"espalier.dev/cmd/espalier/internal/input"
	"espalier.dev/cmd/espalier/internal/workdir"
)

// addBaseFlag adds --base.
func addBaseFlag(c *cobra.Command, a *app, rev *string, what string) {
	c.Flags().StringVar(rev, "base", "", "`REV` such as origin/main: "+what+" the merge base of it and HEAD")
	groupFlags(c.Flags(), inputFlags, "base")
	_ = c.RegisterFlagCompletionFunc("base", func(c *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
		repository, err := a.repositories.Open(".")
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, _ := repository.Names(c.Context()) // as far as they can be read
		return withPrefix(start, names), cobra.ShellCompDirectiveNoFileComp
	})
}

// baseRevision is the revision that the working tree is compared with: the merge base of HEAD and
// the revision of --base.
type baseRevision struct {
	// dir is the working directory of the command.
	dir        workdir.Dir
	repository *git.Repository
	// rev is the abbreviated ID of the commit, for paths.
	rev string
	// old and new are the files that differ.
	old, new changedFiles
}

// openBase returns the merge base of a revision and HEAD in the repository that contains the paths.
func (a *app) openBase(ctx context.Context, rev string, paths []string) (*baseRevision, error) {
	for _, name := range paths {
		if name == "-" || input.IsGit(name) {
			return nil, fmt.Errorf("--base compares files of the working tree: %s is none", name)
		}
	}
	dir := "."
	if len(paths) > 0 {
		dir = a.existingDirectory(paths[0])
	}
	repository, err := a.repositories.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	if repository.Root() == "" {
		return nil, errors.New("--base: the repository has no working tree")
	}
	commit, err := repository.MergeBase(ctx, rev)
	if err != nil {
		return nil, fmt.Errorf("--base=%s: %w", rev, err)
	}
	b := &baseRevision{dir: a.dir, repository: repository}
	if b.rev, err = repository.Short(ctx, commit); err != nil {
		return nil, fmt.Errorf("--base=%s: %w", rev, err)
	}
	changes, err := repository.Changes(ctx, commit)
	if err != nil {
		return nil, fmt.Errorf("--base=%s: %w", rev, err)
	}
	b.old, b.new = newChangedFiles(), newChangedFiles()
	for _, c := range changes {
		b.old.add(c.Old)
		b.new.add(c.New)
	}
	return b, nil
}

// existingDirectory returns the closest directory of a path that exists.
func (a *app) existingDirectory(name string) string {
	for {
		if info, err := a.dir.Stat(name); err == nil && info.IsDir() {
			return name
		}
		parent := filepath.Dir(name)
		if parent == name {
			return "."
		}
		name = parent
	}
}

// sides returns the flags that read the files before and after the change. They skip files that
// have not changed. A side has no paths if none of the named ones existed.
func (b *baseRevision) sides(ctx context.Context, flags input.Flags) (old, new input.Flags, err error) {
	tree, err := b.repository.Tree(ctx, b.rev)
	if err != nil {
		return old, new, err
	}
	old, new = flags.With(), flags.With()
	old.GitDir = b.repository.Root()
	for _, name := range flags.Paths {
		relative, ok := b.relative(name)
		if !ok {
			return old, new, fmt.Errorf("%s is outside of the repository %s", name, b.repository.Root())
		}
		_, _, missing := tree.Find(ctx, relative)
		if missing == nil {
			old.Paths = append(old.Paths, input.GitPath(b.rev, relative))
		}
		if _, err := b.dir.Lstat(name); err == nil {
			new.Paths = append(new.Paths, name)
		} else if missing != nil {
			return old, new, fmt.Errorf("%s: no such file or directory, neither in the working tree nor in the merge base %s", name, b.rev)
		}
	}
	old.Unchanged = func(name string) bool { return !b.has(b.old, name) }
	new.Unchanged = func(name string) bool { return !b.has(b.new, name) }
	return old, new, nil
}

// has reports whether a file has changed, or one in a directory, or one that a link leads to.
func (b *baseRevision) has(changed changedFiles, name string) bool {
	if relative, ok := b.relative(name); ok && changed.has(relative) {
		return true
	}
	resolved, err := b.dir.EvalSymlinks(name)
	if err != nil || resolved == name {
		return false
	}
	relative, ok := b.relative(resolved)
	return ok && changed.has(relative)
}

// relative returns a path relative to the root of the repository, with slashes, and whether it is
// in the repository. Links in the repository are kept.
func (b *baseRevision) relative(name string) (string, bool) {
	name, err := b.dir.Abs(name)
	if err != nil {
		return "", false
	}
	root := b.repository.Root()
	if !isBelow(name, root) {
		// The repository may be below a link.
		dir, rest := physical(root, filepath.Dir(name))
		if name = filepath.Join(dir, rest, filepath.Base(name)); !isBelow(name, root) {
			if name, err = b.dir.EvalSymlinks(name); err != nil || !isBelow(name, root) {
				return "", false
			}
		}
	}
	relative, err := filepath.Rel(root, name)
	if relative == "." {
		relative = ""
	}
	return filepath.ToSlash(relative), err == nil
}

// changedFiles are the files that differ on one side, and the directories that contain them.
type changedFiles struct{ files, directories map[string]bool }

func newChangedFiles() changedFiles {
	return changedFiles{map[string]bool{}, map[string]bool{"": true}}
}

// add adds a file, unless it is empty.
func (c changedFiles) add(name string) {
	if name == "" {
		return
	}
	c.files[name] = true
	for dir := path.Dir(name); dir != "." && !c.directories[dir]; dir = path.Dir(dir) {
		c.directories[dir] = true
	}
}

// has reports whether a file has changed, or one in a directory. What is below a link that has
// changed has changed too.
func (c changedFiles) has(name string) bool {
	if c.directories[name] {
		return true
	}
	for ; name != "" && name != "."; name = path.Dir(name) {
		if c.files[name] {
			return true
		}
	}
	return false
}
