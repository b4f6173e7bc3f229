// Package archive writes archives whose bytes depend only on the names, modes and contents of
// their files and on a given time: not on the order of the files, on the user, or on the clock.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A File is an entry of an archive. Its content is Data, or that of the file Path if Path is set.
// A name that ends with / is a directory.
type File struct {
	Name string
	// Mode has the permissions. Directories and programs are usually 0755, other files 0644.
	Mode fs.FileMode
	Data []byte
	Path string
	// UID and GID are only written to tar archives.
	UID, GID int
}

// FromDir returns the regular files below dir, with names below prefix. Files that their owner may
// execute are 0755, others 0644.
func FromDir(dir, prefix string) (files []File, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", p)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		files = append(files, File{Name: path.Join(prefix, filepath.ToSlash(rel)), Mode: mode, Path: p})
		return nil
	})
	return files, err
}

// Open opens the content of f.
func (f File) Open() (io.ReadCloser, int64, error) {
	if f.Path == "" {
		return io.NopCloser(bytes.NewReader(f.Data)), int64(len(f.Data)), nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

// WriteTarGz writes a gzip-compressed tar archive to a new file.
func WriteTarGz(name string, files []File, mtime time.Time) error {
	return create(name, func(w io.Writer) error {
		// The header has neither a name nor a time: the archive has both.
		z, err := gzip.NewWriterLevel(w, gzip.DefaultCompression)
		if err != nil {
			return err
		}
		if err := Tar(z, files, mtime); err != nil {
			return err
		}
		return z.Close()
	})
}

// WriteTar writes a tar archive to a new file.
func WriteTar(name string, files []File, mtime time.Time) error {
	return create(name, func(w io.Writer) error { return Tar(w, files, mtime) })
}

// Tar writes a tar archive, with the files sorted by name.
func Tar(w io.Writer, files []File, mtime time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range sorted(files) {
		if err := addTar(t, f, mtime); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return t.Close()
}

func addTar(t *tar.Writer, f File, mtime time.Time) error {
	r, size, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: f.Name, Size: size, Mode: int64(f.Mode.Perm()),
		Uid: f.UID, Gid: f.GID, ModTime: mtime.UTC().Truncate(time.Second),
	}
	if f.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	if strings.HasSuffix(f.Name, "/") {
		h.Typeflag, h.Size = tar.TypeDir, 0
	}
	if err := t.WriteHeader(h); err != nil || h.Typeflag == tar.TypeDir {
		return err
	}
	_, err = io.Copy(t, r)
	return err
}

// WriteZip writes a zip archive to a new file.
func WriteZip(name string, files []File, mtime time.Time) error {
	return create(name, func(w io.Writer) error {
		z := zip.NewWriter(w)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		})
		for _, f := range sorted(files) {
			if err := addZip(z, f, mtime); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		return z.Close()
	})
}

func addZip(z *zip.Writer, f File, mtime time.Time) error {
	r, _, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: mtime.UTC()}
	h.SetMode(f.Mode.Perm())
	w, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return err
}

// Gzip compresses data, without a name or a time in the header.
func Gzip(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
}

// create writes a new file. It reports errors of Close, because a full disk may only show there.
func create(name string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
