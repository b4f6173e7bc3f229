package migrate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"espalier.dev/cmd/espalier/internal/workdir"
)

// A backup is a file of JSON lines. Each line is a record and its checksum:
//
//	{"crc32c":"1badcafe","record":{"type":"before",…}}
//
// Lines are only ever appended. The record of an object is on the disk before the object is
// written. A crash can leave an incomplete last line, which says nothing about any write: it is
// removed when the file is opened again.

// recordType is the type of a record.
type recordType string

const (
	// recordFile is the first record. Its format is backupFormat.
	recordFile recordType = "file"
	// recordCRD begins a migration of the objects of a CRD. The object is the CRD.
	recordCRD recordType = "crd"
	// recordBefore has an object that is about to be written.
	recordBefore recordType = "before"
	// recordAfter has the result of the write: the resource version of the object after it.
	// It is that before the write if the object did not change.
	recordAfter recordType = "after"
	// recordUndone has the result of putting an object back. Unless fields were dropped, the
	// object is not put back again.
	recordUndone recordType = "undone"
	// recordDone ends a migration of all objects of a CRD.
	recordDone recordType = "done"
)

// backupFormat identifies the format of backups.
const backupFormat = "espalier.dev/migration-backup/v1"

// record is a record of a backup.
type record struct {
	Type   recordType `json:"type"`
	Format string     `json:"format,omitempty"`
	Server string     `json:"server,omitempty"`
	// CRD is the name of the CRD, Generation its generation.
	CRD        string `json:"crd,omitempty"`
	Generation int64  `json:"generation,omitempty"`
	// The object, or the CRD, is identified by the following.
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// New is the resource version after a write.
	New string `json:"newResourceVersion,omitempty"`
	// Object is the object as it was served, Stored as it was stored, if that is known.
	Object json.RawMessage `json:"object,omitempty"`
	Stored json.RawMessage `json:"stored,omitempty"`
	// NewUID is the UID of an object that was created again.
	NewUID string `json:"newUID,omitempty"`
	// Dropped is the number of fields that a write drops, if that is known: of the stored ones,
	// or in recordUndone of those in the backup.
	Dropped int `json:"dropped,omitempty"`
}

// line is a line of a backup.
type line struct {
	CRC32C string          `json:"crc32c"`
	Record json.RawMessage `json:"record"`
}

func checksum(data []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// BackupError is returned if a file is not a backup, or was altered.
type BackupError struct {
	File string
	// Line is the number of the line, or zero.
	Line   int
	Reason string
}

// Error says what is wrong with the file.
func (e *BackupError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("the backup %s %s", e.File, e.Reason)
	}
	return fmt.Sprintf("line %d of the backup %s %s", e.Line, e.File, e.Reason)
}

// Backup is a backup that is open for appending. It is safe for concurrent use.
type Backup struct {
	mu   sync.Mutex
	file *os.File
	// done has the state of each CRD.
	done map[string]*progress
}

// progress is what a backup says about the migration of a CRD.
type progress struct {
	// uid and generation identify the state of the CRD.
	uid        string
	generation int64
	// written are the objects that have been written under this state of the CRD.
	written map[version]bool
	// drops has the number of fields that were about to be dropped from objects. The same
	// version of an object is recorded again if a run ends before it is written.
	drops map[version]int
}

// version identifies a version of an object.
type version struct{ uid, resourceVersion string }

