//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package migrate

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file for this process. The lock ends with the process.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// syncDir makes the entry of a new file durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
