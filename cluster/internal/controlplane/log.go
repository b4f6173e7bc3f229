package controlplane

import (
	"errors"
	"os"
	"sync"
)

// maxLog is the size at which a log file is renamed, and a new one begins.
const maxLog = 16 << 20

// log is a log file of limited size: the file, and the one before it with the suffix .old.
type log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
}

// openLog begins a new log file.
func openLog(path string) (*log, error) {
	l := &log{path: path}
	return l, l.rotate()
}

// rotate renames the current file, if there is one, and begins a new one.
func (l *log) rotate() error {
	l.close()
	if err := os.Rename(l.path, l.path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var err error
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	l.size = 0
	return err
}

// Write implements io.Writer. What cannot be written, for example because the disk is full, is lost:
// an error would end the program whose output it is.
func (l *log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil || l.size > 0 && l.size+int64(len(data)) > maxLog {
		if err := l.rotate(); err != nil {
			l.close()
			return len(data), nil
		}
	}
	n, _ := l.file.Write(data)
	l.size += int64(n)
	return len(data), nil
}

// close closes the file.
func (l *log) close() {
	if l.file != nil {
		_ = l.file.Close() // everything is written
		l.file = nil
	}
}
