package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	clientv3 "go.etcd.io/etcd/client/v3"

	"espalier.dev/schema"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
	"espalier.dev/store/keyspace"
)

// SaveOptions configures Save.
type SaveOptions struct {
	// Path is the file to write.
	Path string
	// Force replaces an existing file.
	Force bool
	// Prefix is the prefix of all resource keys.
	Prefix string
	// Semantics is the expected schema semantics of the data; nil means any.
	Semantics *schema.Semantics
	// Espalier is the version of the program.
	Espalier string
}

// Save writes the data of etcd to a file that only its owner can read. All writes that were
// acknowledged before the call are in it. The file has its name when it is complete and on
// disk, not before. If Save is killed, a hidden temporary file may remain beside it.
//
// The client must have exactly one endpoint: all requests go to the same member. A member that
// lags behind the others catches up first.
func Save(ctx context.Context, client *clientv3.Client, o SaveOptions) (m Manifest, err error) {
	if err := o.checkPath(); err != nil {
		return m, err
	}
	m = Manifest{Format: Format, Created: time.Now().UTC().Truncate(time.Second), Espalier: o.Espalier, Prefix: keys.NewRoot(o.Prefix).Path()}
	acknowledged, err := m.ask(ctx, client)
	if err != nil {
		return m, err
	}
	if err := m.expect(o.Semantics); err != nil {
		return m, err
	}
	f, err := os.CreateTemp(filepath.Dir(o.Path), "."+filepath.Base(o.Path)+"-") // mode 0600
	if err != nil {
		return m, err
	}
	temp := f.Name()
	defer func() { err = errors.Join(err, removeIfExists(temp)) }()
	if err := errors.Join(download(ctx, client, f), f.Close()); err != nil {
		return m, fmt.Errorf("read the data from etcd: %w", err)
	}
	if err := m.inspect(ctx, temp); err != nil {
		return m, fmt.Errorf("read the data from etcd: %w", err)
	}
	if m.Revision < acknowledged {
		return m, fmt.Errorf("the snapshot of etcd has revision %d, but revision %d exists: run the command again", m.Revision, acknowledged)
	}
	if err := m.add(temp); err != nil {
		return m, fmt.Errorf("add the manifest: %w", err)
	}
	return m, o.place(temp)
}

// ask sets the fields of the manifest that etcd knows, and returns its revision. The answer is
// linearizable, so the member has applied all acknowledged writes.
func (m *Manifest) ask(ctx context.Context, client *clientv3.Client) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, etcd.ConnectTimeout)
	defer cancel()
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return 0, fmt.Errorf("read the version of etcd: %w", err)
	}
	m.Etcd = status.Version
	format, err := client.Get(ctx, keys.NewRoot(m.Prefix).Format())
	if err != nil {
		return 0, fmt.Errorf("read the format of the data: %w", err)
	}
	for _, kv := range format.Kvs {
		if err := keys.CheckFormat(kv.Value); err != nil {
			return 0, err
		}
	}
	got, err := client.Get(ctx, keys.NewRoot(m.Prefix).Semantics())
	if err != nil {
		return 0, fmt.Errorf("read the semantics recorded in etcd: %w", err)
	}
	if len(got.Kvs) == 0 {
		return 0, fmt.Errorf("etcd has no data of Espalier with the prefix %s: set the prefix of the server with --etcd-prefix", m.Prefix)
	}
	m.Semantics = string(got.Kvs[0].Value)
	return got.Header.Revision, nil
}

// expect returns an error if the data has other semantics than expected.
func (m *Manifest) expect(semantics *schema.Semantics) error {
	if semantics != nil && m.Semantics != semantics.String() {
		return fmt.Errorf("the data has the semantics %s, not %s", m.Semantics, semantics)
	}
	return nil
}

// download writes a snapshot of etcd to a file.
func download(ctx context.Context, client *clientv3.Client, to io.Writer) error {
	ctx, cancel := context.WithCancel(ctx) // ends the stream if writing fails
	defer cancel()
	got, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, got.Snapshot)
	return errors.Join(err, got.Snapshot.Close())
}

// inspect verifies the checksum of a file, and sets the fields of the manifest that its data
// determines.
func (m *Manifest) inspect(ctx context.Context, path string) error {
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(s.inspect(ctx, m), s.Close())
}

// count counts a key. The prefixes are those of all objects and of CRDs.
func (m *Manifest) count(e keyspace.Entry, objects, crds keys.Prefix) {
	m.Keys++
	switch {
	case !objects.Has(e.Key):
		return
	case crds.Has(e.Key):
		m.CRDs++
	default:
		m.Objects++
	}
	if keys.IsEncrypted(e.Value) {
		m.Encrypted++
	}
}

// add puts the manifest into a snapshot, with a new checksum at its end.
func (m *Manifest) add(path string) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it has been synced
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Truncate(info.Size() - sha256.Size); err != nil {
		return err
	}
	size, err := putManifest(path, text)
	if err != nil {
		return err
	}
	// bbolt extends files by more than it needs.
	if err := f.Truncate(size); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if _, err := f.Write(h.Sum(nil)); err != nil {
		return err
	}
	return f.Sync()
}

// putManifest writes the bucket of the manifest, and returns the size of the database.
func putManifest(path string, text []byte) (size int64, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(manifestBucket)
		if err != nil {
			return err
		}
		return b.Put(manifestKey, text)
	})
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			return nil
		})
	}
	return size, errors.Join(err, db.Close())
}

// checkPath returns an error if the file must not be written.
func (o SaveOptions) checkPath() error {
	info, err := os.Stat(o.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", o.Path)
	case !o.Force:
		return fmt.Errorf("%s exists: choose another name, or replace it with --force", o.Path)
	}
	return nil
}

// place gives a temporary file its name.
func (o SaveOptions) place(temp string) error {
	if !o.Force {
		// Unlike a rename, a link never replaces a file. Not all file systems have links.
		switch err := os.Link(temp, o.Path); {
		case err == nil:
			return syncDir(filepath.Dir(o.Path))
		case errors.Is(err, fs.ErrExist):
			return o.checkPath()
		}
		if err := o.checkPath(); err != nil {
			return err
		}
	}
	if err := os.Rename(temp, o.Path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(o.Path))
}

func removeIfExists(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
