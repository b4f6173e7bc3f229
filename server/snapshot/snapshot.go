// Package snapshot saves the data of a server in a file, reads such files, and makes the data
// of an embedded etcd of them.
//
// A file is a snapshot of etcd: a bbolt database, followed by its SHA-256 checksum. etcdutl
// reads it like any other. What Espalier adds is a [Manifest] in a bucket of its own, which
// etcd ignores. The checksum covers the manifest too.
package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"

	"espalier.dev/server/keys"
	"espalier.dev/store/keyspace"
)

// Format is the version of the format of files that this package writes, and the newest that
// it reads.
const Format = 1

// The bucket and the key of the manifest.
var (
	manifestBucket = []byte("espalier.dev")
	manifestKey    = []byte("manifest")
)

// Manifest describes the data in a file.
type Manifest struct {
	// Format is the version of the file format, see [Format].
	Format int `json:"format"`
	// Created is the time of the backup.
	Created time.Time `json:"created"`
	// Espalier is the version of the program that wrote the file.
	Espalier string `json:"espalier"`
	// Etcd is the version of the etcd that the data is from.
	Etcd string `json:"etcd"`
	// Prefix is the prefix of all resource keys.
	Prefix string `json:"prefix"`
	// Semantics is the schema semantics of the server that uses the prefix.
	Semantics string `json:"semantics"`
	// Revision is the revision of etcd.
	Revision int64 `json:"revision"`
	// Keys is the number of keys in etcd.
	Keys int `json:"keys"`
	// CRDs is the number of CRDs below the prefix.
	CRDs int `json:"crds"`
	// Objects is the number of other objects below the prefix.
	Objects int `json:"objects"`
	// Encrypted is the number of encrypted CRDs and objects below the prefix.
	Encrypted int `json:"encrypted"`
	// leases is the number of leases. Keys disappear when theirs expires.
	leases int
}

// A Reason tells why a snapshot is rejected.
type Reason int

// The reasons.
const (
	// NoManifest: the file has no manifest that can be read.
	NoManifest Reason = iota
	// Newer: a newer release wrote the file, or a newer etcd the data.
	Newer
	// Contradictory: the data is not what the manifest says.
	Contradictory
)

// Error is a snapshot that is rejected, although its checksum is right.
type Error struct {
	Path   string
	Reason Reason
	// Detail is the end of the message.
	Detail string
}

// Error returns the message.
func (e *Error) Error() string { return e.Path + ": " + e.Detail }

// Snapshot is a file whose checksum has been verified. It is not safe for concurrent use.
type Snapshot struct {
	path string
	file *keyspace.File
	// checked is the manifest after Check.
	checked *Manifest
}

// Open verifies the checksum of a file and opens it. It returns the errors of
// [keyspace.OpenFile].
func Open(ctx context.Context, path string) (*Snapshot, error) {
	file, err := keyspace.OpenFile(ctx, path, keyspace.FileOptions{})
	if err != nil {
		return nil, err
	}
	return &Snapshot{path: path, file: file}, nil
}

// Close closes the file.
func (s *Snapshot) Close() error { return s.file.Close() }

// Manifest returns the manifest. It returns an [Error] if there is none, or if it was written
// by a newer release.
func (s *Snapshot) Manifest() (m Manifest, err error) {
	err = s.file.View(func(tx *bbolt.Tx) error {
		var text []byte
		if b := tx.Bucket(manifestBucket); b != nil {
			text = b.Get(manifestKey)
		}
		if text == nil {
			return &Error{s.path, NoManifest, "the file has no manifest: it is a snapshot of etcd, but espalier backup has not written it"}
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return &Error{s.path, NoManifest, fmt.Sprintf("cannot read the manifest: %v", err)}
		}
		if m.Format > Format {
			return &Error{s.path, Newer,
				fmt.Sprintf("the file has format %d, and this release reads formats up to %d: use espalier %s or later", m.Format,
					Format, m.Espalier)}
		}
		return nil
	})
	return m, err
}

// inspect sets the fields of a manifest that the data determines.
func (s *Snapshot) inspect(ctx context.Context, m *Manifest) error {
	err := s.file.View(func(tx *bbolt.Tx) error {
		m.Revision = revisionOf(tx)
		if leases := tx.Bucket(etcdschema.Lease.Name()); leases != nil {
			m.leases = leases.Stats().KeyN
		}
		return nil
	})
	if err != nil {
		return err
	}
	root := keys.NewRoot(m.Prefix)
	for e, err := range s.file.Range(ctx, "") {
		if err != nil {
			return err
		}
		m.count(e, keys.Prefix(root), root.CRDs())
	}
	return nil
}

// revisionOf returns the revision of the newest write. Compaction may have removed it.
func revisionOf(tx *bbolt.Tx) int64 {
	revision := int64(1)
	if last, _ := tx.Bucket(etcdschema.Key.Name()).Cursor().Last(); last != nil {
		revision = mvcc.BytesToRev(last).Main
	}
	meta := tx.Bucket(etcdschema.Meta.Name())
	for _, name := range [][]byte{etcdschema.FinishedCompactKeyName, etcdschema.ScheduledCompactKeyName} {
		if v := meta.Get(name); v != nil {
			revision = max(revision, mvcc.BytesToRev(v).Main)
		}
	}
	return revision
}