// OpenBackup opens a backup for appending, or creates it. The objects that it says were written
// are not written again. A backup has the objects of one server: those of a copy of the server can
// have the same UIDs.
func OpenBackup(dir workdir.Dir, path, server string) (*Backup, error) {
	f, err := dir.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b := &Backup{file: f, done: map[string]*progress{}}
	end, err := b.read(func(_ int64, r *record) error {
		if r.Type == recordFile && r.Server != server {
			return &BackupError{File: path, Reason: fmt.Sprintf("is of the server %s, not of %s: choose another file", r.Server, server)}
		}
		b.replay(r)
		return nil
	})
	if err == nil && end == 0 {
		if err = b.append(true, &record{Type: recordFile, Format: backupFormat, Server: server}); err == nil {
			err = syncDir(dir.Path(filepath.Dir(path)))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

// read locks the file, calls each for each record, with the position of its line, and removes an
// incomplete last line.
func (b *Backup) read(each func(at int64, r *record) error) (end int64, err error) {
	if err := lock(b.file); err != nil {
		return 0, fmt.Errorf("the backup %s is in use by another process: %w", b.file.Name(), err)
	}
	if end, err = readBackup(b.file, each); err != nil {
		return 0, err
	}
	if err := b.file.Truncate(end); err != nil {
		return 0, err
	}
	_, err = b.file.Seek(end, io.SeekStart)
	return end, err
}

// replay takes in a record.
func (b *Backup) replay(r *record) {
	switch r.Type {
	case recordCRD:
		if p := b.done[r.CRD]; p == nil || p.uid != r.UID || p.generation != r.Generation {
			b.done[r.CRD] = &progress{r.UID, r.Generation, map[version]bool{}, map[version]int{}}
		}
	case recordBefore:
		if p := b.done[r.CRD]; p != nil && r.Dropped > 0 {
			p.drops[version{r.UID, r.ResourceVersion}] = r.Dropped
		}
	case recordAfter:
		if p := b.done[r.CRD]; p != nil {
			p.written[version{r.UID, r.New}] = true
		}
	case recordUndone:
		for _, p := range b.done {
			delete(p.written, version{r.UID, r.ResourceVersion})
		}
	}
}

// begin records that a migration of a CRD begins.
func (b *Backup) begin(r *Resource) error {
	rec := &record{Type: recordCRD, CRD: r.CRD.Name, UID: string(r.CRD.UID), Generation: r.CRD.Generation,
		ResourceVersion: r.CRD.ResourceVersion, Object: r.JSON}
	b.replay(rec)
	return b.append(true, rec)
}

// isWritten reports whether a version of an object was written by an earlier run, under the
// same state of the CRD.
func (b *Backup) isWritten(crd string, o *Object) bool {
	p := b.done[crd]
	return p != nil && p.written[version{o.UID, o.ResourceVersion}]
}

// append appends records. With sync, it returns when they are on the disk.
func (b *Backup) append(sync bool, records ...*record) error {
	var text bytes.Buffer
	for _, r := range records {
		data, err := marshal(r)
		if err != nil {
			return err
		}
		data, err = marshal(&line{checksum(data), data})
		if err != nil {
			return err
		}
		text.Write(data)
		text.WriteByte('\n')
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.file.Write(text.Bytes()); err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	if !sync {
		return nil
	}
	if err := b.file.Sync(); err != nil {
		return fmt.Errorf("cannot write the backup: %w", err)
	}
	return nil
}

// marshal returns compact JSON. Raw messages keep their characters.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Close closes the backup.
func (b *Backup) Close() error { return b.file.Close() }

// readBackup reads a backup from its beginning and calls each for each record, with the position
// of its line. It returns the end of the last complete line. An empty file is an empty backup.
func readBackup(f *os.File, each func(at int64, r *record) error) (end int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(f, 1<<20)
	var torn *BackupError
	for number := 1; ; number++ {
		text, err := in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("cannot read the backup: %w", err)
		}
		if len(text) == 0 {
			break
		}
		if torn != nil {
			return 0, torn // a crash can only damage the last line
		}
		r, reason := parseLine(text)
		switch {
		case reason != "":
			torn = &BackupError{f.Name(), number, reason}
			if number == 1 {
				// A crash while the file was created leaves the beginning of the first line.
				if !bytes.HasPrefix([]byte(`{"crc32c":"`), text[:min(len(text), 11)]) || bytes.HasSuffix(text, []byte("\n")) {
					return 0, &BackupError{File: f.Name(), Reason: "is not a backup of espalier migrate"}
				}
			}
			continue
		case number == 1 && (r.Type != recordFile || r.Format != backupFormat):
			return 0, &BackupError{File: f.Name(), Reason: fmt.Sprintf("has the format %s, want %s", strconv.Quote(r.Format), backupFormat)}
		}
		if err := each(end, r); err != nil {
			return 0, err
		}
		end += int64(len(text))
	}
	return end, nil
}

// parseLine returns the record of a line, or why it has none.
func parseLine(text []byte) (*record, string) {
	if !bytes.HasSuffix(text, []byte("\n")) {
		return nil, "is incomplete"
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return nil, "is not JSON"
	}
	if checksum(l.Record) != l.CRC32C {
		return nil, "does not match its checksum"
	}
	r := &record{}
	if err := json.Unmarshal(l.Record, r); err != nil {
		return nil, "is not a record: " + err.Error()
	}
	return r, ""
}

// recordAt reads the record at a position.
func recordAt(f *os.File, at int64) (*record, error) {
	text, err := bufio.NewReaderSize(io.NewSectionReader(f, at, 1<<62), 1<<16).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("cannot read the backup: %w", err)
	}
	r, reason := parseLine(text)
	if reason != "" {
		return nil, &BackupError{File: f.Name(), Reason: fmt.Sprintf("has changed at position %d: the line %s", at, reason)}
	}
	return r, nil
}
