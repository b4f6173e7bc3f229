// Package snapshot saves the data of a server in a file, reads such files, and makes the data
// of an embedded etcd of them.
//
// A file is a snapshot of etcd: a bbolt database, followed by its SHA-256 checksum. etcdutl
// reads it like any other. What Espalier adds is a [Manifest] in a bucket of its own, which
// etcd ignores. The checksum covers the manifest too.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	etcdschema "go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// Format is the version of the format of files that this package writes, and the newest that
// it reads.
const Format = 1

// sector is the unit of a database's size. The checksum after the database is recognized by
// the size of the file.
const sector = 512

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
	// Espalier is the version of the program that wrote the file, and Etcd the version of the
	// etcd that the data is from.
	Espalier string `json:"espalier"`
	Etcd     string `json:"etcd"`
	// Prefix is the prefix of all resource keys, and Semantics the schema semantics of the
	// server that uses it.
	Prefix    string `json:"prefix"`
	Semantics string `json:"semantics"`
	// Revision is the revision of etcd.
	Revision int64 `json:"revision"`
	// Keys is the number of keys in etcd. CRDs and Objects are the numbers of CRDs and of
	// other resources below the prefix, and Encrypted that of encrypted ones among them.
	Keys      int `json:"keys"`
	CRDs      int `json:"crds"`
	Objects   int `json:"objects"`
	Encrypted int `json:"encrypted"`
	// leased is the number of keys with a lease, which disappear when it expires.
	leased int
}

// A Reason tells why a file is rejected.
type Reason int

// The reasons.
const (
	// Incomplete: the file has no checksum at its end, because it was cut off, or is something
	// else.
	Incomplete Reason = iota
	// Altered: the content does not have the checksum at the end of the file.
	Altered
	// Unreadable: the content has its checksum, but is not a database of etcd.
	Unreadable
	// NoManifest: the file is a snapshot of etcd without a manifest.
	NoManifest
	// Newer: a newer release wrote the file, or a newer etcd the data.
	Newer
	// Contradictory: the data is not what the manifest says.
	Contradictory
)

// Error is a file that is rejected.
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
	db   *bbolt.DB
	// checked is the manifest after Check.
	checked *Manifest
}

// Open verifies the checksum of a file and opens it. The file need not have a manifest: all
// snapshots of etcd can be opened.
func Open(path string) (*Snapshot, error) {
	if err := verify(path); err != nil {
		return nil, err
	}
	return open(path)
}

func open(path string) (*Snapshot, error) {
	s := &Snapshot{path: path}
	err := s.guard(func() (err error) {
		if s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second}); err != nil {
			return s.unreadable(err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// verify compares the checksum at the end of a file with its content.
func verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it is only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	content := info.Size() - sha256.Size
	switch {
	case !info.Mode().IsRegular():
		return &Error{path, Incomplete, "not a regular file"}
	case content <= 0 || content%sector != 0:
		return &Error{path, Incomplete, "the file has no checksum at its end: it was cut off, or it is not a snapshot of etcd"}
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, content); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	sum, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !bytes.Equal(sum, h.Sum(nil)) {
		return &Error{path, Altered, "the content does not match the checksum at the end of the file: it was cut off or altered"}
	}
	return nil
}

// Close closes the file.
func (s *Snapshot) Close() error { return s.db.Close() }

// unreadable returns the error of content that is not what etcd writes.
func (s *Snapshot) unreadable(reason any) *Error {
	return &Error{s.path, Unreadable, fmt.Sprintf("not a database of etcd: %v", reason)}
}

// guard calls f and turns a panic into an [Error]: bbolt trusts the content of its files, and
// reads beyond the end of one that contradicts itself.
func (s *Snapshot) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = s.unreadable(r)
		}
	}()
	return f()
}

// view calls f with the bucket of all keys.
func (s *Snapshot) view(f func(tx *bbolt.Tx, keys *bbolt.Bucket) error) error {
	return s.guard(func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			keys := tx.Bucket(etcdschema.Key.Name())
			if keys == nil {
				return s.unreadable("it has no keys")
			}
			return f(tx, keys)
		})
	})
}

// Manifest returns the manifest. It returns an [Error] if there is none, or if it was written
// by a newer release.
func (s *Snapshot) Manifest() (m Manifest, err error) {
	err = s.view(func(tx *bbolt.Tx, _ *bbolt.Bucket) error {
		var text []byte
		if b := tx.Bucket(manifestBucket); b != nil {
			text = b.Get(manifestKey)
		}
		if text == nil {
			return &Error{s.path, NoManifest, "the file has no manifest: it is a snapshot of etcd, but espalier backup has not written it"}
		}
		if err := json.Unmarshal(text, &m); err != nil {
			return &Error{s.path, Unreadable, fmt.Sprintf("cannot read the manifest: %v", err)}
		}
		if m.Format > Format {
			return &Error{s.path, Newer, fmt.Sprintf("the file has format %d, and this release reads formats up to %d: use espalier %s or later", m.Format, Format, m.Espalier)}
		}
		return nil
	})
	return m, err
}

// Revision returns the revision of etcd at the time of the snapshot.
func (s *Snapshot) Revision() (revision int64, err error) {
	err = s.view(func(tx *bbolt.Tx, keys *bbolt.Bucket) error {
		revision = revisionOf(tx, keys)
		return nil
	})
	return revision, err
}

// revisionOf returns the revision of the newest write. Compaction may have removed it.
func revisionOf(tx *bbolt.Tx, keys *bbolt.Bucket) int64 {
	revision := int64(1)
	if last, _ := keys.Cursor().Last(); last != nil {
		revision = mvcc.BytesToRev(last).Main
	}
	if meta := tx.Bucket(etcdschema.Meta.Name()); meta != nil {
		for _, name := range [][]byte{etcdschema.FinishedCompactKeyName, etcdschema.ScheduledCompactKeyName} {
			if v := meta.Get(name); v != nil {
				revision = max(revision, mvcc.BytesToRev(v).Main)
			}
		}
	}
	return revision
}

// Each calls f with each key of etcd and its latest value, from the most recently written to
// the oldest, until f returns an error. f must not keep kv.
//
// Each remembers a hash of 16 bytes for each key that it has seen.
func (s *Snapshot) Each(f func(kv *mvccpb.KeyValue) error) error {
	return s.view(func(_ *bbolt.Tx, keys *bbolt.Bucket) error {
		seen := map[[16]byte]struct{}{}
		c := keys.Cursor()
		for rev, value := c.Last(); rev != nil; rev, value = c.Prev() {
			kv := new(mvccpb.KeyValue)
			if err := proto.Unmarshal(value, kv); err != nil {
				return s.unreadable(fmt.Errorf("revision %d: %w", mvcc.BytesToRev(rev).Main, err))
			}
			h := fnv.New128a()
			h.Write(kv.Key)
			key := [16]byte(h.Sum(nil))
			if _, old := seen[key]; old {
				continue
			}
			seen[key] = struct{}{}
			if mvcc.IsTombstone(rev) {
				continue
			}
			if err := f(kv); err != nil {
				return err
			}
		}
		return nil
	})
}
