package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// maxCopiedFiles and maxCopiedBytes limit what is copied for a program that renders it.
	maxCopiedFiles = 20_000
	maxCopiedBytes = 200 << 20
)

// copier copies files for a program that cannot read them where they are: they are in a revision or
// an archive, or the program would follow links out of them, wait for FIFOs, or write there.
type copier struct {
	ctx context.Context
	in  tree
	// root is the directory that links must not leave.
	root string
	// files and bytes are those that are left of the limits.
	files int
	bytes int64
	// above has the directories that are being copied: links can lead to them.
	above map[string]bool
}

func newCopier(ctx context.Context, in tree, root string) *copier {
	return &copier{ctx: ctx, in: in, root: root, files: maxCopiedFiles, bytes: maxCopiedBytes, above: map[string]bool{}}
}

// directory copies a directory and all that is below it.
func (c *copier) directory(from, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	real := c.in.real(from)
	if c.above[real] {
		return nil
	}
	c.above[real] = true
	defer delete(c.above, real)
	entries, err := c.in.readDir(from)
	if err != nil {
		return err
	}
	// Links can make few directories many.
	if c.files--; c.files < 0 {
		return fmt.Errorf("it has more than %d files", maxCopiedFiles)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == ".git" || !filepath.IsLocal(entry.Name()) {
			continue
		}
		name, target := c.in.join(from, entry.Name()), filepath.Join(to, entry.Name())
		info, err := c.in.stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a link that leads nowhere
		case err != nil:
			return err
		case entry.Type()&fs.ModeSymlink != 0 && !c.in.contains(c.root, name):
			return fmt.Errorf("the link %s leads out of %s", name, c.root)
		case info.IsDir():
			err = c.directory(name, target)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is not a regular file", name)
		default:
			err = c.file(name, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// file copies a file.
func (c *copier) file(from, to string) error {
	if c.files--; c.files < 0 {
		return fmt.Errorf("it has more than %d files", maxCopiedFiles)
	}
	open, err := c.in.open(from)
	if err != nil {
		return err
	}
	defer open.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(open, c.bytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if c.bytes -= n; c.bytes < 0 {
		return fmt.Errorf("it is larger than %d MiB", maxCopiedBytes>>20)
	}
	return nil
}
