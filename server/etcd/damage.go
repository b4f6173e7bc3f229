package etcd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The bucket of the data, and the bucket and the key with the index of the last entry of the log
// that the database has.
var keyBucket, metaBucket, indexKey = schema.Key.Name(), schema.Meta.Name(), schema.MetaConsistentIndexKeyName

// DamagedError is returned by [Start] if a file of the database is damaged or incomplete.
type DamagedError struct {
	File string
	Err  error
}

// restoreAdvice is what to do if data is damaged.
const restoreAdvice = "restore a backup with \"espalier restore --force\", which keeps the old files in a directory beside the new ones"

// Error returns what is wrong, and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v: %s", e.File, e.Err, restoreAdvice)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// checkFiles returns an error if the files in a data directory are damaged, so that etcd would
// panic, or start without a part of the data:
//
//   - The pages of the database, see [pages].
//   - The end of the log. etcd takes a log that was cut off for one whose last write was
//     interrupted by a crash, and removes the rest. But the database never has an entry that is not
//     in the log.
//
// etcd itself checks the rest of the log when it reads it.
func checkFiles(dir string) error {
	db, logs := filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "member", "wal")
	files, err := filepath.Glob(filepath.Join(logs, "*.wal"))
	if err != nil {
		return err
	}
	slices.Sort(files) // the names begin with a number of fixed length
	info, err := os.Stat(db)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(files) == 0:
		return nil // a new directory
	case errors.Is(err, fs.ErrNotExist):
		return &DamagedError{db, errors.New("the file is missing, but its log exists")}
	case err != nil:
		return err
	case info.Size() == 0 && len(files) == 0:
		return nil // the first start was interrupted
	}
	index, err := checkPages(db)
	if err != nil {
		return unreadable(db, err)
	}
	if index == 0 {
		return nil // nothing was written yet
	}
	if len(files) == 0 {
		return &DamagedError{logs, errors.New("the log is missing")}
	}
	last, err := lastEntry(files, index)
	if err != nil {
		return unreadable(files[len(files)-1], err)
	}
	if last < index {
		return &DamagedError{files[len(files)-1], fmt.Errorf("the log ends with entry %d, and the database has entry %d", last, index)}
	}
	return nil
}

// unreadable returns the error of a file that cannot be read: one of the system, such as a missing
// permission, does not mean that its content is damaged.
func unreadable(file string, err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return &DamagedError{file, err}
}

// lastEntry returns the index of the last entry of a log. It reads the files from the one with the
// given entry on, mostly one.
func lastEntry(paths []string, index uint64) (last uint64, err error) {
	from := 0
	for i, path := range paths {
		var sequence, first uint64
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x-%016x.wal", &sequence, &first); err != nil {
			return 0, fmt.Errorf("unexpected name of a log: %w", err)
		}
		if first <= index {
			from = i
		}
	}
	var readers []fileutil.FileReader
	for _, path := range paths[from:] {
		file, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		defer func() { _ = file.Close() }() // it was only read
		readers = append(readers, fileutil.NewFileReader(file))
	}
	decoder := wal.NewDecoder(readers...)
	for {
		record := &walpb.Record{}
		switch err := decoder.Decode(record); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return last, nil // etcd repairs it
		case err != nil:
			return last, err
		}
		switch record.GetType() {
		case wal.CrcType:
			decoder.UpdateCRC(record.GetCrc())
		case wal.EntryType:
			entry := &raftpb.Entry{}
			if err := proto.Unmarshal(record.GetData(), entry); err != nil {
				return last, err
			}
			last = entry.GetIndex()
		case wal.SnapshotType:
			snapshot := &walpb.Snapshot{}
			if err := proto.Unmarshal(record.GetData(), snapshot); err != nil {
				return last, err
			}
			last = max(last, snapshot.GetIndex()) // of restored data, the first record
		}
	}
}
