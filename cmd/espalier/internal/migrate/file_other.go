//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package migrate

import "os"

// lock does nothing: the system has no advisory locks.
func lock(*os.File) error { return nil }

// syncDir does nothing: the system cannot sync directories.
func syncDir(string) error { return nil }
