package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/version"

	"espalier.dev/schema"
	"espalier.dev/server/etcd"
	"espalier.dev/server/keys"
)

// Bump is what a restore adds to the revision by default. etcdutl's documentation recommends
// the same for Kubernetes.
const Bump = 1_000_000_000

// batch is the number of keys in a transaction of bbolt, which keeps them in memory.
const batch = 1000

// Check returns the manifest if the data is what it says and has the expected semantics (nil
// means any), and if an embedded etcd of this release can use it. It reads the whole file.
func (s *Snapshot) Check(ctx context.Context, expected *schema.Semantics) (Manifest, error) {
	m, err := s.Manifest()
	if err != nil {
		return m, err
	}
	if err := m.expect(expected); err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	if s.checked != nil {
		return *s.checked, nil
	}
	found := Manifest{Prefix: m.Prefix}
	if err := s.inspect(ctx, &found); err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	format, _, err := s.file.Get(ctx, keys.NewRoot(m.Prefix).Format())
	if err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	if err := keys.CheckFormat(format.Value); err != nil {
		return m, &Error{s.path, Newer, err.Error()}
	}
	recorded, _, err := s.file.Get(ctx, keys.NewRoot(m.Prefix).Semantics())
	if err != nil {
		return m, fmt.Errorf("%s: %w", s.path, err)
	}
	semantics := string(recorded.Value)
	contradiction := func(format string, args ...any) (Manifest, error) {
		return m, &Error{s.path, Contradictory, fmt.Sprintf(format, args...)}
	}
	switch {
	case found.Revision != m.Revision:
		return contradiction("the manifest says revision %d, the data has revision %d", m.Revision, found.Revision)
	case semantics != m.Semantics:
		return contradiction("the manifest says semantics %q, the data has %q", m.Semantics, semantics)
	case found.Keys != m.Keys || found.CRDs != m.CRDs || found.Objects != m.Objects:
		return contradiction("the manifest says %d keys, %d CRDs and %d objects, the data has %d, %d and %d",
			m.Keys, m.CRDs, m.Objects, found.Keys, found.CRDs, found.Objects)
	}
	written, err := version.ParseSemantic(m.Etcd)
	if err != nil {
		return contradiction("the manifest says version %q of etcd, which is not a version", m.Etcd)
	}
	if own := version.MustParseSemantic(etcdversion.Version); written.Major() > own.Major() ||
		written.Major() == own.Major() && written.Minor() > own.Minor() {
		return m, &Error{s.path, Newer,
			fmt.Sprintf("the data is from etcd %s, and the embedded etcd is %s: use a newer release of espalier, or etcdutl and an external etcd", written, own)}
	}
	m.leases = found.leases
	s.checked = &m
	return m, nil
}

// RestoreOptions configures Restore.
type RestoreOptions struct {
	// Bump is added to the revision.
	Bump int64
	// Force replaces a directory that has data.
	Force bool
	// DryRun ignores the directory and writes nothing.
	DryRun bool
}

// Restored is the result of Restore.
type Restored struct {
	// Manifest is that of the snapshot.
	Manifest Manifest `json:"manifest"`
	// Revision is the revision of the restored etcd.
	Revision int64 `json:"revision"`
	// Replaced is the directory that has the replaced data, or empty.
	Replaced string `json:"replaced,omitempty"`
}

