//go:build unix

package input

import (
	"errors"
	"syscall"
)

// readSmall reads a regular file of the given size with few system calls: package os would make twice
// as many, which take longer than to parse a small file. It returns false if that fails, or if the file
// has changed: the caller then reads it in the usual way. The text is in the memory of scratch, unless
// that is nil.
func readSmall(path string, size int64, scratch *scratch) ([]byte, bool) {
	// Anything but a regular file, which may have replaced it, does not block, and is not read.
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, false
	}
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	if syscall.Fstat(fd, &stat) != nil || stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Size != size {
		return nil, false
	}
	// There is room for more, so that a file that has grown is noticed.
	text := scratch.room(int(size) + 1)
	n, err := retry(func() (int, error) { return syscall.Read(fd, text) })
	return text[:size], err == nil && int64(n) == size
}

// retry repeats a system call that a signal has interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}
