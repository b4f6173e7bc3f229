package keyspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// Names in the database of etcd 3. A revision is the number of a transaction, an underscore and
// the number of a write in it; that of a deletion is marked.
const (
	keyBucket      = "key"
	metaBucket     = "meta"
	compactedName  = "finishedCompactRev"
	versionName    = "storageVersion"
	supportedMajor = "3."

	revisionLength = 8 + 1 + 8
	deletionMark   = 't'
)

// blockSize divides the size of every database: what is left of the size of a file is its
// checksum.
const blockSize = 512

// lockTimeout is the time to wait for the lock of a file that another process has open.
const lockTimeout = 2 * time.Second

// cancelled is the number of revisions after which a scan looks at its context.
const cancelled = 1024

// Errors about the file. Errors of OpenFile wrap them.
var (
	// ErrNotSnapshot is returned for a file that is no snapshot of an etcd 3.
	ErrNotSnapshot = errors.New("not a snapshot of etcd 3, as etcdctl snapshot save writes it")
	// ErrNoChecksum is returned for a file without a checksum: it was cut off, or copied from
	// a data directory.
	ErrNoChecksum = errors.New("the file has no checksum: it is cut off, or was copied from the data directory of etcd")
	// ErrAltered is returned for a file that does not have its checksum.
	ErrAltered = errors.New("the file does not match its checksum: it is cut off or altered")
	// ErrLocked is returned for a database that an etcd has open.
	ErrLocked = errors.New("the file is in use: save a snapshot with etcdctl snapshot save")
	// ErrDamaged is returned for a database with a part that cannot be read.
	ErrDamaged = errors.New("the database is damaged")
)

// VersionError is returned for a database that another version of etcd wrote.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the storage version %s is not supported: it must be %sx", e.Version, supportedMajor)
}

// FileOptions configures OpenFile.
type FileOptions struct {
	// SkipChecksum reads a file without verifying its checksum, which a file that was copied
	// from a data directory does not have.
	SkipChecksum bool
}

// File is a snapshot file. It implements [Reader].
type File struct {
	db        *bolt.DB
	seed      [2]maphash.Seed
	compacted int64
}

