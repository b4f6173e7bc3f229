package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"

	"espalier.dev/schema"
	"espalier.dev/server/etcd/memory"
	"espalier.dev/server/keys"
)

// SaveState writes the state of an etcd in memory to a file, in the format of [Save]. It has no
// history.
func SaveState(ctx context.Context, state *memory.State, o SaveOptions) (m Manifest, err error) {
	if err := o.checkPath(); err != nil {
		return m, err
	}
	root := keys.NewRoot(o.Prefix)
	m = Manifest{Format: Format, Created: time.Now().UTC().Truncate(time.Second), Espalier: o.Espalier, Etcd: etcdversion.Version, Prefix: root.Path()}
	for kv := range state.Items() {
		if string(kv.Key) == root.Semantics() {
			m.Semantics = string(kv.Value)
		}
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
	if err := f.Close(); err != nil {
		return m, err
	}
	if err := writeState(temp, state); err != nil {
		return m, fmt.Errorf("write the data: %w", err)
	}
	if err := m.inspect(ctx, temp); err != nil {
		return m, fmt.Errorf("write the data: %w", err)
	}
	if err := m.add(temp); err != nil {
		return m, fmt.Errorf("add the manifest: %w", err)
	}
	return m, o.place(temp)
}

// writeState writes a state as a database of etcd, followed by its checksum.
func writeState(path string, state *memory.State) (err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	err = writeBuckets(db, state)
	size := int64(0)
	if err == nil {
		err = db.View(func(tx *bbolt.Tx) error {
			size = tx.Size()
			return nil
		})
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// bbolt extends files by more than it needs.
	if err := f.Truncate(size); err != nil {
		return err
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	_, err = f.Write(h.Sum(nil))
	return err
}

// writeBuckets writes the buckets of etcd: keys by their revisions, leases, and the revision, up to
// which the history is compacted.
func writeBuckets(db *bbolt.DB, state *memory.State) error {
	items := slices.SortedStableFunc(state.Items(), func(a, b *mvccpb.KeyValue) int {
		return int(min(1, max(-1, a.ModRevision-b.ModRevision)))
	})
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, b := range etcdschema.AllBuckets {
			if _, err := tx.CreateBucketIfNotExists(b.Name()); err != nil {
				return err
			}
		}
		for l := range state.Leases() {
			value, err := proto.Marshal(&leasepb.Lease{ID: l.ID, TTL: l.TTL, RemainingTTL: l.Remaining})
			if err != nil {
				return err
			}
			if err := tx.Bucket(etcdschema.Lease.Name()).Put(binary.BigEndian.AppendUint64(nil, uint64(l.ID)), value); err != nil {
				return err
			}
		}
		meta, revision := tx.Bucket(etcdschema.Meta.Name()), revisionKey(state.Revision(), 0)
		applied := binary.BigEndian.AppendUint64(nil, uint64(state.Revision()))
		return errors.Join(
			meta.Put(etcdschema.FinishedCompactKeyName, revision),
			meta.Put(etcdschema.ScheduledCompactKeyName, revision),
			meta.Put(etcdschema.MetaConsistentIndexKeyName, applied),
			meta.Put(etcdschema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, 1)))
	})
	sub, last := int64(0), int64(0)
	for part := range slices.Chunk(items, batch) {
		if err != nil {
			return err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(etcdschema.Key.Name())
			b.FillPercent = 0.9 // keys are in order
			for _, kv := range part {
				if sub++; kv.ModRevision != last {
					sub, last = 0, kv.ModRevision
				}
				value, err := proto.Marshal(kv)
				if err != nil {
					return err
				}
				if err := b.Put(revisionKey(kv.ModRevision, sub), value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return err
}

func revisionKey(main, sub int64) []byte {
	return mvcc.RevToBytes(mvcc.Revision{Main: main, Sub: sub}, mvcc.NewRevBytes())
}

// PrefixError is returned for a file whose resource keys have another prefix than expected.
type PrefixError struct{ Path, Have, Want string }

// Error returns what is wrong.
func (e *PrefixError) Error() string {
	return fmt.Sprintf("%s: the keys of the file have the prefix %s, not %s", e.Path, e.Have, e.Want)
}

// SemanticsError is returned for a file whose data has other schema semantics than expected.
type SemanticsError struct{ Path, Have, Want string }

// Error returns what is wrong.
func (e *SemanticsError) Error() string {
	return fmt.Sprintf("%s: the data has the semantics %s, not %s", e.Path, e.Have, e.Want)
}

// Load returns the data of a file for an etcd in memory: of one that [Save] or [SaveState] has
// written, or of a snapshot of another etcd, such as that of a Kubernetes cluster, with the same prefix of
// keys. It verifies the file first. Only a file with a manifest is known to have semantics. The
// revision is that of the file, and there is no history.
func Load(ctx context.Context, path, prefix string, semantics schema.Semantics) (_ *memory.State, err error) {
	s, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m, err := s.Manifest()
	rejected := (*Error)(nil)
	foreign := errors.As(err, &rejected) && rejected.Reason == NoManifest
	switch root := keys.NewRoot(prefix).Path(); {
	case foreign:
	case err != nil:
		return nil, err
	case m.Semantics != semantics.String():
		return nil, &SemanticsError{path, m.Semantics, semantics.String()}
	case m.Prefix != root:
		return nil, &PrefixError{path, m.Prefix, root}
	default:
		if m, err = s.Check(ctx, nil); err != nil {
			return nil, err
		}
	}
	state, err := s.state(ctx, keys.NewRoot(prefix))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if foreign && !hasPrefix(state, string(keys.NewRoot(prefix))) {
		return nil, fmt.Errorf("%s: the file has no keys with the prefix %s: set the one that the cluster uses with --etcd-prefix", path, prefix)
	}
	return state, nil
}

func hasPrefix(state *memory.State, prefix string) bool {
	for kv := range state.Items() {
		if bytes.HasPrefix(kv.Key, []byte(prefix)) {
			return true
		}
	}
	return false
}

// state reads all keys, but not the registrations of servers: they would never expire.
func (s *Snapshot) state(ctx context.Context, root keys.Root) (out *memory.State, err error) {
	var items []*mvccpb.KeyValue
	for e, err := range s.file.Range(ctx, "") {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(e.Key, root.Servers()) || e.Key == root.OnlyServer() {
			continue
		}
		// The file does not tell which write has created a key, unless it was the last one.
		items = append(items, &mvccpb.KeyValue{
			Key: []byte(e.Key), Value: bytes.Clone(e.Value), CreateRevision: e.Revision, ModRevision: e.Revision, Version: 1,
		})
	}
	err = s.file.View(func(tx *bbolt.Tx) error {
		out = memory.NewState(revisionOf(tx), slices.Values(items), noLeases)
		return nil
	})
	return out, err
}

// noLeases are the leases of a state that is read from a file: what would have expired since it was
// written stays.
func noLeases(func(memory.Lease) bool) {}

var _ iter.Seq[memory.Lease] = noLeases