// Restore makes the data the directory of an embedded etcd, see [etcd.Config.Dir]. It writes
// the data to a directory beside it, opens it once with etcd, and then renames it. If Restore
// is killed, the directory has the old data or the new, and the other one may remain in a
// directory beside it, whose name begins with that of the directory.
//
// The member is a new one, and only keys and leases are those of the snapshot. The revision of
// etcd is higher by the bump, and the history before it is compacted: otherwise clients that
// have seen later revisions, which are lost, would take new objects for ones that they know,
// and would miss changes. Now they get the error Expired and list all objects again.
func (s *Snapshot) Restore(ctx context.Context, dir string, o RestoreOptions) (result Restored, err error) {
	m, err := s.Check(ctx, nil)
	if err != nil {
		return result, err
	}
	if o.Bump < 1 || o.Bump > math.MaxInt64/2-m.Revision {
		return result, fmt.Errorf("cannot add %d to the revision %d", o.Bump, m.Revision)
	}
	result = Restored{Manifest: m, Revision: m.Revision + o.Bump}
	if o.DryRun {
		return result, nil
	}
	if err := checkReplace(dir, o.Force); err != nil {
		return result, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-restore-") // mode 0700
	if err != nil {
		return result, err
	}
	defer func() {
		if result.Replaced == "" {
			err = errors.Join(err, os.RemoveAll(temp))
		}
	}()
	restored := filepath.Join(temp, filepath.Base(dir))
	if err := s.write(ctx, restored, m, result.Revision); err != nil {
		return result, err
	}
	// A rename replaces an empty directory, but no other.
	if err = os.Rename(restored, dir); err != nil && o.Force {
		if err := exchange(restored, dir); err != nil {
			return result, fmt.Errorf("exchange %s with the restored data: %w: move it away and run the command again", dir, err)
		}
		result.Replaced = dir + "-replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
		err = os.Rename(temp, result.Replaced)
	}
	return result, errors.Join(err, syncDir(filepath.Dir(dir)))
}

// checkReplace returns an error if a directory has data that must not be replaced.
func checkReplace(dir string, force bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (len(entries) == 0 || force) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%s has data: choose another data directory, or replace the data with --force", dir)
}

// write writes the data to a new directory.
func (s *Snapshot) write(ctx context.Context, dir string, m Manifest, revision int64) error {
	member, err := etcd.Start(ctx, etcd.Config{Dir: dir})
	if err != nil {
		return err
	}
	member.Close()
	if err := s.copyTo(ctx, filepath.Join(dir, "member", "snap", "db"), m, revision); err != nil {
		return fmt.Errorf("write the database: %w", err)
	}
	if err := m.try(ctx, dir, revision); err != nil {
		return fmt.Errorf("open the restored data: %w", err)
	}
	return syncTree(dir)
}

// copyTo copies keys and leases to the database of a new member.
func (s *Snapshot) copyTo(ctx context.Context, path string, m Manifest, revision int64) (err error) {
	// The transactions need not be durable before the last one: a crash leaves nothing that is
	// used.
	to, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true,
		FreelistType: bbolt.FreelistMapType, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	err = s.file.View(func(tx *bbolt.Tx) error {
		if err := copyBucket(ctx, to, etcdschema.Key.Name(), tx.Bucket(etcdschema.Key.Name())); err != nil {
			return err
		}
		if leases := tx.Bucket(etcdschema.Lease.Name()); leases != nil {
			return copyBucket(ctx, to, etcdschema.Lease.Name(), leases)
		}
		return nil
	})
	if err != nil {
		return err
	}
	restored, err := restoredKey(m, revision)
	if err != nil {
		return err
	}
	rev := mvcc.RevToBytes(mvcc.Revision{Main: revision}, mvcc.NewRevBytes())
	err = to.Update(func(tx *bbolt.Tx) error {
		return errors.Join(
			tx.Bucket(etcdschema.Key.Name()).Put(rev, restored),
			// etcd compacts when it starts.
			tx.Bucket(etcdschema.Meta.Name()).Put(etcdschema.ScheduledCompactKeyName, rev))
	})
	if err != nil {
		return err
	}
	return to.Sync()
}

// copyBucket copies the entries of a bucket.
func copyBucket(ctx context.Context, to *bbolt.DB, name []byte, from *bbolt.Bucket) error {
	c := from.Cursor()
	for k, v := c.First(); k != nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := to.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			b.FillPercent = 0.9 // keys are in order
			for n := 0; n < batch && k != nil; n++ {
				if err := b.Put(k, v); err != nil {
					return err
				}
				k, v = c.Next()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restoredKey returns a key and its value that record the restore, written at a revision. A
// revision needs a write.
func restoredKey(m Manifest, revision int64) ([]byte, error) {
	value, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(&mvccpb.KeyValue{
		Key:            []byte(keys.NewRoot(m.Prefix).Restored(revision)),
		Value:          value,
		CreateRevision: revision,
		ModRevision:    revision,
		Version:        1,
	})
}

// try starts etcd with the restored data, and compares it with the manifest.
func (m Manifest) try(ctx context.Context, dir string, revision int64) error {
	member, err := etcd.Start(ctx, etcd.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer member.Close()
	client, err := etcd.Connect(ctx, etcd.Endpoints{URLs: []string{member.Endpoint()}})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // all requests are finished
	all, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	want := int64(m.Keys) + 1 // that of the restore
	if all.Count > want || m.leases == 0 && (all.Count < want || all.Header.Revision != revision) {
		return fmt.Errorf("etcd has %d keys at revision %d instead of %d at %d", all.Count, all.Header.Revision, want, revision)
	}
	return nil
}

// syncTree makes all files in a directory durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		return syncDir(path)
	})
}