// OpenFile opens a snapshot as etcdctl writes it. It reads the whole file to verify its
// checksum. The file is not changed.
func OpenFile(ctx context.Context, path string, o FileOptions) (*File, error) {
	f, err := openFile(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func openFile(ctx context.Context, path string, o FileOptions) (_ *File, err error) {
	if err := verify(ctx, path, o.SkipChecksum); err != nil {
		return nil, err
	}
	f := &File{seed: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	err = guarded(func() (err error) {
		f.db, err = bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, ErrLocked
	case err != nil:
		return nil, fmt.Errorf("%w (%w)", ErrNotSnapshot, withoutPath(err))
	}
	if err := f.View(f.readMeta); err != nil {
		_ = f.db.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// verify reads a file and compares it with the checksum at its end.
func verify(ctx context.Context, path string, skip bool) error {
	file, err := os.Open(path)
	if err != nil {
		return withoutPath(err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return withoutPath(err)
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case skip:
		return nil
	case info.Size() < blockSize+sha256.Size:
		return ErrNotSnapshot
	case info.Size()%blockSize == 0:
		return ErrNoChecksum
	case info.Size()%blockSize != sha256.Size:
		return ErrAltered
	}
	hash := sha256.New()
	in := &interruptible{ctx, file}
	if _, err := io.CopyN(hash, in, info.Size()-sha256.Size); err != nil {
		return err
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(in, want[:]); err != nil {
		return err
	}
	if !bytes.Equal(hash.Sum(nil), want[:]) {
		return ErrAltered
	}
	return nil
}

// interruptible is a reader that ends with a context.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r *interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// withoutPath returns the reason of an error about a file.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// guarded calls f and returns an error if the database is damaged: bbolt panics then, and a page
// beyond the end of the file is a fault, because the file is mapped into memory.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	return f()
}

func (f *File) readMeta(tx *bolt.Tx) error {
	if tx.Bucket([]byte(keyBucket)) == nil {
		return ErrNotSnapshot
	}
	meta := tx.Bucket([]byte(metaBucket))
	if meta == nil {
		return ErrNotSnapshot
	}
	// Etcd records the version since 3.6; before, the format was the same.
	if v := string(meta.Get([]byte(versionName))); v != "" && !strings.HasPrefix(v, supportedMajor) {
		return &VersionError{v}
	}
	if rev := meta.Get([]byte(compactedName)); len(rev) >= revisionLength {
		f.compacted = int64(binary.BigEndian.Uint64(rev))
	}
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }

// View calls do with a transaction, for what Range and Get do not read. It returns the error of
// do, or an error if do cannot read the database.
func (f *File) View(do func(*bolt.Tx) error) error {
	return guarded(func() error { return f.db.View(do) })
}

// Get returns the entry of a key. It may read the whole file.
func (f *File) Get(ctx context.Context, key string) (Entry, bool, error) {
	for e, err := range f.Range(ctx, key) {
		if err != nil {
			return Entry{}, false, err
		}
		if e.Key == key {
			e.Value = bytes.Clone(e.Value)
			return e, true, nil
		}
	}
	return Entry{}, false, nil
}

// Range returns the entries whose keys begin with a prefix, from the newest revision to the
// oldest. It is one pass through the file, however many keys there are.
//
// The database is ordered by revision, so the first revision of a key that a pass sees is its
// newest. Range must remember that it has seen the key, but only while older revisions of it can
// follow: until it meets the creation of the key, and only for keys that were changed since the
// last compaction, which leaves one revision of each key.
func (f *File) Range(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		stopped := false
		// What the loop body does must not be mistaken for a damaged database: the iteration
		// steps are guarded, the yields are not.
		tx, err := f.db.Begin(false)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer func() { _ = tx.Rollback() }() // ends the reading
		scan := scan{file: f, cursor: tx.Bucket([]byte(keyBucket)).Cursor(), prefix: []byte(prefix), seen: map[[2]uint64]struct{}{}}
		for !stopped {
			var entry Entry
			var more bool
			err := guarded(func() (err error) {
				entry, more, err = scan.next(ctx)
				return err
			})
			switch {
			case err != nil:
				yield(Entry{}, err)
				return
			case !more:
				return
			}
			stopped = !yield(entry, nil)
		}
	}
}

// scan is a pass through the revisions, from the newest to the oldest.
type scan struct {
	file    *File
	cursor  *bolt.Cursor
	prefix  []byte
	started bool
	count   int
	// seen has hashes of the keys whose older revisions are skipped. The seeds are random, so
	// that nobody can choose keys with the same hash.
	seen map[[2]uint64]struct{}
}

// next returns the next entry with the prefix. more is false at the end.
func (s *scan) next(ctx context.Context) (entry Entry, more bool, err error) {
	for {
		if s.count++; s.count%cancelled == 0 {
			if err := ctx.Err(); err != nil {
				return Entry{}, false, err
			}
		}
		var at, data []byte
		if s.started {
			at, data = s.cursor.Prev()
		} else {
			at, data = s.cursor.Last()
			s.started = true
		}
		if at == nil {
			return Entry{}, false, nil
		}
		if len(at) < revisionLength {
			return Entry{}, false, fmt.Errorf("%w: a revision has %d bytes", ErrDamaged, len(at))
		}
		deleted := len(at) > revisionLength && at[revisionLength] == deletionMark
		revision := int64(binary.BigEndian.Uint64(at))
		kv, err := parseKeyValue(data)
		if err != nil {
			return Entry{}, false, fmt.Errorf("%w: revision %d: %w", ErrDamaged, revision, err)
		}
		if !bytes.HasPrefix(kv.key, s.prefix) || s.skip(kv, deleted, revision) {
			continue
		}
		return Entry{Key: string(kv.key), Value: kv.value, Revision: revision}, true, nil
	}
}

// skip reports whether a revision is not the newest of its key, or deletes it. It remembers the
// key if older revisions may follow.
func (s *scan) skip(kv keyValue, deleted bool, revision int64) bool {
	hash := [2]uint64{maphash.Bytes(s.file.seed[0], kv.key), maphash.Bytes(s.file.seed[1], kv.key)}
	_, seen := s.seen[hash]
	switch {
	case kv.version == 1:
		// The key was created here: what is older ends with a deletion.
		delete(s.seen, hash)
	case !seen && revision > s.file.compacted:
		s.seen[hash] = struct{}{}
	}
	return seen || deleted
}

// keyValue is the part of etcd's message KeyValue that is needed.
type keyValue struct {
	key, value []byte
	// version counts the writes since the key was created, from 1.
	version uint64
}

// parseKeyValue parses the message without copying it.
func parseKeyValue(data []byte) (kv keyValue, err error) {
	const keyField, versionField, valueField = 1, 4, 5
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return kv, protowire.ParseError(n)
		}
		data = data[n:]
		switch {
		case number == keyField && wire == protowire.BytesType:
			kv.key, n = protowire.ConsumeBytes(data)
		case number == valueField && wire == protowire.BytesType:
			kv.value, n = protowire.ConsumeBytes(data)
		case number == versionField && wire == protowire.VarintType:
			kv.version, n = protowire.ConsumeVarint(data)
		default:
			n = protowire.ConsumeFieldValue(number, wire, data)
		}
		if n < 0 {
			return kv, protowire.ParseError(n)
		}
		data = data[n:]
	}
	return kv, nil
}
