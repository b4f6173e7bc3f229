package report

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// spoolMemory is the number of bytes that a spool keeps in memory.
const spoolMemory = 1 << 20

// spool holds text until it can be written. Text that does not fit in memory is kept in a
// temporary file.
type spool struct {
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Write appends text.
func (s *spool) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	if s.memory.Len()+len(p) <= spoolMemory {
		return s.memory.Write(p)
	}
	if err := s.spill(); err != nil {
		return 0, err
	}
	return s.memory.Write(p)
}

// spill moves the text in memory to the file.
func (s *spool) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "espalier-report-*"); err != nil {
			return err
		}
		// Where the system allows it, the file disappears with the process.
		_ = os.Remove(s.file.Name())
	}
	_, err = s.memory.WriteTo(s.file)
	return err
}

// copyTo writes a part of the text to w.
func (s *spool) copyTo(w io.Writer, offset, length int64) error {
	if s.file == nil {
		_, err := w.Write(s.memory.Bytes()[offset : offset+length])
		return err
	}
	if err := s.spill(); err != nil {
		return err
	}
	_, err := io.Copy(w, io.NewSectionReader(s.file, offset, length))
	return err
}

// close removes the file.
func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
