package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"

	"espalier.dev/api"
	"espalier.dev/cmd/espalier/internal/workdir"
	"espalier.dev/crd"
)

// dump is a backup of objects as Velero writes it: an archive, or a directory with its content.
// The path of an object is
//
//	resources/PLURAL.GROUP[/VERSION]/namespaces/NAMESPACE/NAME.json
//	resources/PLURAL.GROUP[/VERSION]/cluster/NAME.json
//
// The same object can be there several times: without a version, with the preferred one (which
// is then marked), and with others. It is read once.
type dump struct {
	// dir is the directory that path is relative to.
	dir  workdir.Dir
	path string
	// layouts and definitions are nil before the first pass.
	layouts     map[string]string
	definitions []Object
}

// The parts of paths in a dump, and the maximum size of an object in it.
const (
	resourcesDir   = "resources"
	namespacesDir  = "namespaces"
	clusterDir     = "cluster"
	preferredMark  = "-preferredversion"
	maxDumpedBytes = 32 << 20
)

// ErrNotDump is returned for a file or directory that is no dump.
var ErrNotDump = errors.New("not a dump: it has no directory resources with objects, as in a backup of Velero")

// OpenDump returns a source that reads a dump. It fails if there is no such file or directory.
func OpenDump(dir workdir.Dir, path string) (Source, error) {
	if _, err := dir.Stat(path); err != nil {
		return nil, err
	}
	return &dump{dir: dir, path: path}, nil
}

// Stored is false: a dump has what the API server returned.
func (d *dump) Stored() bool { return false }

func (d *dump) Close() error { return nil }

// Semantics is not known.
func (d *dump) Semantics(context.Context) (string, error) { return "", nil }

// dumped is a file of a dump.
type dumped struct {
	// resource is PLURAL.GROUP, layout the directory of the version, or empty.
	resource, layout, namespace, name string
	where                             string
	size                              int64
	open                              func() (io.ReadCloser, error)
}

// parsePath returns the object that has a path in a dump. ok is false if it is the path of
// something else.
func parsePath(path string) (f dumped, ok bool) {
	parts := strings.Split(strings.TrimPrefix(path, "./"), "/")
	if len(parts) < 4 || parts[0] != resourcesDir {
		return f, false
	}
	f.resource, parts = parts[1], parts[2:]
	if parts[0] != namespacesDir && parts[0] != clusterDir {
		f.layout, parts = parts[0], parts[1:]
	}
	switch {
	case len(parts) == 3 && parts[0] == namespacesDir:
		f.namespace = parts[1]
	case len(parts) == 2 && parts[0] == clusterDir:
	default:
		return f, false
	}
	f.name, ok = strings.CutSuffix(parts[len(parts)-1], ".json")
	return f, ok
}

// better reports whether a layout is read rather than another one.
func better(a, b string) bool {
	if a == "" || b == "" {
		return a == "" && b != ""
	}
	preferredA, preferredB := strings.HasSuffix(a, preferredMark), strings.HasSuffix(b, preferredMark)
	if preferredA != preferredB {
		return preferredA
	}
	return a < b
}

// prepare reads the CRDs, and which layouts there are.
func (d *dump) prepare(ctx context.Context) error {
	if d.layouts != nil {
		return nil
	}
	layouts := map[string]string{}
	type key struct{ layout, name string }
	definitions, order := map[key]Object{}, []key(nil)
	err := d.walk(ctx, func(f dumped) error {
		if have, ok := layouts[f.resource]; !ok || better(f.layout, have) {
			layouts[f.resource] = f.layout
		}
		if f.resource != "customresourcedefinitions."+api.GroupName {
			return nil
		}
		src, err := f.read()
		if err != nil {
			return err
		}
		k := key{f.layout, f.name}
		order = append(order, k)
		definitions[k] = Object{Definition: f.name, Name: f.name, JSON: src, where: f.where}
		return nil
	})
	if err != nil {
		return err
	}
	if len(layouts) == 0 {
		return fmt.Errorf("%s: %w", d.path, ErrNotDump)
	}
	for _, k := range order {
		if k.layout == layouts["customresourcedefinitions."+api.GroupName] {
			d.definitions = append(d.definitions, definitions[k])
		}
	}
	d.layouts = layouts
	return nil
}

