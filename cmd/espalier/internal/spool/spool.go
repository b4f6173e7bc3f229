// Package spool keeps text of any length until it is needed.
package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// Memory is the number of bytes that a spool keeps in memory.
const Memory = 1 << 20

// Spool keeps text in memory or, if it is large, in a temporary file. The zero value is empty
// and ready to use. A Spool is not safe for concurrent use, but its readers are.
type Spool struct {
	memory bytes.Buffer
	file   *os.File
	size   int64
}

// Size returns the number of bytes written.
func (s *Spool) Size() int64 { return s.size }

// Write appends text.
func (s *Spool) Write(p []byte) (int, error) {
	if s.memory.Len()+len(p) > Memory {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	s.size += int64(len(p))
	return s.memory.Write(p)
}

// spill moves the text in memory to the file.
func (s *Spool) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "espalier-*"); err != nil {
			return err
		}
		// Where the system allows it, the file disappears with the process, however it ends.
		_ = os.Remove(s.file.Name())
	}
	_, err = s.memory.WriteTo(s.file)
	return err
}

// Reader returns a reader of a part of the text. It can be used until the next call of Write
// or Close.
func (s *Spool) Reader(offset, length int64) (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory.Bytes()[offset : offset+length]), nil
	}
	if err := s.spill(); err != nil {
		return nil, err
	}
	return io.NewSectionReader(s.file, offset, length), nil
}

// Close removes the file.
func (s *Spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	if gone := os.Remove(s.file.Name()); gone != nil && !errors.Is(gone, os.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
