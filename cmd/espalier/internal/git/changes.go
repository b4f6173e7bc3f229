package git

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Change is a file that differs between a commit and the working tree. Paths have slashes and are
// relative to the root. Old is empty for an added file, and New for a removed one. A renamed file
// is a removed one and an added one.
type Change struct{ Old, New string }

// path returns the path of the file.
func (c Change) path() string {
	if c.New == "" {
		return c.Old
	}
	return c.New
}

// Changes returns the files that differ between a commit and the working tree, sorted by path.
// Files that are neither tracked nor ignored are added ones. Submodules are left out.
func (r *Repository) Changes(ctx context.Context, commit string) ([]Change, error) {
	if r.root == "" {
		return nil, fmt.Errorf("%s is a bare repository: it has no working tree", r.dir)
	}
	raw, err := r.run(ctx, nil, "diff-index", "-z", "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-relative",
		"--ignore-submodules=dirty", "--end-of-options", commit, "--")
	if err != nil {
		return nil, err
	}
	changes := map[string]Change{}
	// ids holds the IDs of old files. Their new content may be the same: the index knows only that
	// they were touched.
	ids := map[string]string{}
	for fields := split(raw); len(fields) >= 2; fields = fields[2:] {
		// :100644 100644 ID ID M
		about, name := strings.Fields(strings.TrimPrefix(fields[0], ":")), fields[1]
		if len(about) != 5 {
			return nil, fmt.Errorf("git diff-index: unexpected output %q", fields[0])
		}
		const none, link = "000000", "160000"
		c := Change{}
		if about[0] != none && about[0] != link {
			c.Old = name
		}
		if about[1] != none && about[1] != link {
			c.New = name
		}
		if about[4] == "U" {
			// A conflict: the line that follows, if any, tells more.
			if _, err := os.Lstat(r.file(name)); err == nil {
				c.New = name
			}
		}
		if c.New != "" && strings.Trim(about[3], "0") != "" {
			// A sparse checkout has files in the index that are not in the working tree.
			if _, err := os.Lstat(r.file(name)); err != nil {
				continue
			}
		}
		if known := changes[name]; c.Old == "" {
			c.Old = known.Old
		}
		if c == (Change{}) {
			continue
		}
		changes[name] = c
		if strings.HasPrefix(about[0], "100") { // a regular file
			ids[name] = about[2]
		}
	}
	others, err := r.run(ctx, nil, "ls-files", "-z", "--others", "--exclude-standard", "--full-name")
	if err != nil {
		return nil, err
	}
	for _, name := range split(others) {
		if !strings.HasSuffix(name, "/") { // a repository in the repository
			changes[name] = Change{Old: changes[name].Old, New: name}
		}
	}
	r.dropUnchanged(ctx, changes, ids)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(changes), func(a, b Change) int { return strings.Compare(a.path(), b.path()) }), nil
}

// Ignored returns the files and directories of the working tree that are ignored and not tracked.
// Paths are relative to the root; those of directories end with a slash.
func (r *Repository) Ignored(ctx context.Context) ([]string, error) {
	out, err := r.run(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--full-name")
	return split(out), err
}

// dropUnchanged removes the files with the content that they had. ids holds the IDs of the old
// contents.
func (r *Repository) dropUnchanged(ctx context.Context, changes map[string]Change, ids map[string]string) {
	var names []string
	var list bytes.Buffer
	for name := range ids {
		c := changes[name]
		if c.Old == "" || c.New == "" {
			continue
		}
		if info, err := os.Lstat(r.file(name)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		names = append(names, name)
		list.WriteString(quote(name) + "\n")
	}
	if len(names) == 0 {
		return
	}
	// After an error, those that follow count as changed.
	hashes, _ := r.run(ctx, list.Bytes(), "hash-object", "--stdin-paths")
	for i, hash := range strings.Fields(string(hashes)) {
		if i < len(names) && ids[names[i]] == hash {
			delete(changes, names[i])
		}
	}
}

// quote quotes a path as git reads it from lines.
func quote(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// file returns the path of a file of the working tree.
func (r *Repository) file(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// split splits a text at zero bytes.
func split(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}
