//go:build linux || darwin

package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// checkOwner returns an error if a part of the data directory belongs to another user than the one with
// the given ID, as it does after a command was run as root. The server sets the mode of these parts, which
// only their owner and root can do. For everything else the mode decides.
func checkOwner(dir string, user int) error {
	if user == 0 {
		return nil
	}
	for _, name := range []string{"etcd", "pki"} {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrPermission) {
			path = dir // it hides its parts from all but its owner
			info, err = os.Stat(path)
		}
		if err != nil {
			continue // reported by the code that needs it
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != user {
			return fmt.Errorf("%s belongs to the user with ID %d, but the server runs as the user with ID %d: run it as the owner, or change the owner with chown -R %d %s",
				path, s.Uid, user, user, dir)
		}
	}
	return nil
}