func (d *dump) Definitions(ctx context.Context) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		if err := d.prepare(ctx); err != nil {
			yield(Object{}, err)
			return
		}
		for _, o := range d.definitions {
			o.JSON = bytes.Clone(o.JSON)
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (d *dump) Objects(ctx context.Context, selected Selection) iter.Seq2[Object, error] {
	resources := map[string]*crd.Definition{}
	for _, def := range selected.Definitions {
		resources[def.GroupResource().String()] = def
	}
	return func(yield func(Object, error) bool) {
		stopped := false
		err := d.prepare(ctx)
		if err == nil {
			err = d.walk(ctx, func(f dumped) error {
				def := resources[f.resource]
				if def == nil || f.layout != d.layouts[f.resource] || !selected.has(f.namespace, f.name) {
					return nil
				}
				o := Object{Definition: def.Name(), Namespace: f.namespace, Name: f.name, where: f.where}
				var failure error
				src, err := f.read()
				switch {
				case errors.Is(err, errTooLarge):
					failure = &Failure{o, Unreadable, err}
				case err != nil:
					return err
				}
				if o.JSON = src; !yield(o, failure) {
					stopped = true
					return errStopped
				}
				return nil
			})
		}
		if err != nil && !stopped {
			yield(Object{}, err)
		}
	}
}

var errTooLarge = fmt.Errorf("the object is larger than %d MiB", maxDumpedBytes>>20)

func (f *dumped) read() ([]byte, error) {
	if f.size > maxDumpedBytes {
		return nil, errTooLarge
	}
	in, err := f.open()
	if err != nil {
		return nil, err
	}
	src, err := io.ReadAll(io.LimitReader(in, maxDumpedBytes+1))
	return src, errors.Join(err, in.Close())
}

// walk visits all objects of the dump.
func (d *dump) walk(ctx context.Context, visit func(dumped) error) error {
	info, err := d.dir.Stat(d.path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return d.archive(ctx, visit)
	}
	return d.dir.WalkDir(d.path, func(path string, entry fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		relative, err := filepath.Rel(d.path, path)
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, ok := parsePath(filepath.ToSlash(relative))
		if !ok {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f.where, f.size = path, info.Size()
		f.open = func() (io.ReadCloser, error) { return d.dir.Open(path) }
		return visit(f)
	})
}

// archive visits all objects of a tar file, which may be compressed.
func (d *dump) archive(ctx context.Context, visit func(dumped) error) error {
	file, err := d.dir.Open(d.path)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewReaderSize(file, 1<<16)
	in := io.Reader(buffered)
	if magic, _ := buffered.Peek(2); string(magic) == "\x1f\x8b" {
		if in, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%s: %w", d.path, err)
		}
	}
	for entries := tar.NewReader(in); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		header, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			// The checksum of compressed data is after the end of the archive.
			if _, err := io.Copy(io.Discard, in); err != nil {
				return d.cutOff(err)
			}
			return nil
		case errors.Is(err, tar.ErrHeader):
			return fmt.Errorf("%s: %w", d.path, ErrNotDump)
		case err != nil:
			return d.cutOff(err)
		}
		f, ok := parsePath(header.Name)
		if !ok || header.Typeflag != tar.TypeReg {
			continue
		}
		f.where, f.size = d.path+":"+header.Name, header.Size
		f.open = func() (io.ReadCloser, error) { return io.NopCloser(entries), nil }
		if err := visit(f); err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = d.cutOff(err)
			}
			return err
		}
	}
}

// cutOff returns the error of an archive that cannot be read to its end.
func (d *dump) cutOff(err error) error {
	return fmt.Errorf("%s: the archive is cut off or damaged: %w", d.path, err)
}
